// Contractions of narrow numbers as products of words (expr/word_product.h): of 8-bit integers (matmul_integer,
// conv_integer), and of bf16.
//
// Pairs of 16-bit numbers: both operands are packed less their zero points, and no correction follows. Every target.
//
// Quads of bytes, where the target sums the four products in one instruction: x as unsigned, w as signed bytes; 128 is
// added to, or subtracted from, those of the other kind and their zero points. With Q the sum of the products of bytes
// and x0, w0 these zero points,
//   sum over k of (x - x0) (w - w0) = Q - x0 (sum over k of w - K w0) - w0 sum over k of x.
// Sums of constant weights are folded. The numbers beyond the end of an incomplete word are 0 in both operands. A
// convolution's padding stands for x0: it is written before packing, and w0 has to be 0.
//
// Words of bf16, where the target sums the two products in one instruction, for contractions of constant weights,
// unless precision is strict: the instruction takes subnormal numbers for zero. Where precision is fast, matrix
// products of f32, too, rounded to bf16, if less time for products and weights outweighs packing the activations.
#include <algorithm>

#include "cost/units.h"
#include "expr/word_product.h"
#include "support/join.h"
#include "transform/editor.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr int64_t kTopBit = 128;
constexpr int64_t kFewNumbers = 2;  // summed: a pair is one word, too, and needs no correction

// Rewrites one contraction: what is the same for matrices and convolutions.
class Packer {
 public:
  Packer(Editor& editor, Node node) : editor_(editor), node_(std::move(node)) {}

 protected:
  ValueId operand(size_t k) const { return node_.inputs[k]; }
  ValueId zero(size_t k) const { return node_.inputs.size() > 2 + k ? node_.inputs[2 + k] : kAbsent; }

  ValueId add(std::string op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return editor_.emit(node_, std::move(op), std::move(inputs), std::move(attrs));
  }

  ValueId number(int64_t value) {
    return editor_.add_constant(node_.name + "_number", {DataType::i32(), {}},
                                scalar_bytes(DataType::i32(), static_cast<double>(value)));
  }

  // 128 where the bytes of operand k are of the other kind than its side of a quad; the sign is that of its numbers.
  int64_t shift(size_t k) const {
    const bool is_signed = editor_.type(operand(k)).type.is_signed_int();
    return k == 0 ? (is_signed ? kTopBit : 0) : (is_signed ? 0 : -kTopBit);
  }

  // The zero point of a quad's operand where it is the same known number everywhere.
  std::optional<int64_t> known_zero(size_t k) const {
    if (zero(k) == kAbsent) return shift(k);
    const std::optional<double> splat = splat_of(editor_.value(zero(k)));
    return splat ? std::optional(static_cast<int64_t>(*splat) + shift(k)) : std::nullopt;
  }

  // The same in i32: one number, or numbers of `shape`, whose extent of -1 is their count; kAbsent where it is known to
  // be 0.
  ValueId shifted_zero(size_t k, Shape shape) {
    const std::optional<int64_t> known = known_zero(k);
    if (known) return *known == 0 ? kAbsent : number(*known);
    ValueId value = add("cast", {zero(k)}, {{"to", std::string("i32")}});
    if (shift(k) != 0) value = add("add", {value, number(shift(k))});
    const int64_t count = editor_.type(value).elements();
    std::ranges::replace(shape, int64_t{-1}, count);
    return add("reshape", {value}, {{"shape", count == 1 ? Shape{} : shape}});
  }

  // Packed before it is turned: words that lie in memory as they are need no kernel.
  ValueId pack(std::vector<ValueId> inputs, Attrs attrs) {
    const Node* turned = editor_.producer(inputs[0], "transpose");
    if (turned == nullptr) return add("pack_words", std::move(inputs), std::move(attrs));
    const Node transpose = *turned;
    const Ints& perm = transpose.ints_attr("perm");
    for (const char* name : {"axis", "zero_axis"}) {
      if (const auto axis = attrs.find(name); axis != attrs.end())
        axis->second = perm[static_cast<size_t>(std::get<int64_t>(axis->second))];
    }
    inputs[0] = transpose.inputs[0];
    return editor_.emit(transpose, "transpose", {pack(std::move(inputs), std::move(attrs))}, transpose.attrs);
  }

  ValueId pack_pairs(size_t k, int64_t axis, int64_t zero_axis) {
    Attrs attrs = {{"axis", axis}, {"words", std::string("pairs")}};
    const bool known = zero(k) == kAbsent || splat_of(editor_.value(zero(k))) == 0.0;
    if (known) return pack({operand(k)}, std::move(attrs));
    if (editor_.type(zero(k)).elements() > 1) attrs["zero_axis"] = zero_axis;
    return pack({operand(k), zero(k)}, std::move(attrs));
  }

  ValueId pack_bf16(size_t k, int64_t axis) {
    return add("pack_words", {operand(k)}, {{"axis", axis}, {"words", std::string("bf16")}});
  }

  ValueId of_node_type(ValueId sum) {
    const DataType type = editor_.type(node_.outputs[0]).type;
    return type == editor_.type(sum).type ? sum : add("cast", {sum}, {{"to", to_string(type)}});
  }

  static Attrs quads(size_t side, Attrs more) {
    more["words"] = std::string("quads");
    more["side"] = std::string(side == 0 ? "left" : "right");
    return more;
  }

  Editor& editor_;
  const Node node_;
};

class MatMulPacker : Packer {
 public:
  using Packer::Packer;

  ValueId run(const TargetInfo& target) {
    return sums_words(target, WordFormat::kQuads) && summed() > kFewNumbers ? multiply_quads() : multiply_pairs();
  }

  ValueId multiply_bf16() {
    const Attrs words = {{"words", std::string("bf16")}};
    const ValueId a = pack_bf16(0, summed_axis(0)), b = pack_bf16(1, summed_axis(1));
    return of_node_type(add("matmul_words", {a, b}, words));
  }

  // Whether an f32 product is faster with both operands rounded to bf16: half of the products' issue cycles and half of
  // the weights, for reading the activations once more and writing their words.
  bool pays(const TargetInfo& target) const {
    const auto elements = [&](ValueId v) { return static_cast<double>(editor_.type(v).elements()); };
    const double inputs = elements(operand(0)), weights = elements(operand(1));
    const int lanes = target.lanes(DataType::f32());
    const double products = elements(node_.outputs[0]) * static_cast<double>(summed());
    const auto move_ns = [&](double bytes) { return bytes / cost::read_rate(target, bytes, cost::kCacheShare); };
    const double saved = products / 2 / lanes * cost::issue_cycle_ns(target, lanes) + move_ns(2 * weights);
    return saved > move_ns((4 + 2) * inputs);
  }

 private:
  int64_t rank(size_t k) const { return static_cast<int64_t>(editor_.shape(operand(k)).size()); }
  // Of the summed axis, and of the rows of a or the columns of b.
  int64_t summed_axis(size_t k) const { return k == 0 ? rank(0) - 1 : std::max<int64_t>(rank(1) - 2, 0); }
  int64_t other_axis(size_t k) const { return k == 0 ? rank(0) - 2 : rank(1) - 1; }
  int64_t summed() const { return editor_.shape(operand(0)).back(); }

  ValueId multiply_pairs() {
    const ValueId a = pack_pairs(0, summed_axis(0), other_axis(0)), b = pack_pairs(1, summed_axis(1), other_axis(1));
    return add("matmul_words", {a, b}, {{"words", std::string("pairs")}});
  }

  // As rows or columns of the result: an axis of extent 1 stands where the other operand's axis is.
  ValueId spread(size_t k, ValueId sums) {
    if (rank(0) < 2 || rank(1) < 2) return sums;
    Shape spread = editor_.shape(sums);
    spread.insert(k == 0 ? spread.end() : spread.end() - 1, 1);
    return add("reshape", {sums}, {{"shape", spread}});
  }

  ValueId multiply_quads() {
    const ValueId packed[2] = {pack({operand(0)}, quads(0, {{"axis", summed_axis(0)}})),
                               pack({operand(1)}, quads(1, {{"axis", summed_axis(1)}}))};
    const auto sums = [&](size_t k) {
      const ValueId sum = add("sum_words", {packed[k]}, quads(k, {{"axes", Ints{summed_axis(k)}}}));
      return spread(k, sum);
    };
    ValueId y = add("matmul_words", {packed[0], packed[1]}, {{"words", std::string("quads")}});
    // Of each row: along y's last but one axis, or its last one where y has no columns.
    const Shape rows = rank(1) < 2 ? Shape{-1} : Shape{-1, 1};
    const ValueId a0 = shifted_zero(0, rows);
    const ValueId b0 = shifted_zero(1, {-1});
    if (a0 != kAbsent) {
      ValueId columns = sums(1);
      if (b0 != kAbsent) columns = add("sub", {columns, add("mul", {b0, number(summed())})});
      y = add("sub", {y, add("mul", {a0, columns})});
    }
    return b0 == kAbsent ? y : add("sub", {y, add("mul", {b0, sums(0)})});
  }
};

class ConvPacker : Packer {
 public:
  using Packer::Packer;

  // kAbsent where a word would hold channels of two groups, or one channel only. So is what multiply_bf16 gives.
  ValueId run(const TargetInfo& target) {
    if (sums_words(target, WordFormat::kQuads) && known_zero(1) == 0 && fill() && fits(numbers_of(WordFormat::kQuads)))
      return convolve_quads();
    return fits(numbers_of(WordFormat::kPairs)) ? convolve_pairs() : kAbsent;
  }

  ValueId multiply_bf16() {
    if (!fits(numbers_of(WordFormat::kBf16))) return kAbsent;
    const ValueId x = pack_bf16(0, 1), w = pack_bf16(1, 1);
    ValueId y = add("conv_words", {x, w}, attributes("bf16"));
    if (node_.inputs.size() > 2) {
      const ValueId bias = add("cast", {node_.inputs[2]}, {{"to", std::string("f32")}});
      y = add("add", {y, add("reshape", {bias}, {{"shape", channels(y)}})});
    }
    return of_node_type(y);
  }

 private:
  // As many as y's, and 1 for each spatial axis.
  Shape channels(ValueId y) const {
    Shape channels(editor_.shape(y).size() - 1, 1);
    channels[0] = editor_.shape(y)[1];
    return channels;
  }

  int64_t channels_each() const { return editor_.shape(operand(1))[1]; }
  bool fits(int64_t numbers) const {
    const bool one_group = node_.int_attr_or("group", 1) == 1;
    return channels_each() > numbers / 2 && (one_group || channels_each() % numbers == 0);
  }

  Ints pads() const { return node_.ints_attr_or("pads", Ints(2 * (editor_.shape(operand(0)).size() - 2), 0)); }

  // The number that stands in the padding of x; nothing when there is padding and the number is not known.
  std::optional<int64_t> fill() const {
    if (zero(0) == kAbsent || all_are(pads(), 0)) return 0;
    const std::optional<double> splat = splat_of(editor_.value(zero(0)));
    return splat ? std::optional(static_cast<int64_t>(*splat)) : std::nullopt;
  }

  Attrs attributes(const char* words) const {
    Attrs attrs = node_.attrs;
    attrs["words"] = std::string(words);
    return attrs;
  }

  ValueId convolve_pairs() {
    const ValueId x = pack_pairs(0, 1, -1), w = pack_pairs(1, 1, 0);
    return add("conv_words", {x, w}, attributes("pairs"));
  }

  ValueId convolve_quads() {
    Attrs attrs = attributes("quads");
    ValueId x = operand(0);
    if (*fill() + shift(0) != 0) {  // else the padding is the words of zeros that the convolution reads there
      x = padded();
      attrs.erase("pads");
    }
    const ValueId packed_x = pack({x}, quads(0, {{"axis", int64_t{1}}}));
    const ValueId packed_w = pack({operand(1)}, quads(1, {{"axis", int64_t{1}}}));
    const ValueId y = add("conv_words", {packed_x, packed_w}, std::move(attrs));
    const ValueId x0 = shifted_zero(0, {});
    if (x0 == kAbsent) return y;
    const Ints axes = sequence(editor_.shape(operand(1)).size() - 1, 1);
    const ValueId sums = add("sum_words", {packed_w}, quads(1, {{"axes", axes}}));
    return add("sub", {y, add("mul", {x0, add("reshape", {sums}, {{"shape", channels(y)}})})});
  }

  ValueId padded() {
    const Ints spatial = pads();
    const size_t rank = spatial.size() / 2;
    Ints all(2 * (rank + 2), 0);
    std::copy(spatial.begin(), spatial.begin() + static_cast<std::ptrdiff_t>(rank), all.begin() + 2);
    std::copy(spatial.begin() + static_cast<std::ptrdiff_t>(rank), spatial.end(),
              all.begin() + static_cast<std::ptrdiff_t>(rank + 4));
    if (all_are(all, 0)) return operand(0);
    return add("pad", {operand(0)}, {{"pads", all}, {"mode", std::string("constant")}, {"value", *fill()}});
  }
};

// Whether `node`, a product of floats, is one of bf16 words on the target.
bool takes_bf16(Editor& editor, const Node& node, const TransformContext& context) {
  const bool possible = sums_words(context.target, WordFormat::kBf16) && context.precision != Precision::kStrict;
  if (!possible || !editor.value(node.inputs[1]).is_constant()) return false;
  const DataType type = editor.type(node.inputs[0]).type;
  if (type == DataType::bf16()) return true;
  return context.precision == Precision::kFast && type == DataType::f32() && node.op == "matmul" &&
         MatMulPacker(editor, node).pays(context.target);
}

}  // namespace

graph::Graph pack_dot_operands(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    ValueId words = kAbsent;
    if (node.op == "matmul_integer") words = MatMulPacker(editor, node).run(context.target);
    if (node.op == "conv_integer") words = ConvPacker(editor, node).run(context.target);
    if (node.op == "matmul" && takes_bf16(editor, node, context)) words = MatMulPacker(editor, node).multiply_bf16();
    if (node.op == "conv" && takes_bf16(editor, node, context)) words = ConvPacker(editor, node).multiply_bf16();
    if (words != kAbsent) editor.replace(node.outputs[0], words);
  });
  return fold_constants(editor.finish(), context);  // packed weights, their sums and zero points
}

}  // namespace tw::transform
