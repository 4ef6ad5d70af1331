#include "driver/cache_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace tw::driver {

void write_cache_file(const std::string& path, std::span<const uint8_t> bytes) {
  static std::atomic<int64_t> files = 0;  // threads write at the same time too
  const std::string temporary = fmt::format("{}.tmp.{}.{}", path, getpid(), files++);
  const auto failure = [](const std::string& name, int code) {
    return std::filesystem::filesystem_error(name, std::error_code(code, std::generic_category()));
  };
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) throw failure(temporary, errno);
  int failed = 0;
  while (!bytes.empty() && failed == 0) {
    const ssize_t written = write(fd, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (written > 0) bytes = bytes.subspan(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR) failed = errno;
  }
  close(fd);
  if (failed == 0 && rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return;
  unlink(temporary.c_str());
  throw failure(path, failed);
}

void touch_cache_file(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace tw::driver
