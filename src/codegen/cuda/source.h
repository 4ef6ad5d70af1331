// CUDA C++ text with what its launch takes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"

namespace tw::codegen {

/// Where a convolution's windows lie in the spatial dims of a tensor [images, spatial.., channels]: position p of a
/// dim, one of `extents`, begins at p * step - before. Empty: there are none.
struct CudaWindows {
  Shape extents, steps, before;
};

/// What a bulk copy must know of a tensor: the driver makes a CUtensorMap of it when it has an address.
struct CudaTensorMap {
  size_t param;  // the tensor, of the kernel's buffers
  Shape shape;   // as the copies see it
  Shape box;     // TMA box: extents of one copy; lines of 128 bytes, swizzled
  CudaWindows windows;
};

struct CudaKernel {
  std::string name;     // of the __global__ function; its parameters are the kernel's buffers in order, then `maps`
  int64_t threads = 1;  // of a block: whole warps, or one thread where the kernel has no thread loops
  int64_t shared_bytes = 0;  // of a block, dynamic
  std::vector<CudaTensorMap> maps = {};
};

struct CudaSource {
  std::string text;
  std::vector<CudaKernel> kernels;  // in the order of the program
};

}  // namespace tw::codegen
