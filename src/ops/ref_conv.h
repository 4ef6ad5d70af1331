// The direct convolution of the references, in f64.
#pragma once
#include "ops/window.h"

namespace tw::ops {

/// y[n, oc, o..] = sum over ic, k.. of x[n, first channel of oc's group + ic, position of o and k] * w[oc, ic, k..],
/// positions by `window`, x 0 outside; all arrays row-major.
void convolve(const Window& window, const Channels& channels, const double* x, const double* w, double* y);

}  // namespace tw::ops
