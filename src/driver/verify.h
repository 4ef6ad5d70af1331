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
  std::vector<GroupCheck> groups;
  std::vector<WorstElement> outputs;  // end to end, against the reference of the source graph
  bool same_bits_for_threads = true;  // 1 thread and all threads
  bool ok() const;
};

/// Compares two tensors; `bounds` has one allowed error an element. NaN matches NaN, infinities themselves.
WorstElement compare(const std::string& name, const graph::RefTensor& got, const graph::RefTensor& want,
                     const std::vector<double>& bounds);

/// Compiles `source` with the options' passes and plan, but with an arena without reuse; runs it on `inputs` with one
/// thread and with all, and checks. Groups: element-wise bounds of evaluate_bounded. End to end: the largest bound of
/// the source graph over each output (max norm), since errors of earlier groups spread over all elements.
VerifyReport verify_graph(const graph::Graph& source, const CompileOptions& options, const std::vector<Array>& inputs,
                          const std::function<void(std::string_view, int64_t, int64_t)>& progress);

}  // namespace tw::driver
