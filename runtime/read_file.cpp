#include "runtime/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/format/error.h"

namespace tw::runtime {
namespace {

using format::ErrorCode;

class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) {
      const int error = errno;
      if (error == ENOENT || error == ENOTDIR)
        format::fail(ErrorCode::kInvalidArgument, "there is no file '", path, "'");
      if (error == EACCES) format::fail(ErrorCode::kInvalidArgument, "'", path, "' may not be read");
      format::fail_errno(error, "cannot open '" + path + "'");
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }

  size_t size() const {
    struct stat status {};
    if (fstat(fd_, &status) != 0) format::fail_errno(errno, "cannot read '" + path_ + "'");
    if (!S_ISREG(status.st_mode)) format::fail(ErrorCode::kInvalidArgument, "'", path_, "' is not a regular file");
    return static_cast<size_t>(status.st_size);
  }

  void read(uint8_t* to, size_t bytes) {
    while (bytes > 0) {
      const ssize_t got = ::read(fd_, to, std::min(bytes, size_t{1} << 30));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) format::fail_errno(errno, "cannot read '" + path_ + "'");
      if (got == 0) format::fail(ErrorCode::kDamaged, "'", path_, "' became shorter while it was read");
      to += got;
      bytes -= static_cast<size_t>(got);
    }
  }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

Memory read_file(const std::string& path) {
  File file(path);
  Memory bytes = Memory::map(file.size(), "a file");
  file.read(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace tw::runtime
