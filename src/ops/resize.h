// Interpolation along one axis as a table of indices and weights, fixed by the shapes: a resize is one `resample` (or,
// for "nearest", one gather) for each axis that changes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw::ops {

/// ONNX Resize along one axis, attributes by their ONNX names and values.
struct ResizeAxis {
  int64_t in = 1, out = 1;                                    // extents, both positive
  double scale = 1;                                           // out / in, or what the model says
  std::string mode = "nearest";                               // nearest, linear, cubic
  std::string coordinate_transformation_mode = "half_pixel";  // also half_pixel_symmetric, pytorch_half_pixel,
                                                              // align_corners, asymmetric, tf_crop_and_resize
  std::string nearest_mode = "round_prefer_floor";            // also round_prefer_ceil, floor, ceil
  double cubic_coeff_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double roi_start = 0, roi_end = 1;  // tf_crop_and_resize
};

/// out[o] = sum over t of weights[o * taps + t] * in[indices[o * taps + t]]; the weights of an o sum to 1. Indices are
/// inside the input: positions beyond an edge repeat its element.
struct ResizeTable {
  int64_t taps = 1;
  std::vector<int64_t> indices;
  std::vector<double> weights;
  std::vector<bool> outside;  // by o: tf_crop_and_resize only, where the extrapolation value stands
};

/// The table of one axis. Throws UserError on an unknown mode or an extent or scale that is not positive.
/// Source: the Resize operator of the ONNX specification, opset 19.
ResizeTable resize_table(const ResizeAxis& axis);

}  // namespace tw::ops
