// Whether outputs are what a test expects.
#pragma once
#include <string>

#include "graph/ref_tensor.h"

namespace tw::conformance {

/// Empty when `actual` equals `expected`: type and shape; integers and bools exactly; floats within the package's own
/// relative 1e-3 and absolute 1e-7 (wider bounds for 16-bit floats, and f32's noise of the largest element), NaN equal
/// to NaN. Otherwise the worst element in words.
std::string difference(const graph::RefTensor& actual, const graph::RefTensor& expected);

}  // namespace tw::conformance
