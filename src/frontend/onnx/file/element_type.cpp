#include "frontend/onnx/file/element_type.h"

#include <onnx-ml.pb.h>

#include <map>

#include "support/error.h"

namespace tw::frontend {
namespace {

const std::map<int32_t, ScalarType>& known_types() {
  static const std::map<int32_t, ScalarType> kTypes = {
      {onnx::TensorProto::BOOL, ScalarType::kBool},     {onnx::TensorProto::INT8, ScalarType::kI8},
      {onnx::TensorProto::UINT8, ScalarType::kU8},      {onnx::TensorProto::INT16, ScalarType::kI16},
      {onnx::TensorProto::UINT16, ScalarType::kU16},    {onnx::TensorProto::INT32, ScalarType::kI32},
      {onnx::TensorProto::UINT32, ScalarType::kU32},    {onnx::TensorProto::INT64, ScalarType::kI64},
      {onnx::TensorProto::UINT64, ScalarType::kU64},    {onnx::TensorProto::FLOAT16, ScalarType::kF16},
      {onnx::TensorProto::BFLOAT16, ScalarType::kBF16}, {onnx::TensorProto::FLOAT, ScalarType::kF32},
      {onnx::TensorProto::DOUBLE, ScalarType::kF64}};
  return kTypes;
}

}  // namespace

std::string onnx_type_name(int32_t onnx_type) {
  if (!onnx::TensorProto_DataType_IsValid(onnx_type)) return fmt::format("element type {}", onnx_type);
  return onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(onnx_type));
}

DataType element_type(int32_t onnx_type, std::string_view what) {
  const auto& types = known_types();
  if (const auto known = types.find(onnx_type); known != types.end()) return {known->second};
  if (onnx_type == onnx::TensorProto::UNDEFINED || !onnx::TensorProto_DataType_IsValid(onnx_type)) {
    throw UserError("{} has {}", what, onnx_type ? onnx_type_name(onnx_type) : "no element type");
  }
  throw Unsupported("{} has element type {}: tensors of that type are not supported{}", what, onnx_type_name(onnx_type),
                    onnx_type == onnx::TensorProto::STRING
                        ? ". Cut the model behind the operators of strings (onnx.utils.extract_model) and do their "
                          "work before it"
                        : "");
}

int32_t onnx_type(DataType type) {
  for (const auto& [number, known] : known_types()) {
    if (DataType{known} == type) return number;
  }
  throw InternalError("ONNX has no element type {}", to_string(type));
}

}  // namespace tw::frontend
