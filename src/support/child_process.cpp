#include "support/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

extern char** environ;

namespace tw {
namespace {

constexpr double kPollSeconds = 0.001;  // between two looks whether a child has ended

class SpawnSettings {
 public:
  SpawnSettings(int channel) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, channel, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::string describe(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

bool is_sent_by_others(int signal) {
  const auto own = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
  return signal > 0 && std::ranges::find(own, signal) == own.end();
}

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command) {
  TW_CHECK(!command.empty(), "no command to start");
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return declined("no socket for '{}': {}", command[0], strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = -1;
  const SpawnSettings settings(ends[1]);
  const int failed = posix_spawnp(&pid, words[0], &settings.actions, &settings.attributes, words.data(), environ);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    return declined("cannot start '{}': {}", command[0], strerror(failed));
  }
  return ChildProcess(pid, ends[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  release();
  pid_ = std::exchange(other.pid_, -1);
  channel_ = std::exchange(other.channel_, -1);
  return *this;
}

ChildProcess::~ChildProcess() { release(); }

void ChildProcess::release() {
  if (pid_ > 0) end();
  if (channel_ >= 0) close(std::exchange(channel_, -1));
}

int ChildProcess::wait_signal(double seconds) {
  for (double waited = 0; pid_ > 0; waited += kPollSeconds) {
    siginfo_t ended = {};  // the child stays, so that its group is nobody else's
    if (waitid(P_PID, pid_, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == pid_)
      return ended.si_code == CLD_EXITED ? 0 : ended.si_status;
    if (waited >= seconds) break;
    const timespec pause = {0, static_cast<long>(kPollSeconds * 1e9)};
    nanosleep(&pause, nullptr);
  }
  return -1;
}

std::string ChildProcess::end() {
  if (pid_ <= 0) return "no process";
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  return describe(status);
}

}  // namespace tw
