// dropout(x, seed i64[], step i64[]): y[i] = x[i] / (1 - ratio) where element i is kept, else 0, also of NaN; x is a
// float of any shape. Element number e in row-major order is kept where its 16 bits are at least ratio 2^16, rounded:
// of word e mod 4 of counter e / 8 (draws.h) the lower ones where e / 4 is even, else the upper ones. Without seed and
// step: y = x, as inference has it. Attributes: ratio from 0 to 1; stream and seed.
// dropout_bits(seed, step): i32 words, bit e mod 32 of word e / 32 is 1 where element e of `elements` is kept by
// dropout of the same attributes. dropout_by_bits(x, bits): dropout with such bits. Attribute ratio of both: below 1.
// Sources: Srivastava et al., Dropout, JMLR 15, 2014; ONNX, Dropout; core/philox.h.
#include <cmath>

#include "ops/families.h"
#include "ops/gradient/draws.h"
#include "ops/gradient/rules.h"
#include "support/math.h"

namespace tw::ops {
namespace {

constexpr int64_t kDrawn = 8;  // elements of a counter: two of each of its four words
constexpr int64_t kMaxElements = kDrawn << 32;
constexpr int64_t kWordBits = 32, kHalfBits = 16;
constexpr uint32_t kHalf = 0xffff;

struct Dropout {
  double ratio = 0;
  Draw draw;
  uint32_t threshold = 0;  // the least 16 bits that keep, where the ratio is less than 1
};

Dropout dropout_of(const OpCall& call) {
  Dropout d{call.node.float_attr("ratio"), Draw(call.node)};
  if (d.ratio < 1) d.threshold = static_cast<uint32_t>(std::lround(d.ratio * 0x1p16));
  return d;
}

// What elements that are kept are multiplied by.
double scale_of(double ratio, DataType type) {
  const double scale = 1 / (1 - ratio);
  return type == DataType::f64() ? scale : static_cast<float>(scale);
}

void check_ratio(const OpCall& call) {
  const double ratio = call.node.float_attr("ratio");
  require(call, ratio >= 0 && ratio <= 1, "the ratio is {}, expected a number from 0 to 1", ratio);
}

Types infer(const OpCall& call) {
  require_float(call, 0);
  check_ratio(call);
  check_seed(call, 1);
  const TensorType& x = call.inputs[0];
  require(call, x.elements() <= kMaxElements, "{} has more than 2^35 elements", to_string(x));
  return {x};
}

// Whether element `four` * 4 + `word` of those of `counter` is kept; `four`: 0 or 1.
Expr te_kept(const Dropout& d, const Expr& counter, const Expr& four, const Expr& word, const DrawSource& source) {
  const Expr begin = cast(ScalarType::kU32, four * Expr(kHalfBits));
  const Expr upper = binary(Op::kShiftRight, te_word(d.draw, counter, word, source), begin);
  return int_imm(d.threshold, ScalarType::kU32) <= binary(Op::kAnd, upper, int_imm(kHalf, ScalarType::kU32));
}

// x / (1 - ratio) where `kept`, else 0.
Expr te_scaled(const te::Tensor& x, const Exprs& i, double ratio, const Expr& kept) {
  const Expr value = read(x, i) * imm(math_type(x.type), scale_of(ratio, x.type));
  return cast(x.type, kept ? select(kept, value, imm(value.type(), 0)) : value);
}

Tensors te_dropout(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Dropout d = dropout_of(call);
  const te::Tensor& x = inputs[0];
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    if (!call.has(1)) return x(i);
    if (d.ratio >= 1) return imm(x.type, 0);
    if (d.threshold == 0) return te_scaled(x, i, d.ratio, {});
    const Expr element = row_major(i, x.shape);
    const DrawSource source = {inputs[1]({}), inputs[2]({})};
    const Expr four = floor_mod(floor_div(element, 4), 2), counter = floor_div(element, Expr(kDrawn));
    return te_scaled(x, i, d.ratio, te_kept(d, counter, four, floor_mod(element, 4), source));
  })};
}

// Calls visit(e, whether it is kept) for the first `elements` of them.
template <typename Visit>
void for_each_kept(const Dropout& d, Refs source, int64_t elements, const Visit& visit) {
  std::array<uint32_t, 4> four = {};
  for (int64_t e = 0; e < elements; ++e) {
    if (e % kDrawn == 0) four = words_of(d.draw, e / kDrawn, source);
    const uint32_t drawn = four[e % 4] >> e / 4 % 2 * kHalfBits & kHalf;
    visit(e, d.ratio < 1 && drawn >= d.threshold);
  }
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const Dropout d = dropout_of(call);
  const std::vector<double>& x = inputs[0].floats;
  y.floats = x;
  if (!call.has(1)) return;
  for_each_kept(d, inputs.subspan(1), y.type.elements(),
                [&](int64_t e, bool kept) { y.floats[e] = kept ? x[e] * scale_of(d.ratio, y.type.type) : 0; });
}

Types infer_bits(const OpCall& call) {
  check_ratio(call);
  check_seed(call, 0);
  const int64_t elements = call.node.int_attr("elements");
  require(call, elements >= 0 && elements <= kMaxElements, "{} elements, expected 0 to 2^35", elements);
  require(call, call.node.float_attr("ratio") < 1, "with ratio 1 nothing is kept, and no bits are needed");
  return {{DataType::i32(), {ceil_div(elements, kWordBits)}}};
}

// Four counters for a word: both halves of all words of each are used.
Tensors te_bits(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Dropout d = dropout_of(call);
  constexpr int64_t kCounters = kWordBits / kDrawn;
  const Shape shape = infer_bits(call)[0].shape;
  return {
      builder.reduce(tensor_name(call), shape, {kCounters}, te::CombinerKind::kOr, [&](const Exprs& i, const Exprs& r) {
        const Expr counter = i[0] * Expr(kCounters) + r[0];
        const Expr shift = cast(DataType::i32(), r[0] * Expr(kDrawn));
        Expr drawn = int_imm(0, DataType::i32());
        for (int64_t e = 0; e < kDrawn; ++e) {
          const Expr kept = te_kept(d, counter, Expr(e / 4), Expr(e % 4), {inputs[0]({}), inputs[1]({})});
          drawn = binary(Op::kOr, drawn, select(kept, int_imm(1 << e, DataType::i32()), int_imm(0, DataType::i32())));
        }
        return binary(Op::kShiftLeft, drawn, shift);
      })};
}

// Bits behind the last element are as if there were more.
void reference_bits(const OpCall& call, Refs inputs, RefTensor& y) {
  for_each_kept(dropout_of(call), inputs, y.type.elements() * kWordBits, [&](int64_t e, bool kept) {
    const auto bit = static_cast<uint32_t>(kept) << e % kWordBits;
    int64_t& word = y.ints[e / kWordBits];
    word = static_cast<int32_t>(static_cast<uint32_t>(word) | bit);
  });
}

Types infer_by_bits(const OpCall& call) {
  require_float(call, 0);
  check_ratio(call);
  const TensorType bits{DataType::i32(), {ceil_div(call.inputs[0].elements(), kWordBits)}};
  require(call, call.inputs[1] == bits, "bits {} for {}, expected {}", to_string(call.inputs[1]),
          to_string(call.inputs[0]), to_string(bits));
  return {call.inputs[0]};
}

struct BitAt {
  Expr word, place;
};

// Where the bit of the element at `i` is. Rows of whole words are not divided, so that axes of rows may be merged.
BitAt bit_at(const Exprs& i, const Shape& shape) {
  const Expr bits = Expr(kWordBits);
  if (i.empty() || shape.back() % kWordBits != 0) {
    const Expr element = row_major(i, shape);
    return {floor_div(element, bits), floor_mod(element, bits)};
  }
  Exprs at = i;
  Shape words = shape;
  at.back() = floor_div(i.back(), bits);
  words.back() /= kWordBits;
  return {row_major(at, words), floor_mod(i.back(), bits)};
}

Tensors te_by_bits(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  return {builder.compute(tensor_name(call), x.shape, [&](const Exprs& i) {
    const BitAt at = bit_at(i, x.shape);
    const Expr word = inputs[1]({at.word}), place = cast(DataType::i32(), at.place);
    const Expr bit = binary(Op::kAnd, binary(Op::kShiftRight, word, place), int_imm(1, DataType::i32()));
    return te_scaled(x, i, call.node.float_attr("ratio"), bit != int_imm(0, DataType::i32()));
  })};
}

void reference_by_bits(const OpCall& call, Refs inputs, RefTensor& y) {
  const double scale = scale_of(call.node.float_attr("ratio"), y.type.type);
  for (int64_t e = 0; e < y.type.elements(); ++e) {
    const bool kept = (inputs[1].ints[e / kWordBits] >> e % kWordBits & 1) != 0;
    y.floats[e] = kept ? inputs[0].floats[e] * scale : 0;
  }
}

// What is left out is left out of the gradient, too: the same elements, computed again.
Terms gradient(const GradientCall& g) {
  Terms inputs = g.inputs, results(g.inputs.size());
  inputs[0] = g.dy();
  results[0] = emit("dropout", inputs, g.node().attrs);
  return results;
}

}  // namespace

std::vector<GradientRow> dropout_gradients() {
  return {by_rule("dropout", gradient),
          is_refused("dropout_by_bits", "it is made from dropout by pass store-masks, behind gradients"),
          is_zero("dropout_bits", "its result is no float")};
}

std::vector<OpDef> dropout_ops() {
  return {{"dropout", OpClass::kElementwise, infer, te_dropout, filled<infer, reference>, {1, 3}},
          {"dropout_bits", OpClass::kInjective, infer_bits, te_bits, filled<infer_bits, reference_bits>, {2, 2}},
          {"dropout_by_bits",
           OpClass::kElementwise,
           infer_by_bits,
           te_by_bits,
           filled<infer_by_bits, reference_by_bits>,
           {2, 2}}};
}

}  // namespace tw::ops
