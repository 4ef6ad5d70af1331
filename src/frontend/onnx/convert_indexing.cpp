// Gathers, scatters and what is made of them.
#include <algorithm>
#include <array>
#include <numeric>

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

using graph::ValueId;

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

// 1 at the index along the new axis, as the comparison of the indices with 0, 1, ..., depth - 1.
Outputs convert_one_hot(NodeContext& c) {
  Emitter& e = c.emit();
  const graph::RefTensor depth_tensor = c.constant(1, "depth");
  if (depth_tensor.type.elements() != 1) throw UserError("depth must be one number");
  const double depth_value = depth_tensor.at(0);
  if (!(depth_value >= 0 && depth_value <= 1 << 20)) throw UserError(fmt::format("depth is {}", depth_value));
  const int64_t depth = static_cast<int64_t>(depth_value);
  if (c.shape(2) != Shape{2}) throw UserError("input 'values' must hold the off and the on value");
  const int64_t rank = c.rank(0) + 1;
  const int64_t axis = normalize_axis(c.int_or("axis", -1), rank);
  // Indices in [-depth, -1] count from the end.
  const ValueId indices = e.cast(c.input(0), DataType::i64());
  const ValueId negative = e.op("less", {indices, e.scalar(0, DataType::i64())});
  const ValueId wrapped = e.where(negative, e.add(indices, static_cast<double>(depth)), indices);
  Shape with_axis = c.shape(0);
  with_axis.insert(with_axis.begin() + axis, 1);
  std::vector<int64_t> classes(depth);
  std::iota(classes.begin(), classes.end(), 0);
  Shape along(rank, 1);
  along[axis] = depth;
  const ValueId hit = e.op("equal", {e.reshape(wrapped, with_axis), e.reshape(e.int_list(classes), along)});
  return {e.where(hit, e.reshape(e.slice(c.input(2), 0, 1, 1), {}), e.reshape(e.slice(c.input(2), 0, 0, 1), {}))};
}

// Keeps the elements on or above (upper) or below diagonal k, by comparing row and column numbers.
Outputs convert_trilu(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.rank(0) < 2) throw UserError("the input must have rank 2 or more");
  const int64_t k = c.has(1) ? c.const_int(1, "k") : 0;
  const int64_t rows = c.shape(0)[c.rank(0) - 2];
  const int64_t columns = c.shape(0)[c.rank(0) - 1];
  std::vector<int64_t> row_numbers(rows), column_numbers(columns);
  std::iota(row_numbers.begin(), row_numbers.end(), std::clamp(k, -rows - columns, rows + columns));
  std::iota(column_numbers.begin(), column_numbers.end(), 0);
  const ValueId row = e.reshape(e.int_list(row_numbers), {rows, 1});
  const bool upper = c.int_or("upper", 1) != 0;
  const ValueId keep = e.op(upper ? "greater_equal" : "less_equal", {e.int_list(column_numbers), row});
  return {e.where(keep, c.input(0), e.scalar(0, c.type(0).type))};
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"Gather", 1, 0, convert_gather},
    {"GatherElements", 11, 0, convert_gather_elements},
    {"GatherND", 11, 0, convert_gather_nd},
    {"OneHot", 9, 0, convert_one_hot},
    {"Trilu", 14, 0, convert_trilu},
});

}  // namespace

std::span<const ConverterRow> indexing_rows() { return kRows; }

}  // namespace tw::frontend
