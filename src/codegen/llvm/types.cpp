#include "codegen/llvm/types.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include "support/error.h"

namespace tw::codegen::cpu {

using ::llvm::Constant;
using ::llvm::LLVMContext;
using ::llvm::Type;

namespace {

Type* with_lanes(Type* element, DataType type) {
  return type.is_vector() ? ::llvm::FixedVectorType::get(element, static_cast<unsigned>(type.lanes())) : element;
}

Type* element_type(LLVMContext& context, DataType type) {
  if (type.scalar() == ScalarType::kF32) return Type::getFloatTy(context);
  if (type.scalar() == ScalarType::kF64) return Type::getDoubleTy(context);
  return Type::getIntNTy(context, static_cast<unsigned>(type.bits()));
}

Constant* in_every_lane(Constant* element, DataType type) {
  if (!type.is_vector()) return element;
  return ::llvm::ConstantVector::getSplat(::llvm::ElementCount::getFixed(static_cast<unsigned>(type.lanes())), element);
}

}  // namespace

Type* value_type(LLVMContext& context, DataType type) {
  return with_lanes(type.is_bool() ? Type::getInt1Ty(context) : element_type(context, type), type);
}

Type* memory_type(LLVMContext& context, DataType type) { return with_lanes(element_type(context, type), type); }

Value* from_memory(Builder& builder, DataType type, Value* loaded) {
  return type.is_bool() ? builder.CreateICmpNE(loaded, Constant::getNullValue(loaded->getType())) : loaded;
}

Value* to_memory(Builder& builder, DataType type, Value* value) {
  return type.is_bool() ? builder.CreateZExt(value, memory_type(builder.getContext(), type)) : value;
}

Constant* immediate(LLVMContext& context, const ExprNode& node) {
  TW_CHECK(node.op == Op::kIntImm || node.op == Op::kFloatImm);
  return node.op == Op::kIntImm ? int_constant(context, node.type, node.value)
                                : float_constant(context, node.type, node.number);
}

Constant* float_constant(LLVMContext& context, DataType type, double x) {
  Constant* element = nullptr;
  switch (type.scalar()) {
    case ScalarType::kF16:
      element = ::llvm::ConstantInt::get(element_type(context, type), f16_bits(x));
      break;
    case ScalarType::kBF16:
      element = ::llvm::ConstantInt::get(element_type(context, type), bf16_bits(x));
      break;
    case ScalarType::kF32:
      element = ::llvm::ConstantFP::get(context, ::llvm::APFloat(static_cast<float>(x)));
      break;
    case ScalarType::kF64:
      element = ::llvm::ConstantFP::get(context, ::llvm::APFloat(x));
      break;
    default:
      throw InternalError("float constant of type " + to_string(type));
  }
  return in_every_lane(element, type);
}

Constant* int_constant(LLVMContext& context, DataType type, int64_t x) {
  TW_CHECK(!type.is_float(), "integer constant of type {}", to_string(type));
  const int64_t value = type.is_bool() ? x != 0 : x;
  Type* element = value_type(context, type.element());
  // Bits above the width are dropped: integers wrap.
  return in_every_lane(::llvm::ConstantInt::get(element, static_cast<uint64_t>(value)), type);
}

Constant* lane_numbers(LLVMContext& context, DataType type) {
  std::vector<Constant*> lanes;
  for (int lane = 0; lane < type.lanes(); ++lane) lanes.push_back(int_constant(context, type.element(), lane));
  return ::llvm::ConstantVector::get(lanes);
}

}  // namespace tw::codegen::cpu
