// Checks a compiled model against the f64 reference: every group on the artefact's own inputs, then the whole model.
#pragma once
#include <string>
#include <vector>

#include "artefact/session.h"
#include "driver/compile.h"
#include "driver/tune/tolerance.h"

namespace tw::artefact {

struct GroupCheck {
  std::string group;   // ONNX nodes
  std::string family;  // of its schedule
  std::vector<driver::WorstElement> outputs;
  bool has_larger_bound = false;  // its algorithm's, beside that of its operators
  bool ok() const;
  /// Elements within the bound of the algorithm that computed them, but not of the operators themselves; or in neither.
  int64_t beyond_operator() const;
};

/// What of an artefact is checked; empty: the best level that this machine runs, the first function.
struct Verified {
  std::string level = {}, function = {};
};

struct VerifyReport {
  std::string target;  // the level of the artefact that ran
  std::string entry;   // its name
  std::vector<GroupCheck> groups;
  std::vector<driver::WorstElement> outputs;  // end to end
  bool same_bits_for_threads = true;          // 1 thread and all threads
  bool same_bits_apart = true;                // with and without values sharing memory
  bool ok() const;
};

using VerifyProgress = std::function<void(std::string_view phase, int64_t done, int64_t total)>;

/// Checks the entry of an artefact that takes `inputs`: runs it as it is, with one thread and with all, and once with
/// every value in a place of its own, from where the groups are checked. Groups: element-wise bounds of
/// evaluate_bounded. End to end: the largest bound over each output (max norm), since errors of earlier groups spread
/// over all elements, each operator with the error of its definition, each rounding to the type that f32 was compiled
/// to (worst cases of algorithms, multiplied over all groups, would allow anything); against the reference of `source`,
/// or when it is null of the graph that the artefact holds.
VerifyReport verify_artefact(const std::vector<uint8_t>& artefact, const graph::Graph* source,
                             const std::vector<Array>& inputs, const VerifyProgress& progress,
                             const Verified& which = {});

/// Compiles `source` and checks the artefact against it.
VerifyReport verify_graph(const graph::Graph& source, const driver::CompileOptions& options,
                          const std::vector<Array>& inputs, const VerifyProgress& progress);

}  // namespace tw::artefact
