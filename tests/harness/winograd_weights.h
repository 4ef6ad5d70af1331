// The transform of a Winograd convolution's weights, in f64 and as its definition says it (ops/winograd.h), and what
// else the operator reads.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

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
    const int64_t position = i / (shape[0] * shape[1]) % depth;
    const int64_t pq = i / (shape[0] * shape[1] * depth);
    const double* kernel = &w.floats[((oc * shape[1] + c) * depth + position) * 9];
    for (int64_t rs = 0; rs < 9; ++rs) u.floats[i] += g[pq / (m + 2)][rs / 3] * kernel[rs] * g[pq % (m + 2)][rs % 3];
  }
  return u;
}

/// Of each channel of w the root mean square over the largest one.
inline graph::RefTensor winograd_scales(const graph::RefTensor& w) {
  const Shape& shape = w.type.shape;
  graph::RefTensor scales = graph::RefTensor::zeros({w.type.type, {shape[1]}});
  const int64_t each = w.type.elements() / (shape[0] * shape[1]);
  for (int64_t i = 0; i < w.type.elements(); ++i) scales.floats[i / each % shape[1]] += w.floats[i] * w.floats[i];
  double largest = 0;
  for (const double s : scales.floats) largest = std::max(largest, s);
  for (double& s : scales.floats) s = largest > 0 ? std::sqrt(s / largest) : 0;
  return scales;
}

/// Inputs of a winograd_conv of the kernels w: x, then the transformed weights, w, and the scales.
inline std::vector<graph::RefTensor> winograd_inputs(const graph::RefTensor& x, const graph::RefTensor& w, int64_t m) {
  return {x, winograd_weights(w, m), w, winograd_scales(w)};
}

}  // namespace tw::testing
