#include "tilewright/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tilewright/command.h"

namespace tw::cli {
namespace {

// A signal handler reaches nothing but what is global.
std::atomic<bool> interruptible{false};
std::atomic<bool> was_interrupted{false};

void on_interrupt(int) {
  if (!interruptible.load() || was_interrupted.exchange(true)) _exit(kInterrupted);
}

}  // namespace

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

void begin_work(Work kind) { interruptible = kind == Work::kInterruptible; }

bool interrupted() { return was_interrupted.load(); }

}  // namespace tw::cli
