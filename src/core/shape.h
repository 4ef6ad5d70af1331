// Shapes: extents of each dimension, in elements, outermost first.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tw {

using Shape = std::vector<int64_t>;

/// Product of all extents; 1 for a scalar.
int64_t num_elements(const Shape& shape);
/// "[1,3,224,224]": as messages and reports say it. Texts of the IRs have their own form.
std::string to_string(const Shape& shape);
/// Row-major strides in elements: stride[d] = product of shape[d+1..].
Shape row_major_strides(const Shape& shape);
/// Broadcasts two shapes by numpy's rule into *out; false when they do not fit.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape* out);

}  // namespace tw
