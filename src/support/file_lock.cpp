#include "support/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

namespace tw {
namespace {

constexpr double kPollSeconds = 0.02;

}  // namespace

FileLock::FileLock(const std::string& path, double seconds, const std::function<bool()>& stop) {
  held_ = path.empty();
  if (held_) return;
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return;
  for (double waited = 0;; waited += kPollSeconds) {
    held_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (held_ || waited >= seconds || (stop && stop())) return;
    const timespec pause = {0, static_cast<long>(kPollSeconds * 1e9)};
    nanosleep(&pause, nullptr);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace tw
