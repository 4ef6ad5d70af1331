// Lists of axes: made of a shape, and what they are together.
#pragma once
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::te {

/// Axes of the extents of `shape`: i0, i1, .. with the prefix 'i'.
std::vector<Axis> make_axes(char prefix, const Shape& shape);
std::vector<Expr> variables(const std::vector<Axis>& axes);
std::vector<std::string> axis_names(const std::vector<Axis>& axes);
Shape shape_of(const std::vector<Axis>& axes);
/// The product of their extents.
int64_t num_points(const std::vector<Axis>& axes);

}  // namespace tw::te
