// Order: TopK by counting, running sums and products, reversed rows.
#include <algorithm>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/running.h"

namespace tw::frontend {
namespace {

constexpr int64_t kMaxComparisons = int64_t{1} << 28;  // of one TopK: every element with every other of its row

std::vector<int64_t> swap_with_last(int64_t axis, int64_t rank) {
  std::vector<int64_t> perm = sequence(rank);
  std::swap(perm[axis], perm[rank - 1]);
  return perm;
}

ValueId numbers(Emitter& e, int64_t count, const Shape& shape) { return e.reshape(e.int_list(sequence(count)), shape); }

// Whether a is larger than b, element by element; NaN is the largest of all.
ValueId larger(Emitter& e, ValueId a, ValueId b) {
  if (!e.type(a).type.is_float()) return e.op("greater", {a, b});
  const ValueId is_number = e.op("equal", {b, b});
  return e.op("and", {e.op("not", {e.op("less_equal", {a, b})}), is_number});
}

// The rank of an element is the number of those that come before it: larger ones, and equal ones further left. The
// element of rank r is the r-th of the result.
Outputs convert_top_k(NodeContext& c) {
  c.ignore_attr("sorted");
  Emitter& e = c.emit();
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  const int64_t n = c.shape(0)[axis];
  const int64_t k = c.opset() < 10 ? c.int_attr("k") : c.const_int(1, "K");
  if (k < 0 || k > n) throw UserError("k is {} for {} elements", k, n);
  if (n > kMaxComparisons || c.type(0).elements() > kMaxComparisons / std::max<int64_t>(n, 1)) {
    throw Unsupported("TopK over {} of {} elements is too large", n, to_string(c.type(0)));
  }
  const std::vector<int64_t> perm = swap_with_last(axis, c.rank(0));
  const ValueId x = e.transpose(c.input(0), perm);
  Shape row = e.shape(x), column = e.shape(x), slots = e.shape(x);
  row.insert(row.end() - 1, 1);
  column.push_back(1);
  slots.back() = k;
  slots.push_back(1);
  const ValueId left = e.reshape(x, row);      // [.., 1, j]
  const ValueId right = e.reshape(x, column);  // [.., i, 1]
  const ValueId further_left = e.op("less", {numbers(e, n, {1, n}), numbers(e, n, {n, 1})});
  const bool largest = c.int_or("largest", 1) != 0;
  const ValueId better = largest ? larger(e, left, right) : larger(e, right, left);
  const ValueId worse = largest ? larger(e, right, left) : larger(e, left, right);
  const ValueId before = e.op("or", {better, e.op("and", {e.op("not", {worse}), further_left})});
  const int64_t last = c.rank(0);
  const ValueId rank = e.reduce("reduce_sum", e.cast(before, DataType::i64()), {last}, KeepDims::kNo);
  const ValueId hit = e.op("equal", {e.reshape(rank, row), numbers(e, k, {k, 1})});  // [.., r, i]
  const ValueId picked = e.where(hit, numbers(e, n, {1, n}), e.scalar(0, DataType::i64()));
  const ValueId indices = e.reduce("reduce_sum", picked, {last}, KeepDims::kNo);
  const ValueId values = e.op("gather_elements", {x, indices}, {{"axis", last - 1}});
  return {e.transpose(values, perm), e.transpose(indices, perm)};
}

Outputs convert_cumulative(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t axis = normalize_axis(c.const_int(1, "axis"), c.rank(0));
  const RunsFrom from = c.int_or("reverse", 0) != 0 ? RunsFrom::kEnd : RunsFrom::kBegin;
  const std::string_view op = c.op() == "CumProd" ? "mul" : "add";
  ValueId x = c.input(0);
  const bool is_exclusive = c.int_or("exclusive", 0) != 0;
  if (c.shape(0)[axis] == 0) return {x};
  if (is_exclusive) x = shifted(e, x, axis, static_cast<int64_t>(from), op);
  return {running(e, x, axis, op, from)};
}

// Element t of a row of length l comes from l - 1 - t for t < l, from t after it.
Outputs convert_reverse_sequence(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t batch_axis = c.axis_or("batch_axis", 1, c.rank(0));
  const int64_t time_axis = c.axis_or("time_axis", 0, c.rank(0));
  const Shape& shape = c.shape(0);
  if (batch_axis == time_axis || c.shape(1) != Shape{shape[batch_axis]})
    throw UserError("sequence_lens must hold one length for each batch");
  const Shape along_time = along_axis(c.rank(0), time_axis, shape[time_axis]);
  const Shape along_batch = along_axis(c.rank(0), batch_axis, shape[batch_axis]);
  const ValueId t = numbers(e, shape[time_axis], along_time);
  const ValueId length = e.reshape(e.cast(c.input(1), DataType::i64()), along_batch);
  const ValueId mirrored = e.sub(e.sub(length, e.number(length, 1)), t);
  const ValueId source = e.where(e.op("less", {t, length}), mirrored, t);
  return {e.op("gather_elements", {c.input(0), e.expand(source, shape)}, {{"axis", time_axis}})};
}

}  // namespace

std::vector<ConverterRow> order_rows() {
  return {{"TopK", 1, 0, convert_top_k},
          {"CumSum", 11, 0, convert_cumulative},
          {"CumProd", 26, 0, convert_cumulative},
          {"ReverseSequence", 10, 0, convert_reverse_sequence}};
}

}  // namespace tw::frontend
