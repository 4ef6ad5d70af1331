// Element types in LLVM: as SSA values, in memory, and as constants. Private to codegen/llvm.
// Bool is i1 as a value and one byte in memory. f16 and bf16 are i16 in both: every operation on them converts first,
// so that no target ever has to have them as a legal type.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "expr/expr.h"

namespace tw::codegen::cpu {

using Builder = ::llvm::IRBuilder<>;
using ::llvm::Value;

/// Type of a value of `type`: a scalar, or a fixed vector of `type.lanes()` lanes.
::llvm::Type* value_type(::llvm::LLVMContext& context, DataType type);
/// Type of the same in memory.
::llvm::Type* memory_type(::llvm::LLVMContext& context, DataType type);
/// What was loaded as memory_type -> value_type, and back.
Value* from_memory(Builder& builder, DataType type, Value* loaded);
Value* to_memory(Builder& builder, DataType type, Value* value);

/// The constant of a kIntImm or kFloatImm node.
::llvm::Constant* immediate(::llvm::LLVMContext& context, const ExprNode& node);
/// The float constant `x`, or the integer constant `x`, of `type` in every lane.
::llvm::Constant* float_constant(::llvm::LLVMContext& context, DataType type, double x);
::llvm::Constant* int_constant(::llvm::LLVMContext& context, DataType type, int64_t x);
/// The vector 0, 1, .. lanes-1 of the integer type `type` (scalar type given, `lanes` at least 2).
::llvm::Constant* lane_numbers(::llvm::LLVMContext& context, DataType type);

}  // namespace tw::codegen::cpu
