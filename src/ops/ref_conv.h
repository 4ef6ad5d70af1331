// The direct convolution of the references, in f64.
#pragma once
#include "ops/window.h"

namespace tw::ops {

struct ConvSizes {
  int64_t batch, group, channels, out_channels;  // channels of all groups together
  int64_t channels_each() const { return channels / group; }
  int64_t out_channels_each() const { return out_channels / group; }
};

/// y[n, oc, o..] = sum over ic, k.. of x[n, first channel of oc's group + ic, position of o and k] * w[oc, ic, k..],
/// positions by `window`, x 0 outside; all arrays row-major.
void convolve(const Window& window, const ConvSizes& sizes, const double* x, const double* w, double* y);

}  // namespace tw::ops
