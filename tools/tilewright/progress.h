// Progress of long work: one live line on a terminal, a plain line every 10 s otherwise, both on stderr; and every step
// as a line of JSON in the file of --events.
#pragma once
#include <fstream>

#include "tilewright/command.h"

namespace tw::cli {

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

 private:
  void write_event(const nlohmann::ordered_json& event);
  bool terminal_;
  std::string note_;  // behind the state of phase "measure"
  double started_;
  double last_;
  std::ofstream events_;
};

}  // namespace tw::cli
