#include "codegen/cuda/emit.h"

#include "codegen/cuda/emit_expr.h"
#include "codegen/cuda/kernel_emitter.h"

namespace tw::codegen {

namespace {

// A name in C of letters and digits, not so long that tables of profilers break.
std::string kernel_name(const std::string& what, size_t k) {
  constexpr size_t kLongest = 60;
  std::string name = "tw_" + what.substr(0, kLongest);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  return k == 0 ? name : fmt::format("{}_{}", name, k);
}

}  // namespace

CudaSource emit_cuda(const loop::Program& program, const std::string& what) {
  CudaSource source;
  source.text = cuda_prelude();
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    if (program.kernels[k].is_implemented()) {
      source.kernels.push_back({kernel_name(what, k), 0});
      continue;
    }
    KernelEmitter emitter(program.kernels[k], kernel_name(what, k));
    source.kernels.push_back(emitter.run());
    source.text += "\n" + emitter.text();
  }
  return source;
}

}  // namespace tw::codegen
