// Loop IR to CUDA C++ text: one __global__ function for each kernel, one thread for each tile.
#pragma once
#include <string>
#include <vector>

#include "loop/loop.h"

namespace tw::codegen {

struct CudaKernel {
  std::string name;                 // of the __global__ function
  std::vector<std::string> params;  // pointers, 8 bytes each, in the order of the kernel's buffers
  int64_t tiles = 1;                // threads that have work; the function returns at once in the others
};

struct CudaSource {
  std::string text;
  std::vector<CudaKernel> kernels;  // in the order of the program
};

/// CUDA C++ of a lowered program without vector values: scalars only, elementary functions expanded (but sqrt), scratch
/// and stack buffers as local arrays. Floats follow expr.h exactly when compiled without contraction (--fmad=false).
/// Throws InternalError on a vector value or an unexpanded function.
CudaSource emit_cuda(const loop::Program& program);

}  // namespace tw::codegen
