// The transform of a Winograd convolution's weights, in f64 and as its definition says it (ops/winograd.h).
#pragma once
#include "graph/ref_tensor.h"
#include "ops/winograd.h"

namespace tw::testing {

/// U[p, q, .., c, oc] = sum over r, s of G[p, r] w[oc, c, .., r, s] G[q, s].
inline graph::RefTensor winograd_weights(const graph::RefTensor& w, int64_t m) {
  const ops::Winograd::Matrix& g = ops::winograd(m).weights;
  const Shape& shape = w.type.shape;
  const int64_t depth = shape.size() == 5 ? shape[2] : 1;
  Shape out{m + 2, m + 2, shape[1], shape[0]};
  if (shape.size() == 5) out.insert(out.begin() + 2, depth);
  graph::RefTensor u = graph::RefTensor::zeros({w.type.type, out});
  for (int64_t i = 0; i < u.type.elements(); ++i) {
    const int64_t oc = i % shape[0];
    const int64_t c = i / shape[0] % shape[1];
    const int64_t tap = i / (shape[0] * shape[1]) % depth;
    const int64_t pq = i / (shape[0] * shape[1] * depth);
    const double* kernel = &w.floats[((oc * shape[1] + c) * depth + tap) * 9];
    for (int64_t rs = 0; rs < 9; ++rs) u.floats[i] += g[pq / (m + 2)][rs / 3] * kernel[rs] * g[pq % (m + 2)][rs % 3];
  }
  return u;
}

}  // namespace tw::testing
