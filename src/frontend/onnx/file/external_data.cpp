// External tensor data: the paths come from the model, so they are not trusted.
#include <fcntl.h>
#include <onnx-ml.pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "frontend/onnx/file/tensor_data.h"
#include "support/error.h"
#include "support/memory.h"

namespace tw::frontend {
namespace {

namespace fs = std::filesystem;

struct Location {
  std::string path;
  int64_t offset = 0;
  int64_t length = -1;  // -1: to the end of what the tensor needs
};

// Path by path element: a folder whose name merely begins alike is another one.
bool is_below(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

int64_t parse_size(const std::string& tensor, const std::string& key, const std::string& text) {
  int64_t value = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) {
    throw UserError("external data of tensor '{}': {} is '{}', not a number of bytes", tensor, key, text);
  }
  return value;
}

Location parse_location(const onnx::TensorProto& tensor) {
  Location result;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") result.path = entry.value();
    if (entry.key() == "offset") result.offset = parse_size(tensor.name(), "offset", entry.value());
    if (entry.key() == "length") result.length = parse_size(tensor.name(), "length", entry.value());
  }
  if (result.path.empty()) throw UserError("external data of tensor '{}' has no location", tensor.name());
  return result;
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  /// Where the system keeps it: a name through which the same file can be opened again, whatever happens to its path.
  std::string link() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

std::vector<std::byte> read_range(int fd, int64_t offset, int64_t bytes, const std::string& what) {
  std::vector<std::byte> data(bytes);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(fd, data.data() + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw UserError("{}: {}", what, n < 0 ? std::strerror(errno) : "the file became shorter");
    done += n;
  }
  return data;
}

}  // namespace

void ExternalData::check_location(const std::string& tensor, const std::string& location) const {
  const auto refuse = [&](std::string_view why) {
    throw UserError("external data of tensor '{}': path '{}' {}", tensor, location, why);
  };
  if (base_.empty()) {
    throw UserError("tensor '{}' has its data in file '{}', but the model was given without a folder", tensor,
                    location);
  }
  if (location.find('\0') != std::string::npos) {
    throw UserError("external data of tensor '{}': its path contains a NUL character", tensor);
  }
  const fs::path relative(location);
  if (relative.is_absolute()) refuse("is absolute; it must lie below the model's folder");
  for (const fs::path& part : relative) {
    if (part == "..") refuse("contains '..'; it must lie below the model's folder");
  }
}

// What has been opened is judged, not its path: nobody can put another file in its place in between. O_PATH opens
// neither devices nor pipes.
ExternalData::Opened ExternalData::open(const std::string& tensor, const std::string& location) const {
  const auto refuse = [&](const std::string& why) {
    throw UserError("external data of tensor '{}': path '{}' {}", tensor, location, why);
  };
  const File base(::open(base_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (base.fd() < 0) refuse(fmt::format("cannot be looked up: folder '{}': {}", base_, std::strerror(errno)));
  const File place(::openat(base.fd(), location.c_str(), O_PATH | O_CLOEXEC));
  if (place.fd() < 0) refuse(fmt::format("cannot be opened below '{}': {}", base_, std::strerror(errno)));
  std::error_code error;
  const fs::path folder = fs::read_symlink(base.link(), error), target = fs::read_symlink(place.link(), error);
  if (error) refuse(fmt::format("cannot be looked up: {}", error.message()));
  struct stat info = {};
  if (::fstat(place.fd(), &info) != 0) refuse(std::strerror(errno));
  if (!is_below(target, folder) && !is_in_link_folder(target)) {
    refuse(
        fmt::format("is a link to outside the model's folder, to '{}'; --allow-links names a folder that links may "
                    "lead into",
                    target.string()));
  }
  if (!S_ISREG(info.st_mode)) refuse("is not a regular file");
  if (info.st_nlink > 1 && !is_in_link_folder(target)) {
    refuse(
        fmt::format("has {} names (hard links), and the others may be outside the model's folder: copy it, or name its "
                    "folder with --allow-links",
                    info.st_nlink));
  }
  const int fd = ::open(place.link().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) refuse(fmt::format("cannot be opened: {}", std::strerror(errno)));
  return {fd, (folder / location).lexically_normal().string()};
}

bool ExternalData::is_in_link_folder(const fs::path& file) const {
  return std::ranges::any_of(link_folders_, [&](const std::string& folder) {
    std::error_code missing;
    const fs::path real = fs::canonical(folder, missing);
    return !missing && is_below(file, real);
  });
}

graph::Bytes ExternalData::read(const onnx::TensorProto& tensor, int64_t bytes) const {
  const Location location = parse_location(tensor);
  check_location(tensor.name(), location.path);
  const Opened opened = open(tensor.name(), location.path);
  const File file(opened.fd);
  const std::string what = fmt::format("external data of tensor '{}', file '{}'", tensor.name(), opened.path);
  struct stat info = {};
  if (::fstat(file.fd(), &info) != 0) throw UserError("{}: {}", what, std::strerror(errno));
  if (location.length >= 0 && location.length != bytes) {
    throw UserError("{}: length is {} bytes, the tensor needs {}", what, location.length, bytes);
  }
  if (location.offset > info.st_size || bytes > info.st_size - location.offset) {
    throw UserError("{}: {} bytes at offset {} go beyond the file's {} bytes", what, bytes, location.offset,
                    static_cast<int64_t>(info.st_size));
  }
  files_.insert(opened.path);
  std::weak_ptr<const std::span<const std::byte>>& known = ranges_[{info.st_dev, info.st_ino, location.offset, bytes}];
  if (graph::Bytes same = known.lock()) return same;
  require_memory(bytes, what);
  graph::Bytes data = share(read_range(file.fd(), location.offset, bytes, what));
  known = data;
  return data;
}

}  // namespace tw::frontend
