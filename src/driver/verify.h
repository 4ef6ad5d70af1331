// Checks a compiled model against the f64 reference: every group on the artefact's own inputs, then the whole model.
#pragma once
#include <string>
#include <vector>

#include "driver/compile.h"
#include "driver/session.h"

namespace tw::driver {

/// The element of one tensor that is farthest from its reference, measured in its bound.
struct WorstElement {
  std::string tensor;
  int64_t index = 0;  // row-major, logical
  double got = 0;
  double want = 0;
  double bound = 0;   // allowed |got - want|
  int64_t wrong = 0;  // elements beyond their bound
  int64_t elements = 0;
  bool ok() const { return wrong == 0; }
};

struct GroupCheck {
  std::string group;   // ONNX nodes
  std::string family;  // of its schedule
  std::vector<WorstElement> outputs;
  bool ok() const;
};

struct VerifyReport {
  std::string target;  // the level of the artefact that ran
  std::string entry;   // its name
  std::vector<GroupCheck> groups;
  std::vector<WorstElement> outputs;  // end to end
  bool same_bits_for_threads = true;  // 1 thread and all threads
  bool same_bits_apart = true;        // with and without values sharing memory
  bool ok() const;
};

/// Compares two tensors; `bounds` has one allowed error an element. NaN matches NaN, infinities themselves.
WorstElement compare(const std::string& name, const graph::RefTensor& got, const graph::RefTensor& want,
                     const std::vector<double>& bounds);

using VerifyProgress = std::function<void(std::string_view phase, int64_t done, int64_t total)>;

/// Checks the entry of an artefact that takes `inputs`: runs it as it is, with one thread and with all, and once with
/// every value in a place of its own, from where the groups are checked. Groups: element-wise bounds of
/// evaluate_bounded. End to end: the largest bound over each output (max norm), since errors of earlier groups spread
/// over all elements, each rounding to the type that f32 was compiled to; against the reference of `source`, or when it
/// is null of the graph that the artefact holds.
VerifyReport verify_artefact(const std::vector<uint8_t>& artefact, const graph::Graph* source,
                             const std::vector<Array>& inputs, const VerifyProgress& progress,
                             const std::string& level = {});

/// Compiles `source` and checks the artefact against it.
VerifyReport verify_graph(const graph::Graph& source, const CompileOptions& options, const std::vector<Array>& inputs,
                          const VerifyProgress& progress);

}  // namespace tw::driver
