// Loop IR to CUDA C++ text: one __global__ function for each kernel, one block for each tile.
#pragma once
#include <string>
#include <vector>

#include "loop/loop.h"

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
  Shape box;     // that one copy moves; its lines, 128 bytes long, are swizzled
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

/// CUDA C++ of a lowered program: elementary functions expanded (but sqrt). Blocks are tiles, thread loops the threads
/// of a block with a barrier after each that touches what they share; stack buffers outside them shared memory,
/// register buffers outside them each thread's own. A kernel that something else implements has no text and no threads.
/// Floats follow expr.h exactly when compiled without contraction (--fmad=false); terms that threads combine are added
/// in the order of a tree. Throws InternalError where threads would disturb each other, and on an unexpanded function.
/// `what` it computes, a group's name, names the kernels for profilers: "Conv_0+Relu_0" gives "tw_Conv_0_Relu_0".
CudaSource emit_cuda(const loop::Program& program, const std::string& what = "kernel");

/// CUDA C++ of a device function of scalars, with all that it calls: floats in, a float out, whatever type the
/// variables `params` and `value` have; 16-bit ones hold the floats exactly. The same arithmetic as in kernels of
/// emit_cuda.
std::string emit_cuda_function(const std::string& name, const std::vector<Expr>& params, const Expr& value);

}  // namespace tw::codegen
