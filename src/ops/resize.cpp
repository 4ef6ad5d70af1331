// resample(x, indices [O, T] i32 or i64, weights [O, T] of x's type or f32): attribute axis (int), float:
//   y[.., o, ..] = sum over t of weights[o, t] * x[.., indices[o, t], ..]     indices as in gather
// resize_table (resize.h) makes indices and weights.
#include "ops/resize.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

// Position in the input of output element o.
double source_position(const ResizeAxis& a, int64_t o) {
  const auto in = static_cast<double>(a.in), out = static_cast<double>(a.out), x = static_cast<double>(o);
  const std::string& mode = a.coordinate_transformation_mode;
  const double half_pixel = (x + 0.5) / a.scale - 0.5;
  if (mode == "half_pixel") return half_pixel;
  if (mode == "half_pixel_symmetric") return in / 2 * (1 - out / (in * a.scale)) + half_pixel;
  if (mode == "pytorch_half_pixel") return a.out > 1 ? half_pixel : 0;
  if (mode == "align_corners") return a.out > 1 ? x * (in - 1) / (out - 1) : 0;
  if (mode == "asymmetric") return x / a.scale;
  if (mode != "tf_crop_and_resize") throw UserError(fmt::format("unknown coordinate_transformation_mode '{}'", mode));
  if (a.out == 1) return 0.5 * (a.roi_start + a.roi_end) * (in - 1);
  return a.roi_start * (in - 1) + x * (a.roi_end - a.roi_start) * (in - 1) / (out - 1);
}

// Keys' cubic convolution kernel with parameter A at distance x.
double cubic_kernel(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

double kernel_at(const ResizeAxis& a, double distance) {
  return a.mode == "cubic" ? cubic_kernel(distance, a.cubic_coeff_a) : std::max(0.0, 1 - std::fabs(distance));
}

// Of the elements at base and base + 1, the one nearest to base + ratio, 0 < ratio <= 1.
int64_t nearest_step(const ResizeAxis& a, double ratio) {
  if (ratio == 1) return 1;
  if (a.nearest_mode == "round_prefer_floor") return ratio > 0.5 ? 1 : 0;
  if (a.nearest_mode == "round_prefer_ceil") return ratio >= 0.5 ? 1 : 0;
  if (a.nearest_mode == "floor") return 0;
  if (a.nearest_mode != "ceil") throw UserError(fmt::format("unknown nearest_mode '{}'", a.nearest_mode));
  return 1;
}

}  // namespace

ResizeTable resize_table(const ResizeAxis& a) {
  if (a.in < 1 || a.out < 1 || !(a.scale > 0))
    throw UserError(fmt::format("resize of {} to {} elements by {}", a.in, a.out, a.scale));
  if (a.mode != "nearest" && a.mode != "linear" && a.mode != "cubic")
    throw UserError(fmt::format("unknown mode '{}'", a.mode));
  const bool nearest = a.mode == "nearest";
  const int64_t reach = a.mode == "cubic" ? 2 : 1;  // of the kernel, in elements to each side
  // Antialiasing widens the kernel by the factor it shrinks the axis by.
  const double squeeze = a.antialias && !nearest ? std::min(a.scale, 1.0) : 1.0;
  const int64_t side = static_cast<int64_t>(std::ceil(static_cast<double>(reach) / squeeze));
  ResizeTable table;
  table.taps = nearest ? 1 : 2 * side;
  for (int64_t o = 0; o < a.out; ++o) {
    const double position = source_position(a, o);
    table.outside.push_back(a.coordinate_transformation_mode == "tf_crop_and_resize" &&
                            (position < 0 || position > static_cast<double>(a.in - 1)));
    // The element left of the position: a whole position counts as the right end of its interval.
    const auto base = static_cast<int64_t>(std::ceil(position)) - 1;
    const double ratio = position - static_cast<double>(base);
    if (nearest) {
      table.indices.push_back(std::clamp<int64_t>(base + nearest_step(a, ratio), 0, a.in - 1));
      table.weights.push_back(1);
      continue;
    }
    double sum = 0;
    for (int64_t t = 1 - side; t <= side; ++t) {
      const int64_t index = base + t;
      const bool dropped = a.exclude_outside && (index < 0 || index >= a.in);
      table.indices.push_back(std::clamp<int64_t>(index, 0, a.in - 1));
      table.weights.push_back(dropped ? 0 : kernel_at(a, (static_cast<double>(t) - ratio) * squeeze));
      sum += table.weights.back();
    }
    for (auto w = table.weights.end() - table.taps; w != table.weights.end(); ++w) *w /= sum;
  }
  return table;
}

namespace {

int64_t axis_of(const OpCall& call) {
  return normalize_axis(call, call.node.int_attr("axis"), call.inputs[0].shape.size());
}

Types infer(const OpCall& call) {
  require_inputs(call, 3, 3);
  require_float(call, 0);
  require_float(call, 2);
  const DataType index = call.inputs[1].type;
  require(call, index == DataType::i32() || index == DataType::i64(), "the indices are {}, expected i32 or i64",
          to_string(call.inputs[1]));
  require(call, call.inputs[1].shape.size() == 2 && call.inputs[1].shape == call.inputs[2].shape,
          "indices {} and weights {}, expected one table", to_string(call.inputs[1]), to_string(call.inputs[2]));
  TensorType y = call.inputs[0];
  require(call, y.shape[axis_of(call)] > 0, "axis {} of {} has no elements", axis_of(call), to_string(y));
  y.shape[axis_of(call)] = call.inputs[1].shape[0];
  return {y};
}

Tensors te_resample(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const int64_t axis = axis_of(call);
  const int64_t taps = inputs[1].shape[1];
  const bool direct = math_type(x.type) == x.type;
  const te::Tensor sum =
      builder.reduce(tensor_name(call, direct ? "" : "acc"), infer(call)[0].shape, {taps}, te::CombinerKind::kSum,
                     [&](Exprs i, const Exprs& r) {
                       const Exprs entry{i[axis], r[0]};
                       const Expr index = cast(DataType::i64(), inputs[1](entry));
                       i[axis] = min(max(select(index < Expr(0), index + Expr(x.shape[axis]), index), Expr(0)),
                                     Expr(x.shape[axis] - 1));
                       const Expr value = read(x, i);
                       return cast(value.type(), inputs[2](entry)) * value;
                     });
  return {cast_output(call, builder, sum, x.type)};
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  const RefTensor& x = inputs[0];
  const int64_t axis = axis_of(call);
  const int64_t extent = x.type.shape[axis], taps = inputs[1].type.shape[1];
  const Shape strides = row_major_strides(x.type.shape);
  RefTensor y = RefTensor::zeros(infer(call)[0]);
  int64_t to = 0;
  for_each_index(y.type.shape, [&](const std::vector<int64_t>& index) {
    const int64_t line = offset_of(index, strides) - index[axis] * strides[axis];
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t entry = index[axis] * taps + t;
      const int64_t at = inputs[1].ints[entry];
      const int64_t from = std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent - 1);
      y.floats[to] += inputs[2].floats[entry] * x.floats[line + from * strides[axis]];
    }
    ++to;
  });
  return {std::move(y)};
}

}  // namespace

std::vector<OpDef> resize_ops() { return {{"resample", OpClass::kReduction, infer, te_resample, reference}}; }

}  // namespace tw::ops
