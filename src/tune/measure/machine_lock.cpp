#include "tune/measure/machine_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

namespace tw::tune {
namespace {

constexpr double kPollSeconds = 0.02;

}  // namespace

MachineLock::MachineLock(const std::string& path, double seconds, const std::function<bool()>& stop) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return;
  for (double waited = 0; flock(fd_, LOCK_EX | LOCK_NB) != 0 && waited < seconds; waited += kPollSeconds) {
    if (stop && stop()) return;
    const timespec pause = {0, static_cast<long>(kPollSeconds * 1e9)};
    nanosleep(&pause, nullptr);
  }
}

MachineLock::~MachineLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace tw::tune
