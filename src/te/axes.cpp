// Lists of axes: made of a shape, and what they are together.
#include <fmt/format.h>

#include "support/join.h"
#include "te/te.h"

namespace tw::te {

std::vector<Axis> make_axes(char prefix, const Shape& shape) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < shape.size(); ++d) axes.push_back({fmt::format("{}{}", prefix, d), shape[d]});
  return axes;
}

std::vector<Expr> variables(const std::vector<Axis>& axes) { return mapped(axes, &Axis::var); }

std::vector<std::string> axis_names(const std::vector<Axis>& axes) { return mapped(axes, &Axis::name); }

Shape shape_of(const std::vector<Axis>& axes) { return mapped(axes, &Axis::extent); }

int64_t num_points(const std::vector<Axis>& axes) { return num_elements(shape_of(axes)); }

}  // namespace tw::te
