#include "frontend/onnx/running.h"

namespace tw::frontend {

ValueId shifted(Emitter& e, ValueId x, int64_t axis, int64_t distance, std::string_view op) {
  const int64_t rank = e.rank(x);
  std::vector<int64_t> pads(2 * rank, 0);
  pads[axis] = distance;
  pads[axis + rank] = -distance;
  return e.pad(x, pads, "constant", int64_t{op == "mul" ? 1 : 0});
}

// After step s each element holds what the 2^s elements that end in it come to.
ValueId running(Emitter& e, ValueId x, int64_t axis, std::string_view op, RunsFrom from) {
  const int64_t n = e.shape(x)[axis];
  for (int64_t step = 1; step < n; step *= 2)
    x = e.op(op, {x, shifted(e, x, axis, step * static_cast<int64_t>(from), op)});
  return x;
}

}  // namespace tw::frontend
