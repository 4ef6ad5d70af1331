// One worker process, seen from the compiler: questions with deadlines; restarts; what happened to it becomes an
// Outcome.
#pragma once
#include <optional>

#include "measure/messages.h"
#include "support/child_process.h"

namespace tw::measure {

struct Reply {
  Outcome outcome = Outcome::kMeasured;  // of the question: kMeasured when it was answered
  std::string reason;
  Answer answer;
};

struct WorkerOptions {
  std::vector<std::string> command;  // that serves: {"/usr/bin/tilewright", "worker"}
  double load_seconds = 30;          // to bring buffers into place; nothing of a candidate runs then
  double run_seconds = 2;            // to run a candidate, besides kPatience times its expected time
};

class WorkerClient {
 public:
  explicit WorkerClient(std::vector<std::string> command) : command_(std::move(command)) {}

  /// Starts a worker unless one is there; false when none can be had, and why() says so. Failing once, it fails always.
  bool start();
  const std::string& why() const { return why_; }
  /// Number of threads of the worker that runs.
  int threads() const { return threads_; }
  /// Number that changes with every new process: its workloads are gone then.
  int generation() const { return generation_; }

  /// Asks and waits up to `seconds`. After kCrashed, kTimedOut and kGarbage there is no worker any more. A worker that
  /// somebody else killed answers kNotMeasured.
  Reply ask(const Request& request, double seconds);

 private:
  Reply fail(Delivery delivery, double seconds);

  std::vector<std::string> command_;
  std::optional<ChildProcess> process_;
  std::string why_;  // no worker can be had; empty: not known yet
  int threads_ = 0;
  int generation_ = 0;
};

}  // namespace tw::measure
