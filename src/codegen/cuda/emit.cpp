#include "codegen/cuda/emit.h"

#include "codegen/cuda/emit_expr.h"
#include "codegen/cuda/kernel_emitter.h"

namespace tw::codegen {

CudaSource emit_cuda(const loop::Program& program) {
  CudaSource source;
  source.text = cuda_prelude();
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    KernelEmitter emitter(program.kernels[k], fmt::format("tw_kernel_{}", k));
    source.kernels.push_back(emitter.run());
    source.text += "\n" + emitter.text();
  }
  return source;
}

}  // namespace tw::codegen
