#include "tilewright/progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "support/error.h"
#include "tilewright/interrupt.h"

namespace tw::cli {
namespace {

constexpr double kLivePause = 0.1;    // seconds between two states of the live line
constexpr double kPlainPause = 10.0;  // seconds between two plain lines

bool on_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

}  // namespace

Progress::Progress(const GlobalOptions& global) : terminal_(on_terminal()), started_(now_seconds()), last_(started_) {
  if (global.events.empty()) return;
  events_.open(global.events, std::ios::app);
  if (!events_) throw UsageError(fmt::format("--events: cannot write '{}'", global.events));
}

Progress::~Progress() { clear(); }

void Progress::clear() const {
  if (terminal_) print_error("\r\033[K");
}

void Progress::write_event(const nlohmann::ordered_json& event) {
  if (!events_.is_open()) return;
  // Names in models need not be UTF-8. Whoever follows the file sees each line at once.
  events_ << event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << std::endl;
}

void Progress::operator()(std::string_view phase, int64_t done, int64_t total) {
  const bool measuring = phase == "measure" && done < total;
  begin_work(measuring ? Work::kInterruptible : Work::kPlain);
  const double now = now_seconds();
  write_event({{"seconds", now - started_}, {"phase", phase}, {"done", done}, {"total", total}});
  if (now - last_ < (terminal_ ? kLivePause : kPlainPause)) return;
  last_ = now;
  const std::string line =
      fmt::format("{} {}/{}  {:.1f} s{}", phase, done, total, now - started_, measuring ? note_ : "");
  if (terminal_) {
    print_error("\r\033[K{}", line);
    std::fflush(stderr);
  } else {
    print_error("{}\n", line);
  }
}

void Progress::measured(const driver::TuneEvent& event) {
  write_event({{"seconds", now_seconds() - started_},
               {"group", event.group},
               {"candidate", event.candidate},
               {"candidates", event.candidates},
               {"outcome", measure::outcome_name(event.measured.outcome)},
               {"reason", event.measured.reason},
               {"microseconds", event.measured.timing.best_decile_ns * 1e-3},
               {"predicted", event.predicted_us},
               {"trace", event.trace},
               {"quiet", event.measured.timing.quiet_share},
               {"best", event.best_us}});
  note_ = fmt::format("  {} best {:.1f} us", event.group, event.best_us);
}

}  // namespace tw::cli
