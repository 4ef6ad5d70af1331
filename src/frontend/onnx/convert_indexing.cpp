// Gathers, scatters and what is made of them.

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

constexpr double kMaxOneHotDepth = 1 << 30;  // elements along the new axis

Outputs convert_one_hot(NodeContext& c) {
  const graph::RefTensor depth = c.constant(1, "depth");
  if (depth.type.elements() != 1) throw UserError("depth must be one number");
  if (!(depth.at(0) >= 0 && depth.at(0) <= kMaxOneHotDepth)) throw UserError("depth is {}", depth.at(0));
  const int64_t axis = normalize_axis(c.int_or("axis", -1), c.rank(0) + 1);
  return {
      c.emit().op("one_hot", {c.input(0), c.input(2)}, {{"depth", static_cast<int64_t>(depth.at(0))}, {"axis", axis}})};
}

}  // namespace

std::vector<ConverterRow> indexing_rows() {
  return {{"Gather", 1, 0, plain("gather", 2, {{"axis", AxisOr{0}}})},
          {"GatherElements", 11, 0, plain("gather_elements", 2, {{"axis", AxisOr{0}}})},
          {"GatherND", 11, 0, plain("gather_nd", 2, {{"batch_dims", 0}})},
          {"OneHot", 9, 0, convert_one_hot}};
}

}  // namespace tw::frontend
