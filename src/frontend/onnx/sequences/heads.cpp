#include "frontend/onnx/sequences/heads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/error.h"
#include "support/join.h"

namespace tw::frontend {

ValueId split_heads(Emitter& e, ValueId x, int64_t heads) {
  const Shape s = e.shape(x);
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0) {
    throw UserError("{} cannot be split into {} heads (attributes q_num_heads, kv_num_heads)", to_string(s), heads);
  }
  return e.transpose(e.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

ValueId join_heads(Emitter& e, ValueId x) {
  const Shape s = e.shape(x);
  return e.reshape(e.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

ValueId repeat_heads(Emitter& e, ValueId x, int64_t repeat) {
  const Shape s = e.shape(x);
  if (repeat == 1) return x;
  return e.reshape(e.expand(e.reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], repeat, s[2], s[3]}),
                   {s[0], s[1] * repeat, s[2], s[3]});
}

ValueId shared_product(Emitter& e, ValueId a, ValueId b) {
  return e.matmul(a, repeat_heads(e, b, e.shape(a)[1] / std::max<int64_t>(e.shape(b)[1], 1)));
}

// The scale's root goes to each operand, which keeps half-precision products in range; all of it to the queries where
// they are fewer: the keys of a cache are read as they are stored.
ValueId scaled_scores(Emitter& e, ValueId q, ValueId k, double scale) {
  const bool few_queries = num_elements(e.shape(q)) < num_elements(e.shape(k));
  if (!(scale > 0) || (scale <= 1 && few_queries))
    return shared_product(e, e.mul(q, e.number(q, scale)), e.transpose(k, {0, 1, 3, 2}));
  const double root = std::sqrt(scale);
  return shared_product(e, e.mul(q, e.number(q, root)), e.transpose(e.mul(k, e.number(k, root)), {0, 1, 3, 2}));
}

ValueId capped_scores(Emitter& e, ValueId scores, double cap) {
  if (!(cap > 0)) return scores;
  return e.mul(e.op("tanh", {e.div(scores, e.number(scores, cap))}), e.number(scores, cap));
}

ValueId positions(Emitter& e, int64_t first, int64_t count, const Shape& shape) {
  return e.reshape(e.int_list(sequence(count, first)), shape);
}

ValueId causal_mask(Emitter& e, int64_t past, const Shape& scores, DataType type, int64_t window) {
  const int64_t queries = scores[scores.size() - 2], keys = scores.back();
  const ValueId key = positions(e, 0, keys, {1, keys});
  ValueId seen = e.op("less_equal", {key, positions(e, past, queries, {queries, 1})});
  if (window < keys) {
    const ValueId near = e.op("less", {positions(e, past - window, queries, {queries, 1}), key});
    seen = e.op("and", {seen, near});
  }
  return e.where(seen, e.scalar(0, type), e.scalar(-std::numeric_limits<double>::infinity(), type));
}

ValueId rotated(Emitter& e, ValueId x, ValueId cos, ValueId sin, Pairs pairs) {
  const Shape s = e.shape(x);
  const int64_t half = e.shape(cos).back();
  const bool neighbours = pairs == Pairs::kNeighbours;
  const ValueId x1 = e.slice(x, {{3, 0, half, neighbours ? 2 : 1}});
  const ValueId x2 = e.slice(x, {{3, neighbours ? 1 : half, half, neighbours ? 2 : 1}});
  const ValueId real = e.sub(e.mul(cos, x1), e.mul(sin, x2));
  const ValueId imaginary = e.add(e.mul(sin, x1), e.mul(cos, x2));
  ValueId y = kAbsent;
  if (neighbours) {
    const Shape pair{s[0], s[1], s[2], half, 1};
    y = e.reshape(e.concat({e.reshape(real, pair), e.reshape(imaginary, pair)}, 4), {s[0], s[1], s[2], 2 * half});
  } else {
    y = e.concat({real, imaginary}, 3);
  }
  return 2 * half < s[3] ? e.concat({y, e.slice(x, 3, 2 * half, s[3] - 2 * half)}, 3) : y;
}

}  // namespace tw::frontend
