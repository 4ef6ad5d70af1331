// A child process that talks to us through one socket, which is its standard input; its other output is thrown away.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "support/error.h"

namespace tw {

/// Whether others send `signal` (a user, a system without memory), where what a program does wrong raises another one.
bool is_sent_by_others(int signal);

class ChildProcess {
 public:
  /// Executes command[0] (a path, or a name that PATH knows) with the other words as arguments, in a process group of
  /// its own: what a terminal sends to ours does not reach it. A reason when the system refuses.
  static Result<ChildProcess> start(const std::vector<std::string>& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  /// As end().
  ~ChildProcess();

  /// Our end of the socket, not blocking.
  int channel() const { return channel_; }
  /// Ends the child and its group (SIGKILL) and says how the child ended, before if it did so by itself: "signal 11
  /// (Segmentation fault)", "exit code 3". Afterwards there is no child.
  std::string end();
  /// Waits up to `seconds` for the child to end by itself; the signal that ended it, 0 for an exit, -1 if it still
  /// runs.
  int wait_signal(double seconds);

 private:
  ChildProcess(pid_t pid, int channel) : pid_(pid), channel_(channel) {}
  void release();
  pid_t pid_ = -1;
  int channel_ = -1;
};

}  // namespace tw
