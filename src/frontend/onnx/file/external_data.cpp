// External tensor data: the paths come from the model, so they are not trusted.
#include <fcntl.h>
#include <onnx-ml.pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "frontend/onnx/file/tensor_data.h"
#include "support/error.h"

namespace tw::frontend {
namespace {

struct Location {
  std::string path;
  int64_t offset = 0;
  int64_t length = -1;  // -1: to the end of what the tensor needs
};

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
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

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

std::string ExternalData::resolve(const std::string& tensor, const std::string& location) const {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view why) {
    throw UserError("external data of tensor '{}': path '{}' {}", tensor, location, why);
  };
  if (location.find('\0') != std::string::npos) {
    throw UserError("external data of tensor '{}': its path contains a NUL character", tensor);
  }
  const fs::path relative(location);
  if (relative.is_absolute()) refuse("is absolute; it must lie below the model's folder");
  for (const fs::path& part : relative) {
    if (part == "..") refuse("contains '..'; it must lie below the model's folder");
  }
  std::error_code error;
  const fs::path base = fs::canonical(base_, error);
  if (error) refuse(fmt::format("cannot be looked up: folder '{}': {}", base_, error.message()));
  const fs::path full = fs::canonical(base / relative, error);
  if (error) refuse(fmt::format("cannot be opened below '{}': {}", base_, error.message()));
  const auto [rest, unused] = std::mismatch(base.begin(), base.end(), full.begin(), full.end());
  if (rest != base.end()) refuse("is a link to outside the model's folder");
  return full.string();
}

graph::Bytes ExternalData::read(const onnx::TensorProto& tensor, int64_t bytes) const {
  const Location location = parse_location(tensor);
  if (base_.empty()) {
    throw UserError("tensor '{}' has its data in file '{}', but the model was given without a folder", tensor.name(),
                    location.path);
  }
  const std::string path = resolve(tensor.name(), location.path);
  const std::string what = fmt::format("external data of tensor '{}', file '{}'", tensor.name(), path);
  const File file(path);
  struct stat info = {};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) throw UserError("{}: {}", what, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) throw UserError("{}: not a regular file", what);
  if (location.length >= 0 && location.length != bytes) {
    throw UserError("{}: length is {} bytes, the tensor needs {}", what, location.length, bytes);
  }
  if (location.offset > info.st_size || bytes > info.st_size - location.offset) {
    throw UserError("{}: {} bytes at offset {} go beyond the file's {} bytes", what, bytes, location.offset,
                    static_cast<int64_t>(info.st_size));
  }
  std::vector<std::byte> data = read_range(file.fd(), location.offset, bytes, what);
  read_.insert(path);
  return std::make_shared<const std::vector<std::byte>>(std::move(data));
}

}  // namespace tw::frontend
