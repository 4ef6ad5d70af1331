// Progress of long work: one live line on a terminal, a plain line every 10 s otherwise, both on stderr; and every step
// as a line of JSON in the file of --events.
#pragma once
#include <fstream>

#include "tilewright/command.h"

namespace tw::cli {

/// How far a phase is.
struct PhaseState {
  std::string_view phase;
  int64_t done = 0, total = 0;
  double seconds = 0;           // since all began
  double phase_seconds = 0;     // since the phase began
  std::string_view group = {};  // that was measured last; empty: none
  double best_seconds = 0;      // of that group
};

/// "measure [####......] 4/10  12 s, about 18 s left  conv1 123 us" in at most `columns` columns: a name is shortened
/// in its middle, and what does not fit is left out, the group first. The time left is in proportion to what is done.
std::string progress_line(const PhaseState& state, size_t columns);

class Progress {
 public:
  /// UsageError when the file of --events cannot be written.
  explicit Progress(const GlobalOptions& global);
  ~Progress();
  void operator()(std::string_view phase, int64_t done, int64_t total);
  /// One candidate was measured: a line of JSON, and the best time of its group behind the live line.
  void measured(const driver::TuneEvent& event);
  /// Takes the live line away, so that text can follow.
  void clear() const;
  /// note() of command.h, in the place of the live line.
  void note(const std::string& sentence) const;

 private:
  enum class Lines : uint8_t { kNone, kPlain, kLive };
  void write_event(const nlohmann::ordered_json& event);
  void show();
  Lines lines_;
  GlobalOptions global_;
  std::string phase_;
  int64_t done_ = 0, total_ = 0;
  std::string group_;
  double best_seconds_ = 0;  // of group_
  double started_, phase_started_;
  double last_;
  std::ofstream events_;
};

}  // namespace tw::cli
