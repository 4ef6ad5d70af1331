#include "tests/onnx/node_tests/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace tw::conformance {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxPeriods = 10;  // of SupervisorOptions::case_limit, on the clock

// What a child sends back for a case; the reason's bytes follow.
struct Reply {
  Verdict verdict;
  bool bound_constants;
  double milliseconds;
  size_t reason_bytes;
};

// Processor time that the process has had so far, all threads together.
std::chrono::nanoseconds processor_time(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// False at the end of the stream: the other side is gone.
bool read_all(int fd, void* data, size_t size) {
  for (auto* at = static_cast<char*>(data); size > 0;) {
    const ssize_t count = read(fd, at, size);
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool write_all(int fd, const void* data, size_t size) {
  for (const auto* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t count = send(fd, at, size, MSG_NOSIGNAL);
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// The child: answers case numbers until the parent closes the socket.
void serve(int fd, const std::vector<Case>& cases, const std::function<CaseRunner()>& make_runner) {
  const CaseRunner runner = make_runner();
  for (size_t index = 0; read_all(fd, &index, sizeof(index));) {
    const Clock::time_point start = Clock::now();
    const Outcome outcome = runner(cases.at(index));
    const std::chrono::duration<double, std::milli> time = Clock::now() - start;
    const Reply reply{outcome.verdict, outcome.bound_constants, time.count(), outcome.reason.size()};
    if (!write_all(fd, &reply, sizeof(reply)) || !write_all(fd, outcome.reason.data(), outcome.reason.size())) return;
  }
}

class Supervisor {
 public:
  Supervisor(const std::vector<Case>& cases, const std::function<CaseRunner()>& make_runner,
             const SupervisorOptions& options)
      : cases_(cases), make_runner_(make_runner), options_(options), outcomes_(cases.size(), {Verdict::kNotRun}) {}

  std::vector<Outcome> run() {
    children_.resize(std::min(cases_.size(), static_cast<size_t>(std::max(1, options_.jobs))));
    for (Child& child : children_) give_next(child);
    while (std::ranges::any_of(children_, [](const Child& child) { return child.pid > 0; })) wait_and_collect();
    return std::move(outcomes_);
  }

 private:
  struct Child {
    pid_t pid = -1;  // -1: none runs
    int fd = -1;
    size_t current = 0;               // case that it works on
    Clock::time_point begun;          // when the case was given out
    Clock::time_point deadline;       // when its time is looked at next
    std::chrono::nanoseconds before;  // its processor time when the case began
    int periods = 0;                  // of the limit that have passed since
  };

  void start(Child& child) {
    int ends[2];
    TW_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no socket pair");
    const pid_t pid = fork();
    TW_CHECK(pid >= 0, "cannot fork");
    if (pid == 0) {
      close(ends[0]);
      // Held by this child too, the parent's ends of the others would never tell them that the parent is gone.
      for (const Child& other : children_) {
        if (other.fd >= 0) close(other.fd);
      }
      serve(ends[1], cases_, make_runner_);
      _exit(0);
    }
    close(ends[1]);
    child.pid = pid;
    child.fd = ends[0];
  }

  // The next case goes to `child`, which is started if need be and ended if there is none.
  void give_next(Child& child) {
    const bool time_is_up = options_.time_limit && Clock::now() - start_ >= *options_.time_limit;
    if (next_ == cases_.size() || time_is_up) {
      if (child.pid > 0) end(child);
      return;
    }
    if (child.pid < 0) start(child);
    child.current = next_++;
    child.begun = Clock::now();
    child.deadline = child.begun + options_.case_limit;
    child.before = processor_time(child.pid);
    child.periods = 0;
    // A child that is already gone is noticed by the read that follows.
    write_all(child.fd, &child.current, sizeof(child.current));
  }

  // Closes the socket and waits for the child; returns its wait status.
  int end(Child& child) {
    int status = 0;
    close(child.fd);
    waitpid(child.pid, &status, 0);
    child = {};
    return status;
  }

  void wait_and_collect() {
    std::vector<pollfd> polled;
    Clock::time_point first = next_progress_;
    for (const Child& child : children_) {
      polled.push_back({child.fd, POLLIN, 0});  // poll ignores a negative one
      if (child.pid > 0) first = std::min(first, child.deadline);
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
    poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(0, wait.count())));
    for (size_t i = 0; i < children_.size(); ++i) {
      if (children_[i].pid < 0) continue;
      if (polled[i].revents != 0) {
        collect(children_[i]);
      } else if (Clock::now() >= children_[i].deadline) {
        check_time(children_[i]);
      }
    }
    if (Clock::now() >= next_progress_) tell_progress();
  }

  void tell_progress() {
    const Clock::time_point now = Clock::now();
    next_progress_ = now + options_.progress_period;
    if (!options_.on_progress) return;
    Progress progress{done_, std::chrono::duration_cast<std::chrono::milliseconds>(now - start_), ""};
    const auto begun = [](const Child& child) { return child.pid > 0 ? child.begun : Clock::time_point::max(); };
    const Child& oldest = *std::ranges::min_element(children_, {}, begun);
    if (oldest.pid > 0) progress.oldest = cases_[oldest.current].name;
    options_.on_progress(progress);
  }

  void check_time(Child& child) {
    const bool used_up = processor_time(child.pid) - child.before >= options_.case_limit;
    if (++child.periods < kMaxPeriods && !used_up) {
      child.deadline += options_.case_limit;
      return;
    }
    kill(child.pid, SIGKILL);
    fail(child, fmt::format("not done after {} periods of {} ms", child.periods, options_.case_limit.count()));
  }

  void collect(Child& child) {
    Reply reply{};
    if (read_all(child.fd, &reply, sizeof(reply))) {
      Outcome outcome{reply.verdict, std::string(reply.reason_bytes, '\0'), reply.bound_constants, reply.milliseconds};
      if (read_all(child.fd, outcome.reason.data(), outcome.reason.size())) {
        record(child.current, std::move(outcome));
        // What broke may have left its process unfit: a GPU context in which a kernel failed serves no other.
        if (reply.verdict == Verdict::kBroken) end(child);
        return give_next(child);
      }
    }
    fail(child, "");
  }

  // The child is dead or dying: its case is broken, the next case goes to a new child.
  void fail(Child& child, std::string reason) {
    const size_t index = child.current;
    const int status = end(child);
    if (reason.empty()) {
      reason = WIFSIGNALED(status)
                   ? fmt::format("crashed: signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                   : fmt::format("the process ended with status {}", WEXITSTATUS(status));
    }
    record(index, {Verdict::kBroken, reason, false, 0});
    give_next(child);
  }

  void record(size_t index, Outcome outcome) {
    ++done_;
    outcomes_[index] = std::move(outcome);
    if (options_.on_outcome) options_.on_outcome(index, outcomes_[index]);
  }

  const std::vector<Case>& cases_;
  const std::function<CaseRunner()>& make_runner_;
  const SupervisorOptions& options_;
  std::vector<Outcome> outcomes_;
  std::vector<Child> children_;
  size_t next_ = 0;
  size_t done_ = 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_progress_ = start_ + options_.progress_period;
};

}  // namespace

std::vector<Outcome> run_supervised(const std::vector<Case>& cases, const std::function<CaseRunner()>& make_runner,
                                    const SupervisorOptions& options) {
  return Supervisor(cases, make_runner, options).run();
}

}  // namespace tw::conformance
