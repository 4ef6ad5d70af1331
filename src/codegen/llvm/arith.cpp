#include "codegen/llvm/arith.h"

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <bit>
#include <map>

#include "expr/scalar.h"
#include "support/error.h"

namespace tw::codegen::cpu {
namespace {

namespace Intrinsic = ::llvm::Intrinsic;
using ::llvm::Constant;

Value* zero_of(Value* x) { return Constant::getNullValue(x->getType()); }

// Runs f on the operands converted to f32 and rounds what it gives back to the 16-bit float `type`. One operation of
// +, -, *, /, sqrt done in f32 and rounded once more equals the operation rounded once (24 >= 2 * 11 + 2 bits).
template <typename F, typename... Values>
Value* through_f32(Builder& builder, DataType type, F f, Values... operands) {
  const DataType wide = DataType::f32().with_lanes(type.lanes());
  return emit_cast(builder, type, wide, f(wide, emit_cast(builder, wide, type, operands)...));
}

// Instructions on floats, on signed and on other integers.
template <typename Instruction>
struct OpRow {
  Op op;
  Instruction on_float, on_signed, on_unsigned;
};
using Binary = ::llvm::Instruction;
constexpr auto kNone = Binary::BinaryOpsEnd;
constexpr OpRow<Binary::BinaryOps> kArithmetic[] = {
    {Op::kAdd, Binary::FAdd, Binary::Add, Binary::Add},   {Op::kSub, Binary::FSub, Binary::Sub, Binary::Sub},
    {Op::kMul, Binary::FMul, Binary::Mul, Binary::Mul},   {Op::kDiv, Binary::FDiv, Binary::SDiv, Binary::UDiv},
    {Op::kAnd, kNone, Binary::And, Binary::And},          {Op::kOr, kNone, Binary::Or, Binary::Or},
    {Op::kXor, kNone, Binary::Xor, Binary::Xor},          {Op::kShiftLeft, kNone, Binary::Shl, Binary::Shl},
    {Op::kShiftRight, kNone, Binary::AShr, Binary::LShr},
};
using Compare = ::llvm::CmpInst;
constexpr OpRow<Compare::Predicate> kComparisons[] = {
    {Op::kEq, Compare::FCMP_OEQ, Compare::ICMP_EQ, Compare::ICMP_EQ},
    {Op::kNe, Compare::FCMP_UNE, Compare::ICMP_NE, Compare::ICMP_NE},
    {Op::kLt, Compare::FCMP_OLT, Compare::ICMP_SLT, Compare::ICMP_ULT},
    {Op::kLe, Compare::FCMP_OLE, Compare::ICMP_SLE, Compare::ICMP_ULE},
};

// The row of `op`, or null.
template <typename Rows>
auto* row_of(const Rows& rows, Op op) {
  const auto* row = std::ranges::find_if(rows, [op](const auto& candidate) { return candidate.op == op; });
  return row == std::end(rows) ? nullptr : row;
}

Value* float_unary(Builder& builder, Op op, Value* x) {
  static const std::map<Op, ::llvm::Intrinsic::ID> kIntrinsics = {{Op::kAbs, Intrinsic::fabs},
                                                                  {Op::kFloor, Intrinsic::floor},
                                                                  {Op::kCeil, Intrinsic::ceil},
                                                                  {Op::kRound, Intrinsic::roundeven},
                                                                  {Op::kTrunc, Intrinsic::trunc}};
  return op == Op::kNeg ? builder.CreateFNeg(x) : builder.CreateUnaryIntrinsic(kIntrinsics.at(op), x);
}

// NaN when either side is NaN; zeros of either sign are equal. The x86 instruction computes `a > b ? a : b`: unordered
// operands give the second one, so that is all where one side cannot be NaN. Otherwise the intrinsic: a comparison and
// a blend more, both of its first operand. That is b here: in a reduction a is the accumulator, and what it waits for
// stays short. (Written as two selects, LLVM would make one of them, and no instruction for the maximum.)
Value* float_min_max(Builder& builder, Op op, Value* a, Value* b, const OperandFacts& facts) {
  if (facts.a_never_nan || facts.b_never_nan) {
    if (!facts.a_never_nan) std::swap(a, b);
    Value* first = op == Op::kMax ? builder.CreateFCmpOGT(a, b) : builder.CreateFCmpOLT(a, b);
    return builder.CreateSelect(first, a, b);
  }
  Value* picked = builder.CreateBinaryIntrinsic(op == Op::kMax ? Intrinsic::maximum : Intrinsic::minimum, b, a);
  // Constants are folded.
  if (auto* call = ::llvm::dyn_cast<::llvm::CallInst>(picked)) call->setHasNoSignedZeros(true);
  return picked;
}

Value* float_binary(Builder& builder, Op op, Value* a, Value* b, const OperandFacts& facts) {
  if (op == Op::kMin || op == Op::kMax) return float_min_max(builder, op, a, b, facts);
  if (const auto* row = row_of(kComparisons, op)) return builder.CreateFCmp(row->on_float, a, b);
  const auto* row = row_of(kArithmetic, op);
  TW_CHECK(row != nullptr && row->on_float != kNone, "binary operation not defined on floats");
  return builder.CreateBinOp(row->on_float, a, b);
}

// The value of a constant that is the same in every lane, or 0 (no divisor).
int64_t splat_constant(Value* x) {
  auto* constant = ::llvm::dyn_cast<Constant>(x);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* number = ::llvm::dyn_cast_or_null<::llvm::ConstantInt>(constant);
  return number ? number->getSExtValue() : 0;
}

// Signed a, any b != 0: the truncated quotient is one too large, and the remainder off by b, where the remainder is not
// zero and has the other sign than b.
Value* signed_floor(Builder& builder, Op op, Value* a, Value* b) {
  const int64_t divisor = splat_constant(b);
  if (divisor > 0 && (divisor & (divisor - 1)) == 0) {
    const auto shift = static_cast<uint64_t>(std::countr_zero(static_cast<uint64_t>(divisor)));
    if (op == Op::kFloorDiv) return builder.CreateAShr(a, ::llvm::ConstantInt::get(a->getType(), shift));
    return builder.CreateAnd(a, ::llvm::ConstantInt::get(a->getType(), static_cast<uint64_t>(divisor - 1)));
  }
  Value* quotient = builder.CreateSDiv(a, b);
  Value* rest = builder.CreateSub(a, builder.CreateMul(quotient, b));
  Value* differs = builder.CreateICmpSLT(builder.CreateXor(rest, b), zero_of(b));
  Value* adjust = builder.CreateAnd(builder.CreateICmpNE(rest, zero_of(rest)), differs);
  if (op == Op::kFloorMod) return builder.CreateAdd(rest, builder.CreateSelect(adjust, b, zero_of(b)));
  return builder.CreateAdd(quotient, builder.CreateSExt(adjust, a->getType()));
}

Value* floor_division(Builder& builder, Op op, DataType type, Value* a, Value* b) {
  if (type.is_signed_int()) return signed_floor(builder, op, a, b);
  return op == Op::kFloorDiv ? builder.CreateUDiv(a, b) : builder.CreateURem(a, b);
}

Value* int_binary(Builder& builder, Op op, DataType type, Value* a, Value* b) {
  const bool is_signed = type.is_signed_int();
  if (op == Op::kFloorDiv || op == Op::kFloorMod) return floor_division(builder, op, type, a, b);
  if (op == Op::kMin) return builder.CreateBinaryIntrinsic(is_signed ? Intrinsic::smin : Intrinsic::umin, a, b);
  if (op == Op::kMax) return builder.CreateBinaryIntrinsic(is_signed ? Intrinsic::smax : Intrinsic::umax, a, b);
  const auto of = [is_signed](const auto& row) { return is_signed ? row.on_signed : row.on_unsigned; };
  if (const auto* row = row_of(kComparisons, op)) return builder.CreateICmp(of(*row), a, b);
  const auto* row = row_of(kArithmetic, op);
  TW_CHECK(row != nullptr, "binary operation not defined on integers");
  return builder.CreateBinOp(of(*row), a, b);
}

// Lanes [first, first + count) of x.
Value* slice(Builder& builder, Value* x, int first, int count) {
  if (count == 1) return builder.CreateExtractElement(x, static_cast<uint64_t>(first));
  std::vector<int> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(first + i);
  return builder.CreateShuffleVector(x, lanes);
}

}  // namespace

Value* emit_unary(Builder& builder, Op op, DataType type, Value* x) {
  if (type.is_half()) {
    return through_f32(
        builder, type, [&](DataType, Value* wide) { return float_unary(builder, op, wide); }, x);
  }
  if (type.is_float()) return float_unary(builder, op, x);
  switch (op) {
    case Op::kNeg:
      return builder.CreateNeg(x);
    case Op::kNot:
      return builder.CreateNot(x);
    case Op::kAbs:
      return type.is_signed_int() ? builder.CreateBinaryIntrinsic(Intrinsic::abs, x, builder.getFalse()) : x;
    default:
      throw InternalError("unary operation not defined on integers");
  }
}

Value* emit_binary(Builder& builder, Op op, DataType type, Value* a, Value* b, const OperandFacts& facts) {
  if (type.is_half()) {
    const DataType wide = DataType::f32().with_lanes(type.lanes());
    Value* result =
        float_binary(builder, op, emit_cast(builder, wide, type, a), emit_cast(builder, wide, type, b), facts);
    return is_comparison(op) ? result : emit_cast(builder, type, wide, result);
  }
  if (type.is_float()) return float_binary(builder, op, a, b, facts);
  const bool floors = op == Op::kFloorDiv || op == Op::kFloorMod;
  if (floors && facts.a_not_negative && splat_constant(b) > 0) {
    return op == Op::kFloorDiv ? builder.CreateUDiv(a, b) : builder.CreateURem(a, b);
  }
  return int_binary(builder, op, type, a, b);
}

Value* emit_fma(Builder& builder, DataType type, Value* a, Value* b, Value* c) {
  TW_CHECK(!type.is_half(), "fma of {} is to be expanded before code generation", to_string(type));
  return builder.CreateIntrinsic(Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* emit_fma_by_parts(Builder& builder, Value* a, Value* b, Value* c) {
  const auto add = [&](Value* x, Value* y) { return builder.CreateFAdd(x, y); };
  const auto sub = [&](Value* x, Value* y) { return builder.CreateFSub(x, y); };
  const auto mul = [&](Value* x, Value* y) { return builder.CreateFMul(x, y); };
  // x = high + low, each of at most 26 bits (Veltkamp 1968).
  const auto split = [&](Value* x) {
    Value* scaled = mul(x, ::llvm::ConstantFP::get(x->getType(), 0x1p27 + 1));
    Value* high = sub(scaled, sub(scaled, x));
    return std::pair(high, sub(x, high));
  };
  const auto [a_high, a_low] = split(a);
  const auto [b_high, b_low] = split(b);
  Value* product = mul(a, b);
  Value* middle = add(add(sub(mul(a_high, b_high), product), mul(a_high, b_low)), mul(a_low, b_high));
  Value* of_product = add(middle, mul(a_low, b_low));
  Value* sum = add(product, c);
  Value* from_c = sub(sum, product);
  Value* of_sum = add(sub(product, sub(sum, from_c)), sub(c, from_c));
  Value* value = add(sum, add(of_product, of_sum));
  return builder.CreateSelect(builder.CreateFCmpORD(value, value), value, sum);  // errors of infinities are NaN
}

Value* emit_word_product(Builder& builder, const CpuLevel& level, WordFormat format, Value* a, Value* b, Value* sum) {
  struct Row {
    WordFormat format;
    unsigned lanes;
    ::llvm::Intrinsic::ID intrinsic;
    std::array<std::string_view, 2> features;  // any of them; none: every level of such registers
  };
  constexpr std::array<Row, 9> kRows = {{
      {WordFormat::kPairs, 4, Intrinsic::x86_sse2_pmadd_wd, {}},
      {WordFormat::kPairs, 8, Intrinsic::x86_avx2_pmadd_wd, {}},
      {WordFormat::kPairs, 16, Intrinsic::x86_avx512_pmaddw_d_512, {}},
      {WordFormat::kQuads, 4, Intrinsic::x86_avx512_vpdpbusd_128, {"avx512vnni", "avxvnni"}},
      {WordFormat::kQuads, 8, Intrinsic::x86_avx512_vpdpbusd_256, {"avx512vnni", "avxvnni"}},
      {WordFormat::kQuads, 16, Intrinsic::x86_avx512_vpdpbusd_512, {"avx512vnni"}},
      {WordFormat::kBf16, 4, Intrinsic::x86_avx512bf16_dpbf16ps_128, {"avx512bf16"}},
      {WordFormat::kBf16, 8, Intrinsic::x86_avx512bf16_dpbf16ps_256, {"avx512bf16"}},
      {WordFormat::kBf16, 16, Intrinsic::x86_avx512bf16_dpbf16ps_512, {"avx512bf16"}},
  }};
  const auto* words = ::llvm::dyn_cast<::llvm::FixedVectorType>(a->getType());
  if (words == nullptr || words->getNumElements() * sizeof(int32_t) > static_cast<size_t>(level.vector_bytes) ||
      !level.triple.starts_with("x86_64"))
    return nullptr;
  const auto* row = std::ranges::find_if(kRows, [&](const Row& candidate) {
    const auto has = [&](std::string_view feature) { return !feature.empty() && level.has(feature); };
    const bool available = candidate.features[0].empty() || std::ranges::any_of(candidate.features, has);
    return candidate.format == format && candidate.lanes == words->getNumElements() && available;
  });
  if (row == kRows.end()) return nullptr;
  if (format == WordFormat::kQuads)
    return builder.CreateIntrinsic(row->intrinsic, {}, {sum == nullptr ? zero_of(a) : sum, a, b});
  const bool floats = format == WordFormat::kBf16;
  auto* half = floats ? builder.getBFloatTy() : builder.getInt16Ty();
  auto* halves = ::llvm::FixedVectorType::get(half, 2 * row->lanes);
  a = builder.CreateBitCast(a, halves);
  b = builder.CreateBitCast(b, halves);
  if (floats) {
    auto* sums = ::llvm::FixedVectorType::get(builder.getFloatTy(), row->lanes);
    return builder.CreateIntrinsic(row->intrinsic, {}, {sum == nullptr ? Constant::getNullValue(sums) : sum, a, b});
  }
  Value* product = builder.CreateIntrinsic(row->intrinsic, {}, {a, b});
  return sum == nullptr ? product : builder.CreateAdd(sum, product);
}

Value* emit_sqrt(Builder& builder, DataType type, Value* x) {
  const auto root = [&](DataType, Value* y) { return builder.CreateUnaryIntrinsic(Intrinsic::sqrt, y); };
  return type.is_half() ? through_f32(builder, type, root, x) : root(type, x);
}

Value* emit_reduce(Builder& builder, Op op, DataType type, Value* x) {
  const Op step = lane_operation(op);
  const auto take_last = [&](int last) {
    Value* other = builder.CreateExtractElement(x, static_cast<uint64_t>(last));
    Value* first = builder.CreateExtractElement(x, uint64_t{0});
    x = slice(builder, x, 0, last);
    x = builder.CreateInsertElement(x, emit_binary(builder, step, type.element(), first, other), uint64_t{0});
  };
  const auto take_halves = [&](int half) {
    Value* low = slice(builder, x, 0, half);
    Value* high = slice(builder, x, half, half);
    x = emit_binary(builder, step, type.with_lanes(half), low, high);
  };
  combine_lanes(type.lanes(), take_last, take_halves);
  return x;
}

}  // namespace tw::codegen::cpu
