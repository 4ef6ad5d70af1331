// Resize and Upsample: separable, so one axis after the other; each output position is a weighted sum of a few inputs.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

constexpr size_t kMaxGatheredSamples = 4;  // more samples are one matrix product instead of a sum of gathers

struct Options {
  std::string mode, coordinates, nearest;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

struct Axis {
  int64_t axis, in, out;
  double scale;  // out / in, not rounded
  double roi_begin = 0, roi_end = 1;
};

struct Sample {
  int64_t index;
  double weight;
};
using Samples = std::vector<Sample>;

// The input coordinate of output position `at`, as the ONNX specification of Resize defines it.
double source_coordinate(const Options& o, const Axis& a, int64_t at) {
  const double x = static_cast<double>(at);
  const double in = static_cast<double>(a.in);
  const double out = a.scale * in;
  if (o.coordinates == "asymmetric") return x / a.scale;
  if (o.coordinates == "half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (o.coordinates == "pytorch_half_pixel") return out == 1 ? -0.5 : (x + 0.5) / a.scale - 0.5;
  if (o.coordinates == "align_corners") return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (o.coordinates == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(a.out) / out;
    return in / 2 * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
  }
  if (o.coordinates == "tf_crop_and_resize") {
    const double span = (a.roi_end - a.roi_begin) * (in - 1);
    return a.roi_begin * (in - 1) + (out == 1 ? span / 2 : x * span / (out - 1));
  }
  throw UserError("coordinate_transformation_mode '{}'", o.coordinates);
}

double nearest(const Options& o, double x) {
  if (o.nearest == "round_prefer_floor") return std::ceil(x - 0.5);
  if (o.nearest == "round_prefer_ceil") return std::floor(x + 0.5);
  if (o.nearest == "floor") return std::floor(x);
  if (o.nearest == "ceil") return std::ceil(x);
  throw UserError("nearest_mode '{}'", o.nearest);
}

// The interpolation kernel at distance d: a triangle, or the cubic convolution of Keys 1981, equation (4).
double kernel(const Options& o, double d) {
  d = std::fabs(d);
  if (o.mode == "linear") return std::max(1 - d, 0.0);
  const double a = o.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Samples samples_at(const Options& o, const Axis& a, int64_t at) {
  const double x = source_coordinate(o, a, at);
  const auto clamp = [&](double i) { return static_cast<int64_t>(std::clamp(i, 0.0, static_cast<double>(a.in - 1))); };
  if (o.mode == "nearest") return {{clamp(nearest(o, x)), 1}};
  // Shrinking with antialias stretches the kernel over all inputs that an output stands for.
  const double stretch = o.antialias ? std::min(a.scale, 1.0) : 1.0;
  const double reach = (o.mode == "linear" ? 1 : 2) / stretch;
  Samples samples;
  double sum = 0;
  for (double i = std::ceil(x - reach); i <= std::floor(x + reach); ++i) {
    const double weight = kernel(o, (i - x) * stretch);
    const bool outside = i < 0 || i > static_cast<double>(a.in - 1);
    if (weight == 0 || (outside && o.exclude_outside)) continue;
    samples.push_back({clamp(i), weight});
    sum += weight;
  }
  for (Sample& sample : samples) sample.weight /= sum;
  return samples;
}

ValueId weighted_gathers(Emitter& e, ValueId x, const Axis& a, const std::vector<Samples>& samples, size_t max) {
  const Shape along = along_axis(e.rank(x), a.axis, a.out);
  ValueId sum = graph::kAbsent;
  for (size_t t = 0; t < max; ++t) {
    std::vector<int64_t> indices;
    graph::RefTensor weights = graph::RefTensor::zeros({e.data_type(x), along});
    bool plain = true;
    for (const Samples& list : samples) {
      indices.push_back(t < list.size() ? list[t].index : 0);
      const double weight = t < list.size() ? list[t].weight : 0;
      if (weights.is_float()) weights.floats[indices.size() - 1] = weight;
      plain = plain && weight == 1;
    }
    weights.round_to_type();
    ValueId part = e.gather(x, e.int_list(indices), a.axis);
    if (!plain) part = e.mul(part, e.constant(weights));
    sum = t == 0 ? part : e.add(sum, part);
  }
  return sum;
}

ValueId matrix_resize(Emitter& e, ValueId x, const Axis& a, const std::vector<Samples>& samples) {
  graph::RefTensor matrix = graph::RefTensor::zeros({e.data_type(x), {a.in, a.out}});
  for (int64_t at = 0; at < a.out; ++at) {
    for (const Sample& sample : samples[at]) matrix.floats[sample.index * a.out + at] += sample.weight;
  }
  matrix.round_to_type();
  std::vector<int64_t> perm = sequence(std::ssize(e.shape(x)));
  std::swap(perm[a.axis], perm.back());
  return e.transpose(e.matmul(e.transpose(x, perm), e.constant(matrix)), perm);
}

ValueId resize_axis(Emitter& e, ValueId x, const Options& o, const Axis& a) {
  std::vector<Samples> samples;
  size_t max = 0;
  bool identity = a.in == a.out;
  graph::RefTensor inside = graph::RefTensor::zeros({DataType::boolean(), {a.out}});
  bool all_inside = true;
  for (int64_t at = 0; at < a.out; ++at) {
    samples.push_back(samples_at(o, a, at));
    max = std::max(max, samples.back().size());
    identity = identity && samples.back().size() == 1 && samples.back()[0].index == at;
    const double source = source_coordinate(o, a, at);
    inside.ints[at] = o.coordinates != "tf_crop_and_resize" || (source >= 0 && source <= static_cast<double>(a.in - 1));
    all_inside = all_inside && inside.ints[at] != 0;
  }
  if (!identity)
    x = max <= kMaxGatheredSamples ? weighted_gathers(e, x, a, samples, max) : matrix_resize(e, x, a, samples);
  if (all_inside) return x;
  return e.where(e.reshape(e.constant(inside), along_axis(e.rank(x), a.axis, a.out)), x, e.number(x, o.extrapolation));
}

// Extents below 1, or too many of them, are refused before any table is built.
void check_axis(const Axis& a) {
  if (a.in < 1 || a.out < 1 || a.out > kMaxFoldInputElements || !(a.scale > 0)) {
    throw UserError("axis {} with {} elements cannot be resized to {} (scale {})", a.axis, a.in, a.out, a.scale);
  }
}

ValueId resize(NodeContext& c, const Options& o, const std::vector<Axis>& axes) {
  Emitter& e = c.emit();
  if (o.mode != "nearest" && o.mode != "linear" && o.mode != "cubic") throw UserError("mode '{}'", o.mode);
  const DataType type = c.type(0).type;
  ValueId x = o.mode == "nearest" || type.is_float() ? c.input(0) : e.cast(c.input(0), DataType::f32());
  for (const Axis& a : axes) {
    check_axis(a);
    x = resize_axis(e, x, o, a);
  }
  return e.cast(x, type);
}

int64_t scaled_extent(int64_t in, double scale) {
  const double out = std::floor(static_cast<double>(in) * scale);
  return out >= 0 && out <= static_cast<double>(kMaxElements) ? static_cast<int64_t>(out) : -1;
}

std::vector<Axis> axes_from_scales(NodeContext& c, const std::vector<double>& scales,
                                   const std::vector<int64_t>& axes) {
  if (scales.size() != axes.size()) throw UserError("{} scales for {} axes", scales.size(), axes.size());
  std::vector<Axis> result;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t in = c.shape(0)[axes[i]];
    if (scales[i] == 1 && in == 0) continue;
    result.push_back({axes[i], in, scaled_extent(in, scales[i]), scales[i]});
  }
  return result;
}

std::vector<Axis> axes_from_sizes(NodeContext& c, const std::vector<int64_t>& sizes, const std::vector<int64_t>& axes) {
  if (sizes.size() != axes.size()) throw UserError("{} sizes for {} axes", sizes.size(), axes.size());
  const std::string policy = c.string_or("keep_aspect_ratio_policy", "stretch");
  std::vector<Axis> result;
  double common = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t in = c.shape(0)[axes[i]];
    const double scale = static_cast<double>(sizes[i]) / static_cast<double>(in);
    common = i == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    result.push_back({axes[i], in, sizes[i], scale});
  }
  if (policy == "stretch") return result;
  if (policy != "not_larger" && policy != "not_smaller") throw UserError("keep_aspect_ratio_policy '{}'", policy);
  for (Axis& a : result) {
    const double out = std::floor(common * static_cast<double>(a.in) + 0.5);
    a.out = out >= 1 && out <= static_cast<double>(kMaxElements) ? static_cast<int64_t>(out) : -1;
    a.scale = common;
  }
  return result;
}

Outputs convert_resize(NodeContext& c) {
  Options o;
  o.mode = c.string_or("mode", "nearest");
  o.coordinates = c.string_or("coordinate_transformation_mode", "half_pixel");
  o.nearest = c.string_or("nearest_mode", "round_prefer_floor");
  o.cubic_a = c.float_or("cubic_coeff_a", -0.75);
  o.extrapolation = c.float_or("extrapolation_value", 0);
  o.exclude_outside = c.int_or("exclude_outside", 0) != 0;
  o.antialias = c.int_or("antialias", 0) != 0;
  std::vector<int64_t> axes = c.ints_or("axes", sequence(c.rank(0)));
  for (int64_t& axis : axes) axis = normalize_axis(axis, c.rank(0));
  const bool sized = c.has(3) && c.type(3).elements() > 0;
  if (!sized && !c.has(2)) throw UserError("scales or sizes must be given");
  c.ignore_attr("keep_aspect_ratio_policy");
  std::vector<Axis> plan = sized ? axes_from_sizes(c, c.const_ints(3, "sizes"), axes)
                                 : axes_from_scales(c, c.const_floats(2, "scales"), axes);
  if (o.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = c.const_floats(1, "roi");
    if (roi.size() != 2 * plan.size()) throw UserError("{} numbers of roi for {} axes", roi.size(), plan.size());
    for (size_t i = 0; i < plan.size(); ++i) {
      plan[i].roi_begin = roi[i];
      plan[i].roi_end = roi[i + plan.size()];
    }
  }
  return {resize(c, o, plan)};
}

// Upsample, and Resize of opset 10: coordinates are divided by the scale and rounded down.
Outputs convert_upsample(NodeContext& c) {
  Options o;
  o.mode = c.string_or("mode", "nearest");
  o.coordinates = "asymmetric";
  o.nearest = "floor";
  const std::vector<double> scales =
      c.op() == "Upsample" && c.opset() < 9 ? c.floats_or("scales", {}) : c.const_floats(1, "scales");
  return {resize(c, o, axes_from_scales(c, scales, sequence(c.rank(0))))};
}

}  // namespace

std::vector<ConverterRow> resize_rows() {
  return {
      {"Resize", 10, 10, convert_upsample}, {"Resize", 11, 0, convert_resize}, {"Upsample", 7, 10, convert_upsample}};
}

}  // namespace tw::frontend
