// pack_words(x, [zero_point]) of u8 or i8, attributes axis, words (a format) and zero_axis: words of neighbours along
// `axis`, 0 beyond its end.
//   "pairs": x - zero_point, which is a scalar, a one-element tensor, or one number for each index of `zero_axis`.
//   "quads": bytes without a zero point. Attribute side says of which operand of the product: "left" is unsigned, so
//   128 is added to i8, "right" is signed, so 128 is subtracted from u8.
//   "bf16": of x in bf16, or in f32 and rounded; no zero point.
// sum_words(x), attributes axes, words ("quads"), side: the sum of all numbers in words over `axes`, which are dropped,
// in i32.
#include "ops/words.h"

#include "ops/families.h"
#include "support/math.h"

namespace tw::ops {
namespace {

constexpr int64_t kTopBit = 128;

WordSide side_of(const OpCall& call) {
  const std::string& side = call.node.string_attr("side");
  require(call, side == "left" || side == "right", "side '{}', expected left or right", side);
  return side == "left" ? WordSide::kLeft : WordSide::kRight;
}

struct Packing {
  size_t axis;
  WordFormat format;
  int64_t extent;     // of the axis, in numbers
  int64_t zero_axis;  // -1: one zero point for all
  int64_t shift;      // added to every number
  int64_t numbers() const { return numbers_of(format); }
};

Packing packing_of(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const int64_t axis = normalize_axis(call, call.node.int_attr("axis"), x.shape.size());
  Packing p{static_cast<size_t>(axis), word_format(call), x.shape[static_cast<size_t>(axis)],
            call.node.int_attr_or("zero_axis", -1), 0};
  if (p.format != WordFormat::kQuads) return p;
  const bool wants_signed = side_of(call) == WordSide::kRight;
  if (wants_signed != x.type.is_signed_int()) p.shift = wants_signed ? -kTopBit : kTopBit;
  return p;
}

Types infer_pack(const OpCall& call) {
  const Packing p = packing_of(call);
  const DataType type = call.inputs[0].type;
  if (p.format != WordFormat::kBf16)
    require_byte(call, 0);
  else
    require(call, type == DataType::bf16() || type == DataType::f32(), "the input is {}, expected bf16 or f32",
            to_string(call.inputs[0]));
  Shape shape = call.inputs[0].shape;
  if (call.has(1)) {
    require(call, p.format == WordFormat::kPairs, "words of {} have no zero point", to_string(p.format));
    require_same_type(call, 0, 1);
    const TensorType& zero = call.inputs[1];
    const bool fits = p.zero_axis < 0 ? zero.elements() == 1 && zero.shape.size() <= 1
                                      : p.zero_axis < static_cast<int64_t>(shape.size()) &&
                                            zero.shape == Shape{shape[static_cast<size_t>(p.zero_axis)]};
    require(call, fits, "the zero point {} does not fit {}", to_string(zero), to_string(call.inputs[0]));
  }
  shape[p.axis] = ceil_div(p.extent, p.numbers());
  return {{DataType::i32(), shape}};
}

Tensors te_pack(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Packing p = packing_of(call);
  return {builder.compute(tensor_name(call), infer_pack(call)[0].shape, [&](const Exprs& i) {
    const auto number = [&](const Expr& k) {
      Exprs at = i;
      at[p.axis] = k;
      if (p.format == WordFormat::kBf16)
        return cast(DataType::i32(), bitcast({ScalarType::kU16}, cast(DataType::bf16(), inputs[0](at))));
      const Expr value = cast(DataType::i32(), inputs[0](at));
      if (p.shift != 0) return value + int_imm(p.shift, DataType::i32());
      if (!call.has(1)) return value;
      Exprs zero_at;
      if (!inputs[1].shape.empty()) zero_at.push_back(p.zero_axis < 0 ? Expr(0) : i[static_cast<size_t>(p.zero_axis)]);
      return value - cast(DataType::i32(), inputs[1](zero_at));
    };
    Exprs numbers;
    for (int64_t n = 0; n < p.numbers(); ++n) {
      const Expr k = i[p.axis] * p.numbers() + n;
      const bool always = n < p.extent % p.numbers() || p.extent % p.numbers() == 0;
      numbers.push_back(always ? number(k) : select(k < p.extent, number(k), int_imm(0, DataType::i32())));
    }
    return pack_word(p.format, numbers);
  })};
}

void ref_pack(const OpCall& call, Refs inputs, RefTensor& y) {
  const Packing p = packing_of(call);
  const Shape& shape = inputs[0].type.shape;
  const Shape strides = row_major_strides(shape), out_strides = row_major_strides(y.type.shape);
  const int64_t bits = 32 / p.numbers();
  const bool floats = p.format == WordFormat::kBf16;
  for (int64_t at = 0; at < inputs[0].type.elements(); ++at) {
    const auto index = [&](size_t d) { return at / strides[d] % shape[d]; };
    int64_t value = floats ? bf16_bits(inputs[0].floats[at]) : inputs[0].ints[at] + p.shift;
    if (call.has(1)) value -= inputs[1].ints[p.zero_axis < 0 ? 0 : index(static_cast<size_t>(p.zero_axis))];
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      place += (d == p.axis ? index(d) / p.numbers() : index(d)) * out_strides[d];
    const auto field = static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1);
    y.ints[static_cast<size_t>(place)] |= static_cast<int64_t>(field << (bits * (index(p.axis) % p.numbers())));
  }
  y.round_to_type();
}

// The shape that is left, and for each axis of x its place in it, -1 where it is summed.
struct Summing {
  Shape out, summed;
  std::vector<int64_t> place;
};

Summing summing_of(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const std::vector<int64_t> axes = reduced_axes(call, x.size());
  Summing s;
  for (size_t d = 0; d < x.size(); ++d) {
    const bool summed = std::ranges::binary_search(axes, static_cast<int64_t>(d));
    s.place.push_back(summed ? -1 : static_cast<int64_t>(s.out.size()));
    (summed ? s.summed : s.out).push_back(x[d]);
  }
  return s;
}

Types infer_sum(const OpCall& call) {
  require_words(call, 0);
  require(call, word_format(call) == WordFormat::kQuads, "words of '{}'", call.node.string_attr("words"));
  return {{DataType::i32(), summing_of(call).out}};
}

Tensors te_sum(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Summing s = summing_of(call);
  const WordFormat format = word_format(call);
  const WordSide side = side_of(call);
  return {
      builder.reduce(tensor_name(call), s.out, s.summed, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
        Exprs at;
        size_t next = 0;
        for (const int64_t place : s.place) at.push_back(place < 0 ? r[next++] : i[static_cast<size_t>(place)]);
        const Expr word = inputs[0](at);
        Expr sum = number_of_word(format, side, word, 0);
        for (int k = 1; k < numbers_of(format); ++k) sum = sum + number_of_word(format, side, word, k);
        return sum;
      })};
}

std::vector<RefTensor> ref_sum(const OpCall& call, Refs inputs) {
  const Summing s = summing_of(call);
  const WordFormat format = word_format(call);
  const std::vector<double> numbers = unpacked(inputs[0].ints, 1, format, side_of(call));
  std::vector<double> sums(static_cast<size_t>(num_elements(s.out)));
  const Shape out_strides = row_major_strides(s.out);
  int64_t word = 0;
  for_each_index(inputs[0].type.shape, [&](const std::vector<int64_t>& index) {
    int64_t to = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (s.place[d] >= 0) to += index[d] * out_strides[static_cast<size_t>(s.place[d])];
    }
    const int64_t each = numbers_of(format);
    for (int64_t k = 0; k < each; ++k) sums[static_cast<size_t>(to)] += numbers[static_cast<size_t>(word * each + k)];
    ++word;
  });
  return {of_sums(infer_sum(call)[0], std::move(sums))};
}

}  // namespace

WordFormat word_format(const OpCall& call) {
  const std::optional<WordFormat> format = parse_word_format(call.node.string_attr("words"));
  require(call, format.has_value(), "there are no words of '{}'", call.node.string_attr("words"));
  return *format;
}

MultiplyFn product_of_words(const OpCall& call) {
  return [format = word_format(call)](const Expr& a, const Expr& b) { return word_product(format, a, b); };
}

te::Tensor less_zero_point(const OpCall& call, te::Builder& builder, const Tensors& inputs, size_t k, size_t axis) {
  return builder.compute(tensor_name(call, k == 0 ? "a" : "b"), inputs[k].shape, [&](const Exprs& i) {
    const Expr value = cast(DataType::i32(), inputs[k](i));
    if (!call.has(2 + k)) return value;
    const te::Tensor& zero = inputs[2 + k];
    const Exprs at = zero.shape.empty() ? Exprs{} : Exprs{zero.shape[0] == 1 ? Expr(0) : i[axis]};
    return value - cast(DataType::i32(), zero(at));
  });
}

void require_words(const OpCall& call, size_t input) {
  const TensorType& x = call.inputs[input];
  require(call, x.type == DataType::i32(), "input {} is {}, expected words in i32", input, to_string(x));
}

void require_byte(const OpCall& call, size_t input) {
  const TensorType& x = call.inputs[input];
  require(call, x.type.is_int() && x.type.bits() == 8, "input {} is {}, expected u8 or i8", input, to_string(x));
}

std::vector<double> unpacked(const std::vector<int64_t>& words, int64_t inner, WordFormat format, WordSide side) {
  const int64_t each = numbers_of(format);
  const int64_t bits = 32 / each;
  const bool is_signed = format == WordFormat::kPairs || side == WordSide::kRight;
  const auto number = [&](int64_t field) {
    if (format == WordFormat::kBf16) return bf16_value(static_cast<uint16_t>(field));
    const bool negative = is_signed && (field >> (bits - 1) & 1) != 0;
    return static_cast<double>(negative ? field - (int64_t{1} << bits) : field);
  };
  std::vector<double> out(static_cast<size_t>(each) * words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    for (int64_t k = 0; k < each; ++k) {
      const int64_t field = words[i] >> (k * bits) & ((int64_t{1} << bits) - 1);
      const int64_t to = (at / inner * each + k) * inner + at % inner;
      out[static_cast<size_t>(to)] = number(field);
    }
  }
  return out;
}

RefTensor of_sums(const TensorType& type, std::vector<double> sums) {
  RefTensor y = RefTensor::zeros(type);
  if (y.is_float()) y.floats = std::move(sums);
  for (size_t i = 0; i < y.ints.size(); ++i) y.ints[i] = graph::wrap_int(static_cast<int64_t>(sums[i]), type.type);
  return y;
}

std::vector<OpDef> word_ops() {
  return {{"pack_words", OpClass::kInjective, infer_pack, te_pack, filled<infer_pack, ref_pack>, {1, 2}},
          {"sum_words", OpClass::kReduction, infer_sum, te_sum, ref_sum}};
}

}  // namespace tw::ops
