#include "support/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>

namespace tw {
namespace {

constexpr double kPollSeconds = 0.02;
constexpr double kNoticeSeconds = 0.5;  // of waiting before it is spoken of

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The process that /proc/locks names for the file; 0 where it names none that we can see.
int holder_of(int fd) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return 0;
  const std::string wanted = fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, place;
    int process = 0;
    words >> number >> kind >> mode >> access >> process >> place;
    if (words && kind == "FLOCK" && place == wanted) return process;
  }
  return 0;
}

std::string name_of(int process) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), name);
  return name;
}

}  // namespace

FileLock::FileLock(const std::string& path, const LockWait& wait) : path_(path) {
  held_ = path.empty();
  if (held_) return;
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return;
  const double start = now_seconds();
  bool told = false;
  while (!try_lock()) {
    const double waited = now_seconds() - start;
    if (waited >= wait.seconds || (wait.stop && wait.stop())) return;
    if (waited >= kNoticeSeconds && wait.notice && !told) {
      told = true;
      wait.notice(fmt::format("waiting up to {:g} s for '{}', which {} holds", wait.seconds, path_, holder()));
    }
    const timespec pause = {0, static_cast<long>(kPollSeconds * 1e9)};
    nanosleep(&pause, nullptr);
  }
}

// Whether there is no need to wait any longer: the lock is ours, or there is none to be had.
bool FileLock::try_lock() {
  const bool taken = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  held_ = taken || (errno != EWOULDBLOCK && errno != EINTR);
  return held_;
}

std::string FileLock::holder() const {
  const int process = fd_ < 0 ? 0 : holder_of(fd_);
  if (process <= 0) return "another process";
  const std::string name = name_of(process);
  return name.empty() ? fmt::format("process {}", process) : fmt::format("process {} ({})", process, name);
}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace tw
