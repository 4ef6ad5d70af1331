// Gathers, scatters and what is made of them.

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

constexpr double kMaxOneHotDepth = 1 << 30;  // elements along the new axis

Outputs convert_gather(NodeContext& c) {
  const int64_t axis = c.axis_or("axis", 0, c.rank(0));
  return {c.emit().gather(c.input(0), c.input(1), axis)};
}

Outputs convert_gather_elements(NodeContext& c) {
  return {c.emit().op("gather_elements", {c.input(0), c.input(1)}, {{"axis", c.axis_or("axis", 0, c.rank(0))}})};
}

Outputs convert_gather_nd(NodeContext& c) {
  return {c.emit().op("gather_nd", {c.input(0), c.input(1)}, {{"batch_dims", c.int_or("batch_dims", 0)}})};
}

Outputs convert_one_hot(NodeContext& c) {
  const graph::RefTensor depth = c.constant(1, "depth");
  if (depth.type.elements() != 1) throw UserError("depth must be one number");
  if (!(depth.at(0) >= 0 && depth.at(0) <= kMaxOneHotDepth)) throw UserError("depth is {}", depth.at(0));
  const int64_t axis = normalize_axis(c.int_or("axis", -1), c.rank(0) + 1);
  return {
      c.emit().op("one_hot", {c.input(0), c.input(2)}, {{"depth", static_cast<int64_t>(depth.at(0))}, {"axis", axis}})};
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"Gather", 1, 0, convert_gather},
    {"GatherElements", 11, 0, convert_gather_elements},
    {"GatherND", 11, 0, convert_gather_nd},
    {"OneHot", 9, 0, convert_one_hot},
});

}  // namespace

std::span<const ConverterRow> indexing_rows() { return kRows; }

}  // namespace tw::frontend
