// The sums of products, and the direct convolution, of the references in f64: fast enough for networks of 10^10
// multiply-adds.
#pragma once
#include <cstdint>

#include "ops/window.h"

namespace tw::ops {

constexpr int kPanel = 4;  // columns computed together: two SSE2 vectors of f64

/// out[row * kPanel + j] = sum over k of a[row * k_count + k] * panel[k * kPanel + j], k ascending, for rows 0 ..
/// rows-1.
void multiply_panel(const double* a, int64_t rows, int64_t k_count, const double* panel, double* out);

/// y[n, oc, o..] = sum over ic, k.. of x[n, first channel of oc's group + ic, position of o and k] * w[oc, ic, k..],
/// positions by `window`, x 0 outside; all arrays row-major.
void convolve(const Window& window, const Channels& channels, const double* x, const double* w, double* y);

}  // namespace tw::ops
