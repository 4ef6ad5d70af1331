// Activations with their biases, and products with what is around them.
#include "frontend/onnx/contrib/contrib.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

// gelu(x + bias); FastGelu is the form with a tanh, and has no bias where it does not need one.
Converter gelu_of_sum(std::string_view gelu) {
  return [gelu](NodeContext& c) -> Outputs {
    const ValueId x = c.has(1) ? c.emit().add(c.input(0), c.input(1)) : c.input(0);
    return {c.emit().op(gelu, {x})};
  };
}

// x sigmoid(alpha x).
Outputs convert_quick_gelu(NodeContext& c) {
  Emitter& e = c.emit();
  const ValueId x = c.input(0);
  return {e.mul(x, e.op("sigmoid", {e.mul(x, e.number(x, c.float_or("alpha", 1.702F)))}))};
}

ValueId last_two_swapped(Emitter& e, ValueId x) {
  if (e.rank(x) < 2) return x;  // of a vector there is nothing to transpose
  std::vector<int64_t> perm = sequence(e.rank(x));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return e.transpose(x, perm);
}

// alpha op(A) op(B).
Outputs convert_fused_matmul(NodeContext& c) {
  Emitter& e = c.emit();
  require_attr(c, "transBatchA", 0, "put a Transpose before input A");
  require_attr(c, "transBatchB", 0, "put a Transpose before input B");
  const ValueId a = c.int_or("transA", 0) != 0 ? last_two_swapped(e, c.input(0)) : c.input(0);
  const ValueId b = c.int_or("transB", 0) != 0 ? last_two_swapped(e, c.input(1)) : c.input(1);
  const ValueId y = e.matmul(a, b);
  const double alpha = c.float_or("alpha", 1);
  return {alpha == 1 ? y : e.mul(y, e.number(y, alpha))};
}

// Numbers of `bits` out of bytes, the low ones first: [.., n] becomes i32[.., n * 8 / bits].
ValueId unpacked(Emitter& e, ValueId bytes, int64_t bits) {
  ValueId x = e.cast(bytes, DataType::i32());
  if (bits == 8) return x;
  Shape shape = e.shape(x);
  x = e.unsqueeze(x, e.rank(x));
  const ValueId high = e.div(x, e.number(x, 16));
  x = e.concat({e.sub(x, e.mul(high, e.number(x, 16))), high}, e.rank(x) - 1);
  shape.back() *= 2;
  return e.reshape(x, shape);
}

// A times the transpose of B, whose rows of K lie in blocks of one scale and zero point each.
Outputs convert_matmul_nbits(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t k = c.int_attr("K"), n = c.int_attr("N"), block = c.int_attr("block_size");
  const int64_t bits = c.int_or("bits", 4);
  c.ignore_attr("accuracy_level");  // it allows less than what is computed here
  if (bits != 4 && bits != 8)
    throw Unsupported("attribute 'bits' is {}, only 4 and 8 are supported: quantize to one of these", bits);
  if (c.has(4)) throw Unsupported("input 'g_idx' is not supported: quantize without act_order");
  if (k < 1 || n < 1 || block < 1 || block > kMaxAttribute) throw UserError("K {}, N {}, block_size {}", k, n, block);
  const int64_t blocks = (k + block - 1) / block;
  const DataType type = c.type(2).type;
  const auto numbers = [&](size_t input, int64_t count) {
    const ValueId flat = e.reshape(c.input(input), {n, c.type(input).elements() / n});
    const ValueId whole = unpacked(e, flat, bits);
    return e.cast(e.reshape(e.slice(whole, 1, 0, count), {n, blocks, count / blocks}), type);
  };
  ValueId weights = numbers(1, blocks * block);
  ValueId zero = e.scalar(bits == 4 ? 8 : 128, type);
  if (c.has(3)) zero = c.type(3).type.is_float() ? e.reshape(c.input(3), {n, blocks, 1}) : numbers(3, blocks);
  weights = e.mul(e.sub(weights, zero), e.reshape(c.input(2), {n, blocks, 1}));
  weights = e.slice(e.reshape(weights, {n, blocks * block}), 1, 0, k);
  const ValueId y = e.matmul(c.input(0), e.transpose(e.cast(weights, c.type(0).type), {1, 0}));
  return {c.has(5) ? e.add(y, c.input(5)) : y};
}

// An operator of ONNX with an activation behind it, and before that a sum with input `beside`.
Converter activated(std::string_view op, size_t beside) {
  return [op, beside](NodeContext& c) -> Outputs {
    Emitter& e = c.emit();
    ValueId y = find_converter("", op, 13)->convert(c)[0];
    if (c.has(beside)) y = e.add(y, c.input(beside));
    const std::vector<double> all =
        c.floats_or("activation_params", {c.float_or("activation_alpha", 0.01F), c.float_or("activation_beta", 0.5F)});
    const auto number = [&](size_t k) { return k < all.size() ? all[k] : 0; };
    const std::string name = c.string_or("activation", "");
    if (name.empty()) return {y};
    if (name == "Relu") return {e.op("relu", {y})};
    if (name == "Tanh") return {e.op("tanh", {y})};
    if (name == "Sigmoid") return {e.op("sigmoid", {y})};
    if (name == "LeakyRelu") return {e.op("leaky_relu", {y}, {{"alpha", number(0)}})};
    if (name == "Clip") return {e.op("clip", {y}, {{"min", number(0)}, {"max", number(1)}})};
    if (name == "HardSigmoid") return {e.op("hard_sigmoid", {y}, {{"alpha", number(0)}, {"beta", number(1)}})};
    throw Unsupported("activation '{}' is not supported", name);
  };
}

}  // namespace

std::vector<ConverterRow> contrib_math_rows() {
  return {{"BiasGelu", 1, 0, gelu_of_sum("gelu"), kMicrosoft},
          {"Gelu", 1, 0, gelu_of_sum("gelu"), kMicrosoft},
          {"FastGelu", 1, 0, gelu_of_sum("gelu_tanh"), kMicrosoft},
          {"QuickGelu", 1, 0, convert_quick_gelu, kMicrosoft},
          {"FusedConv", 1, 0, activated("Conv", 3), kMicrosoft},
          {"FusedGemm", 1, 0, activated("Gemm", 3), kMicrosoft},
          {"FusedMatMul", 1, 0, convert_fused_matmul, kMicrosoft},
          {"TransposeMatMul", 1, 0, convert_fused_matmul, kMicrosoft},
          {"MatMulNBits", 1, 0, convert_matmul_nbits, kMicrosoft}};
}

}  // namespace tw::frontend
