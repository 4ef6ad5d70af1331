// Expressions as CUDA C++ text. Private to src/codegen/cuda.
#pragma once
#include <map>
#include <string>

#include "loop/loop.h"

namespace tw::codegen {

/// What an expression may name: buffers by IR name (their C++ name and shape) and variables (their C++ name).
struct CudaNames {
  struct Array {
    std::string name;
    Shape shape;
  };
  std::map<std::string, Array> buffers;
  std::map<std::string, std::string> variables;
};

/// "float", "long long", .. of a scalar type; 16-bit floats are stored as their bits.
std::string cuda_type(DataType type);
/// C++ of a scalar expression. Throws InternalError on vectors and unknown calls.
std::string cuda_expr(const Expr& e, const CudaNames& names);
/// C++ of the element offset of an access in row-major order.
std::string cuda_offset(const std::vector<Expr>& indices, const Shape& shape, const CudaNames& names);
/// Device functions that cuda_expr's text calls.
std::string_view cuda_prelude();

}  // namespace tw::codegen
