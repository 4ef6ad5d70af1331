// Arithmetic of expr.h on LLVM values: one function per class of operations. Private to codegen/llvm.
// Types are given as DataType because signedness and the 16-bit floats are not visible in LLVM's types.
#pragma once
#include "codegen/llvm/target.h"
#include "codegen/llvm/types.h"
#include "expr/word_product.h"

namespace tw::codegen::cpu {

/// What the caller knows about the operands; it only makes code cheaper.
struct OperandFacts {
  bool a_not_negative = false;  // integer a >= 0
  bool a_never_nan = false;
  bool b_never_nan = false;
};

/// kNeg, kAbs, kFloor, kCeil, kRound, kTrunc, kNot of x, which has `type`.
Value* emit_unary(Builder& builder, Op op, DataType type, Value* x);
/// kAdd .. kMax, kAnd .. kShiftRight, kEq .. kLe of operands of `type`.
Value* emit_binary(Builder& builder, Op op, DataType type, Value* a, Value* b, const OperandFacts& facts = {});
/// a * b + c rounded once, on f32 or f64.
Value* emit_fma(Builder& builder, DataType type, Value* a, Value* b, Value* c);
/// The product of the words (expr/word_product.h) in i32 vectors a and b, plus `sum`, of which null is 0: as one
/// instruction, or as two where the level has no sum in it; null where the level has no product in one instruction, or
/// no register of as many lanes.
Value* emit_word_product(Builder& builder, const CpuLevel& level, WordFormat format, Value* a, Value* b, Value* sum);
/// a * b + c of f64 for levels without fma, from the exact error of the product (Dekker 1971) and of the sum (Knuth):
/// at most one unit in the last place from the result rounded once where nothing over- or underflows, equal to it where
/// it needs no rounding.
Value* emit_fma_by_parts(Builder& builder, Value* a, Value* b, Value* c);
/// The square root, correctly rounded.
Value* emit_sqrt(Builder& builder, DataType type, Value* x);
/// Combines all lanes in the order of combine_lanes (expr/scalar.h), which needs no reassociation flag and is a tree of
/// vector operations.
Value* emit_reduce(Builder& builder, Op op, DataType type, Value* x);

/// kCast from `from` to `to` (same lanes).
Value* emit_cast(Builder& builder, DataType to, DataType from, Value* x);
/// kBitcast from `from` to `to` (same width and lanes).
Value* emit_bitcast(Builder& builder, DataType to, DataType from, Value* x);

}  // namespace tw::codegen::cpu
