// What a report of a compiled model holds: everything that its page draws, and that its JSON block says.
//
// Missing data is a reason: a Result without a value says what to do so that it is there.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "artefact/explain.h"
#include "artefact/verify.h"
#include "core/target_info.h"
#include "driver/artefact/compiled.h"
#include "support/error.h"

namespace tw::artefact::report {

/// Times of whole runs, in ms.
struct Latency {
  double p10_ms = 0, median_ms = 0, mean_ms = 0;
  int64_t runs = 0;
  std::string protocol;    // how they were measured, a sentence
  double quiet_share = 1;  // of the runs: those that no other program seems to have disturbed
};

/// A value in the arena: from the step that writes it first to the last one that uses it.
struct Box {
  std::string value;
  int64_t first_step = 0, last_step = 0;
  int64_t offset = 0, bytes = 0;
};

struct Memory {
  int64_t arena_bytes = 0;    // what a context takes
  int64_t needed_bytes = 0;   // the most that lives at one step: no arrangement takes less
  int64_t weights_bytes = 0;  // of this entry
  int64_t steps = 0;
  std::vector<Box> boxes;
};

/// How a value lies in memory: of its first stored elements, the logical index.
struct LayoutPicture {
  std::string value;
  TensorType type;
  std::string layout;             // a sequence of primitives
  Shape storage;                  // its shape as it is stored
  std::vector<int64_t> elements;  // row-major logical indices of the first lines of the storage; -1: padding
  int64_t line = 0;               // elements of a line that are shown, the first ones of the innermost extent
};

/// The same output of two artefacts that ran on equal inputs.
struct OutputDifference {
  std::string output;
  int64_t elements = 0, different = 0;
  double largest = 0;  // |new - old|
  double scale = 0;    // largest |old|
};

/// Another artefact of the model, on the same machine.
struct Compared {
  std::string model;
  EntryReport report;
  Result<Latency> latency;
  Result<std::vector<OutputDifference>> outputs;
};

/// Another engine on the same model.
struct Peer {
  std::string name;  // "onnxruntime 1.20"
  Latency latency;
  std::string origin;  // how the numbers came about
};

/// How much of a large model a page shows.
struct Limits {
  size_t groups = 2000;  // that are listed, the slowest ones
  size_t details = 200;  // of them with all that is known
  size_t marks = 1000;   // in one picture
  size_t letters = 200;  // of a name, in the data and in titles
};

struct Report {
  Limits limits;
  std::string model;     // as it was given
  std::string producer;  // the compiler
  std::string level;     // "x86-64-v4"
  std::string entry;     // of several shapes
  int64_t entries = 1;
  int64_t file_bytes = 0;
  int threads = 1;
  bool on_gpu = false;
  std::vector<NamedType> inputs, outputs;
  TargetInfo target;  // whose figures the bounds are
  EntryReport explained;
  bool has_profile = false;  // times of the groups are of a run now
  Memory memory;
  std::vector<LayoutPicture> layouts;
  Result<Latency> latency = Reason{"it was not asked for"};
  Result<VerifyReport> verified = Reason{"it was not asked for"};
  Result<std::vector<driver::PassTime>> passes = Reason{"it was not asked for"};
  Result<Compared> compared = Reason{"it was not asked for"};
  Result<Peer> peer = Reason{"it was not asked for"};
};

/// What the artefact itself says. Results are reasons until the caller fills them. Throws what explain_entry throws.
struct Subject {
  std::string model;  // as it was given
  const std::vector<uint8_t>& artefact;
  const Explained& run;
  const targets::Target& target;
};
Report collect(const Subject& subject);

/// The same values in both artefacts' outputs.
OutputDifference difference_of(const std::string& output, const Array& now, const Array& before);

/// One JSON document, "schema": "tilewright.report/1". Groups beyond the limits are left out; "group_count" has all.
std::string to_json(const Report& report);

/// Largest page, in bytes.
inline constexpr size_t kMostBytes = 4'000'000;
/// The page: HTML with everything in it. Where it would be larger than kMostBytes, it shows less than the report's
/// limits allow.
std::string to_html(const Report& report);

}  // namespace tw::artefact::report
