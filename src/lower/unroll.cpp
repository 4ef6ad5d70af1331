// Unrolled loops become copies of their body.
#include "lower/copy.h"
#include "lower/passes.h"

namespace tw::lower {

loop::Program unroll(const loop::Program& program, const LowerOptions&) {
  loop::Program out = program;
  for (loop::Kernel& kernel : out.kernels) kernel.body = unrolled(kernel.body);
  return out;
}

}  // namespace tw::lower
