#include "te/axes.h"

#include <fmt/format.h>

namespace tw::te {

std::vector<Axis> make_axes(char prefix, const Shape& shape) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < shape.size(); ++d) axes.push_back({fmt::format("{}{}", prefix, d), shape[d]});
  return axes;
}

std::vector<Expr> variables(const std::vector<Axis>& axes) {
  std::vector<Expr> vars;
  for (const Axis& axis : axes) vars.push_back(axis.var());
  return vars;
}

std::vector<std::string> axis_names(const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

Shape shape_of(const std::vector<Axis>& axes) {
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis.extent);
  return shape;
}

int64_t num_points(const std::vector<Axis>& axes) { return num_elements(shape_of(axes)); }

}  // namespace tw::te
