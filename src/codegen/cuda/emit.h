// Loop IR to CUDA C++ text: one __global__ function for each kernel, one block for each tile.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda/source.h"
#include "loop/loop.h"

namespace tw::codegen {

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
