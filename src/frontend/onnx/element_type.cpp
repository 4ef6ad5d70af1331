#include "frontend/onnx/element_type.h"

#include <onnx-ml.pb.h>

#include "support/error.h"

namespace tw::frontend {

std::string onnx_type_name(int32_t onnx_type) {
  if (!onnx::TensorProto_DataType_IsValid(onnx_type)) return fmt::format("element type {}", onnx_type);
  return onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(onnx_type));
}

DataType element_type(int32_t onnx_type, std::string_view what) {
  switch (onnx_type) {
    case onnx::TensorProto::BOOL:
      return DataType::boolean();
    case onnx::TensorProto::INT8:
      return {ScalarType::kI8};
    case onnx::TensorProto::UINT8:
      return {ScalarType::kU8};
    case onnx::TensorProto::INT16:
      return {ScalarType::kI16};
    case onnx::TensorProto::UINT16:
      return {ScalarType::kU16};
    case onnx::TensorProto::INT32:
      return DataType::i32();
    case onnx::TensorProto::UINT32:
      return {ScalarType::kU32};
    case onnx::TensorProto::INT64:
      return DataType::i64();
    case onnx::TensorProto::UINT64:
      return {ScalarType::kU64};
    case onnx::TensorProto::FLOAT16:
      return DataType::f16();
    case onnx::TensorProto::BFLOAT16:
      return DataType::bf16();
    case onnx::TensorProto::FLOAT:
      return DataType::f32();
    case onnx::TensorProto::DOUBLE:
      return DataType::f64();
    default:
      break;
  }
  if (onnx_type == onnx::TensorProto::UNDEFINED || !onnx::TensorProto_DataType_IsValid(onnx_type)) {
    throw UserError(fmt::format("{} has {}", what, onnx_type ? onnx_type_name(onnx_type) : "no element type"));
  }
  throw Unsupported(
      fmt::format("{} has element type {}: tensors of that type are not supported", what, onnx_type_name(onnx_type)));
}

}  // namespace tw::frontend
