// ONNX element types and ours.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/data_type.h"

namespace tw::frontend {

/// "FLOAT", "INT4", or "element type 99" for one that ONNX does not have.
std::string onnx_type_name(int32_t onnx_type);

/// Our type for a TensorProto.DataType. Throws Unsupported naming `what` for types that Tilewright has no tensors of
/// (strings, complex numbers, 8-bit floats, 2- and 4-bit integers), UserError for undefined ones.
DataType element_type(int32_t onnx_type, std::string_view what);

/// The inverse.
int32_t onnx_type(DataType type);

}  // namespace tw::frontend
