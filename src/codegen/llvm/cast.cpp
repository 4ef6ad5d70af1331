// Conversions between element types: kCast and kBitcast of expr.h.
#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "codegen/llvm/arith.h"
#include "support/error.h"

namespace tw::codegen::cpu {
namespace {

namespace Intrinsic = ::llvm::Intrinsic;
using ::llvm::Constant;
using ::llvm::ConstantInt;
using ::llvm::Type;

constexpr int kF32MantissaDropBits = 16;  // bf16 is the upper half of an f32

// An integer constant in every lane of x's type.
Value* bits(Value* x, uint64_t value) { return ConstantInt::get(x->getType(), value); }

Type* with_lanes_of(Value* x, Type* element) {
  const auto* vector = ::llvm::dyn_cast<::llvm::FixedVectorType>(x->getType());
  return vector ? ::llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

Value* half_to_f32(Builder& builder, DataType from, Value* x) {
  auto& context = builder.getContext();
  Type* f32 = with_lanes_of(x, Type::getFloatTy(context));
  if (from.scalar() == ScalarType::kF16) {
    return builder.CreateFPExt(builder.CreateBitCast(x, with_lanes_of(x, Type::getHalfTy(context))), f32);
  }
  Value* wide = builder.CreateZExt(x, with_lanes_of(x, Type::getInt32Ty(context)));
  return builder.CreateBitCast(builder.CreateShl(wide, bits(wide, kF32MantissaDropBits)), f32);
}

// Nearest even on the bits: adds just under half of the dropped part, and one more where the kept part is odd.
Value* f32_to_bf16(Builder& builder, Value* x) {
  Value* word = builder.CreateBitCast(x, with_lanes_of(x, builder.getInt32Ty()));
  Value* kept = builder.CreateLShr(word, bits(word, kF32MantissaDropBits));
  Value* bias = builder.CreateAdd(builder.CreateAnd(kept, bits(word, 1)), bits(word, 0x7fff));
  Value* rounded = builder.CreateLShr(builder.CreateAdd(word, bias), bits(word, kF32MantissaDropBits));
  // Rounding could carry a NaN's payload into the exponent's neighbour: a NaN is cut off and made quiet instead.
  Value* quiet = builder.CreateOr(kept, bits(word, 0x40));
  Value* picked = builder.CreateSelect(builder.CreateFCmpUNO(x, x), quiet, rounded);
  return builder.CreateTrunc(picked, with_lanes_of(x, builder.getInt16Ty()));
}

Value* f32_to_half(Builder& builder, DataType to, Value* x) {
  if (to.scalar() == ScalarType::kBF16) return f32_to_bf16(builder, x);
  auto& context = builder.getContext();
  Value* half = builder.CreateFPTrunc(x, with_lanes_of(x, Type::getHalfTy(context)));
  return builder.CreateBitCast(half, with_lanes_of(x, builder.getInt16Ty()));
}

// The f32 next to the f64 x, rounded to odd: rounding that to a 16-bit float is one rounding of x (Boldo and Melquiond
// 2008). Nearest gave f; where it is inexact and even, the neighbour on the other side of x is the odd one.
Value* f64_to_odd_f32(Builder& builder, Value* x) {
  Value* nearest = builder.CreateFPTrunc(x, with_lanes_of(x, builder.getFloatTy()));
  Value* word = builder.CreateBitCast(nearest, with_lanes_of(x, builder.getInt32Ty()));
  Value* back = builder.CreateFPExt(nearest, x->getType());
  Value* magnitude = builder.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* rounded_up = builder.CreateFCmpOGT(builder.CreateUnaryIntrinsic(Intrinsic::fabs, back), magnitude);
  Value* truncated = builder.CreateSub(word, builder.CreateZExt(rounded_up, word->getType()));
  Value* odd = builder.CreateOr(truncated, bits(word, 1));
  // Ordered: a NaN stays as it is. An infinity that came from a finite x becomes the largest finite float, which every
  // 16-bit float rounds to infinity again.
  Value* inexact = builder.CreateFCmpONE(back, x);
  return builder.CreateBitCast(builder.CreateSelect(inexact, odd, word), nearest->getType());
}

// An f64 that is x, or, where 53 bits do not suffice, x with its low 11 bits gathered in one: rounding it to 24 bits or
// fewer is then one rounding of x.
Value* int_to_f64_sticky(Builder& builder, DataType from, Value* x) {
  Type* f64 = with_lanes_of(x, builder.getDoubleTy());
  const bool is_signed = from.is_signed_int();
  const auto convert = [&](Value* v) {
    return is_signed ? builder.CreateSIToFP(v, f64) : builder.CreateUIToFP(v, f64);
  };
  if (from.bits() < 64) return convert(x);
  constexpr uint64_t kDropped = 11;
  Value* high = is_signed ? builder.CreateAShr(x, bits(x, kDropped)) : builder.CreateLShr(x, bits(x, kDropped));
  Value* low = builder.CreateAnd(x, bits(x, (1u << kDropped) - 1));
  Value* sticky = builder.CreateZExt(builder.CreateICmpNE(low, bits(x, 0)), x->getType());
  Value* scaled = builder.CreateFMul(convert(builder.CreateOr(high, sticky)), ::llvm::ConstantFP::get(f64, 0x1p11));
  // Small values are exact as they are.
  Value* magnitude = is_signed ? builder.CreateBinaryIntrinsic(Intrinsic::abs, x, builder.getFalse()) : x;
  Value* small = builder.CreateICmpULT(magnitude, bits(x, uint64_t{1} << 53));
  return builder.CreateSelect(small, convert(x), scaled);
}

Value* int_to_float(Builder& builder, DataType to, DataType from, Value* x) {
  if (to.is_half()) {
    if (from.is_bool()) x = builder.CreateZExt(x, with_lanes_of(x, builder.getInt32Ty()));
    const DataType whole = from.is_bool() ? DataType::i32().with_lanes(from.lanes()) : from;
    return f32_to_half(builder, to, f64_to_odd_f32(builder, int_to_f64_sticky(builder, whole, x)));
  }
  Type* type = value_type(builder.getContext(), to);
  return from.is_signed_int() ? builder.CreateSIToFP(x, type) : builder.CreateUIToFP(x, type);
}

// Truncation that saturates, NaN to 0. Where both ends of the integer type are floats of the source type, clamping
// first makes the plain conversion defined: two instructions and a mask instead of LLVM's general sequence.
Value* float_to_int(Builder& builder, DataType to, DataType from, Value* x) {
  auto& context = builder.getContext();
  Type* type = value_type(context, to);
  const bool is_signed = to.is_signed_int();
  const int value_bits = to.bits() - (is_signed ? 1 : 0);
  const int mantissa_bits = from.scalar() == ScalarType::kF64 ? 53 : 24;
  if (value_bits > mantissa_bits) {
    return builder.CreateIntrinsic(is_signed ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat, {type, x->getType()},
                                   {x});
  }
  const double high = std::ldexp(1.0, value_bits) - 1;
  const double low = is_signed ? -high - 1 : 0;
  const OperandFacts no_nan{.b_never_nan = true};
  x = builder.CreateSelect(builder.CreateFCmpORD(x, x), x, Constant::getNullValue(x->getType()));
  x = emit_binary(builder, Op::kMax, from, x, float_constant(context, from, low), no_nan);
  x = emit_binary(builder, Op::kMin, from, x, float_constant(context, from, high), no_nan);
  // Through a signed 32 or 64 bit integer, which x86 converts to directly.
  const bool through_i32 = to.bits() < 32 || (to.bits() == 32 && is_signed);
  Type* middle = with_lanes_of(x, through_i32 ? builder.getInt32Ty() : builder.getInt64Ty());
  return builder.CreateTrunc(builder.CreateFPToSI(x, middle), type);
}

Value* float_to_float(Builder& builder, DataType to, DataType from, Value* x) {
  const DataType f32 = DataType::f32().with_lanes(to.lanes());
  if (from.is_half()) return emit_cast(builder, to, f32, half_to_f32(builder, from, x));
  if (to.is_half()) return f32_to_half(builder, to, from.bits() == 64 ? f64_to_odd_f32(builder, x) : x);
  return builder.CreateFPCast(x, value_type(builder.getContext(), to));
}

Value* to_bool(Builder& builder, DataType from, Value* x) {
  Constant* zero = Constant::getNullValue(x->getType());
  if (!from.is_float()) return builder.CreateICmpNE(x, zero);
  // 16-bit floats are integers here: anything but the two zeros.
  if (from.is_half()) return builder.CreateICmpNE(builder.CreateAnd(x, bits(x, 0x7fff)), zero);
  return builder.CreateFCmpUNE(x, zero);
}

}  // namespace

Value* emit_cast(Builder& builder, DataType to, DataType from, Value* x) {
  TW_CHECK(to.lanes() == from.lanes(), "cast of {} to {}", to_string(from), to_string(to));
  if (to == from) return x;
  if (to.is_bool()) return to_bool(builder, from, x);
  if (from.is_float() && to.is_float()) return float_to_float(builder, to, from, x);
  if (to.is_float()) return int_to_float(builder, to, from, x);
  if (from.is_half()) {
    const DataType f32 = DataType::f32().with_lanes(from.lanes());
    return float_to_int(builder, to, f32, half_to_f32(builder, from, x));
  }
  if (from.is_float()) return float_to_int(builder, to, from, x);
  return builder.CreateIntCast(x, value_type(builder.getContext(), to), from.is_signed_int());
}

Value* emit_bitcast(Builder& builder, DataType to, DataType from, Value* x) {
  if (from.is_bool() == to.is_bool()) return builder.CreateBitCast(x, value_type(builder.getContext(), to));
  if (to.is_bool()) return builder.CreateICmpNE(x, Constant::getNullValue(x->getType()));
  return builder.CreateZExt(x, value_type(builder.getContext(), to));
}

}  // namespace tw::codegen::cpu
