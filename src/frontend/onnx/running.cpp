#include "frontend/onnx/running.h"

namespace tw::frontend {

ValueId shifted(Emitter& e, ValueId x, int64_t axis, int64_t distance, std::string_view op) {
  const int64_t rank = e.rank(x);
  std::vector<int64_t> pads(2 * rank, 0);
  pads[axis] = distance;
  pads[axis + rank] = -distance;
  return e.pad(x, pads, "constant", int64_t{op == "mul" ? 1 : 0});
}

namespace {

// Of few elements: for each of them all those on its side, and what changes nothing in the place of the others. One
// reduction, the same whatever the extent is.
ValueId each_of_all(Emitter& e, ValueId x, int64_t axis, std::string_view op, RunsFrom from) {
  const int64_t n = e.shape(x)[axis], rank = e.rank(x);
  std::vector<int64_t> is_taken;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) is_taken.push_back(from == RunsFrom::kBegin ? k <= i : k >= i);
  }
  std::vector<int64_t> places(static_cast<size_t>(rank + 1), 1);
  places[static_cast<size_t>(axis)] = places[static_cast<size_t>(axis + 1)] = n;
  const ValueId taken = e.cast(e.reshape(e.int_list(is_taken), places), DataType::boolean());
  const ValueId none = e.number(x, op == "mul" ? 1 : 0);
  const ValueId all = e.where(taken, e.unsqueeze(x, axis), none);
  return e.reduce(op == "mul" ? "reduce_prod" : "reduce_sum", all, {axis + 1}, KeepDims::kNo);
}

}  // namespace

// Of many, after step s each element holds what the 2^s elements that end in it come to.
ValueId running(Emitter& e, ValueId x, int64_t axis, std::string_view op, RunsFrom from) {
  constexpr int64_t kFew = int64_t{1} << 20;  // additions
  const int64_t n = e.shape(x)[axis];
  if (n > 0 && num_elements(e.shape(x)) <= kFew / n) return each_of_all(e, x, axis, op, from);
  for (int64_t step = 1; step < n; step *= 2)
    x = e.op(op, {x, shifted(e, x, axis, step * static_cast<int64_t>(from), op)});
  return x;
}

}  // namespace tw::frontend
