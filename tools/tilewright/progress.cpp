#include "tilewright/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "support/error.h"
#include "support/text.h"
#include "tilewright/host.h"
#include "tilewright/interrupt.h"
#include "tilewright/terminal.h"

namespace tw::cli {
namespace {

constexpr double kLivePause = 0.1;      // seconds between two states of the live line
constexpr double kPlainPause = 10.0;    // seconds between two plain lines
constexpr double kLeastForecast = 1.0;  // seconds of a phase before the time left is said
constexpr int64_t kBar = 16;            // columns
constexpr size_t kLeastName = 8;        // columns; less of a name says nothing

bool on_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

std::string bar(int64_t done, int64_t total) {
  const int64_t full = total > 0 ? std::clamp<int64_t>(done * kBar / total, 0, kBar) : 0;
  return fmt::format("[{}{}] ", std::string(static_cast<size_t>(full), '#'),
                     std::string(static_cast<size_t>(kBar - full), '.'));
}

std::string time_left(const PhaseState& s) {
  if (s.done <= 0 || s.done >= s.total || s.phase_seconds < kLeastForecast) return "";
  const double left = s.phase_seconds / static_cast<double>(s.done) * static_cast<double>(s.total - s.done);
  return fmt::format(", about {} left", time_text(std::max(1.0, std::round(left))));
}

}  // namespace

std::string progress_line(const PhaseState& s, size_t columns) {
  std::string line = fmt::format("{} ", s.phase);
  const std::string count = fmt::format("{}/{}", s.done, s.total);
  const std::string times = fmt::format("  {:.0f} s{}", s.seconds, time_left(s));
  const std::string with_bar = s.total > 1 ? bar(s.done, s.total) : "";
  if (columns_of(line + with_bar + count + times) <= columns) line += with_bar;
  line += count;
  if (columns_of(line + times) <= columns) line += times;
  const std::string best = s.group.empty() ? "" : fmt::format(" {}", time_text(s.best_seconds));
  const size_t used = columns_of(line) + 2 + columns_of(best);
  if (!best.empty() && used + std::min(columns_of(s.group), kLeastName) <= columns)
    line += fmt::format("  {}{}", shortened(s.group, columns - used), best);
  return shortened(line, columns);
}

Progress::Progress(const GlobalOptions& global)
    : lines_(global.quiet || host() != nullptr ? Lines::kNone
             : on_terminal()                   ? Lines::kLive
                                               : Lines::kPlain),
      global_(global),
      started_(now_seconds()),
      phase_started_(started_),
      last_(started_) {
  if (global.events.empty()) return;
  events_.open(global.events, std::ios::app);
  if (!events_) throw UsageError(fmt::format("--events: cannot write '{}'", global.events));
}

Progress::~Progress() { clear(); }

void Progress::clear() const {
  if (lines_ == Lines::kLive) print_error("\r\033[K");
}

void Progress::note(const std::string& sentence) const {
  clear();
  cli::note(global_, sentence);
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
  if (phase != phase_) {
    phase_ = phase;
    phase_started_ = now;
  }
  done_ = done, total_ = total;
  if (!measuring) group_.clear();
  write_event({{"seconds", now - started_}, {"phase", phase}, {"done", done}, {"total", total}});
  show();
  if (host() != nullptr) host()->progress(phase, done, total);
}

void Progress::show() {
  const double now = now_seconds();
  if (lines_ == Lines::kNone || now - last_ < (lines_ == Lines::kLive ? kLivePause : kPlainPause)) return;
  last_ = now;
  const PhaseState state = {phase_, done_, total_, now - started_, now - phase_started_, group_, best_seconds_};
  if (lines_ == Lines::kLive) {
    // The last column stays empty: writing it may begin a new line.
    print_error("\r\033[K{}", progress_line(state, terminal_columns(STDERR_FILENO) - 1));
    std::fflush(stderr);
  } else {
    print_error("{}\n", progress_line(state, std::string::npos));
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
  group_ = event.group;
  best_seconds_ = event.best_us * 1e-6;
  show();
}

}  // namespace tw::cli
