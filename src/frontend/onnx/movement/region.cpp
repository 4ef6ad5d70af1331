// Pooling and convolution at computed places: RoiAlign and DeformConv.
#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/windows/sampling.h"
#include "frontend/onnx/windows/window.h"

namespace tw::frontend {
namespace {

void require_float(NodeContext& c, size_t input, std::string_view name) {
  if (!c.type(input).type.is_float())
    throw UserError("{} is {}, it must be a float", name, to_string(c.type(input).type));
}

// Floats first, first + step, ..
ValueId iota(Emitter& e, int64_t count, double first, double step, TensorType type) {
  if (count > kMaxFoldInputElements)
    throw Unsupported("{} places along one axis; up to {} are supported", count, kMaxFoldInputElements);
  graph::RefTensor numbers = graph::RefTensor::zeros(std::move(type));
  for (int64_t i = 0; i < count; ++i) numbers.floats[i] = first + step * static_cast<double>(i);
  numbers.round_to_type();
  return e.constant(numbers);
}

// x where it is within [low, high], kept within [0, last]; `inside` says where.
struct Clipped {
  ValueId x, inside;
};
Clipped clipped(Emitter& e, ValueId x, double low, double high, double last) {
  const ValueId inside =
      e.op("and", {e.op("greater_equal", {x, e.number(x, low)}), e.op("less_equal", {x, e.number(x, high)})});
  return {e.op("clip", {x}, {{"min", 0.0}, {"max", last}}), inside};
}

class RoiAligner {
 public:
  explicit RoiAligner(NodeContext& c) : c_(c), e_(c.emit()) {
    const Shape x = c.shape(0);
    const Shape rois = c.shape(1);
    if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || c.shape(2) != Shape{rois[0]} || c.type(0).elements() == 0)
      throw UserError("the regions {} do not fit the input {}", to_string(rois), to_string(x));
    require_float(c, 1, "the second input");
    regions_ = rois[0];
    samples_ = bounded("sampling_ratio", 0);
    if (samples_ < 1) {
      throw Unsupported(
          "with sampling_ratio 0 the number of samples depends on the regions; export it with a fixed sampling_ratio");
    }
    const char* const fallback = c.opset() < 16 ? "output_half_pixel" : "half_pixel";
    half_pixel_ =
        c.choice("coordinate_transformation_mode", {fallback, "half_pixel", "output_half_pixel"}) == "half_pixel";
    mode_ = c.choice("mode", {"avg", "max"});
  }

  // 'max' takes the largest weighted neighbour of all samples of a bin, 'avg' the mean of the interpolated samples.
  ValueId run() {
    const Shape x = c_.shape(0);
    const int64_t height = bounded("output_height", 1), width = bounded("output_width", 1);
    const std::array<Neighbour, 2> rows = neighbours(1, 3, height, x[2]);
    const std::array<Neighbour, 2> columns = neighbours(0, 2, width, x[3]);
    const ValueId pixels = e_.gather(e_.reshape(c_.input(0), {x[0], x[1], x[2] * x[3]}), c_.input(2), 0);
    const int64_t points = height * samples_ * width * samples_;
    ValueId all = kAbsent;
    for (const Neighbour& row : rows) {
      for (const Neighbour& column : columns) {
        const Neighbour at = crossed(e_, with_axis(row, 2), with_axis(column, 1), x[3]);
        const ValueId part = weighted_pixels(
            e_, pixels, {e_.reshape(at.index, {regions_, points}), e_.reshape(at.weight, {regions_, points})});
        all = all == kAbsent ? part : e_.op(mode_ == "avg" ? "add" : "max", {all, part});
      }
    }
    const ValueId bins = e_.reshape(all, {regions_, x[1], height, samples_, width, samples_});
    return e_.reduce(mode_ == "avg" ? "reduce_mean" : "reduce_max", bins, {3, 5}, KeepDims::kNo);
  }

 private:
  int64_t bounded(const std::string& key, int64_t low) {
    const int64_t value = c_.int_or(key, low);
    if (value < low || value > kMaxTrips) throw UserError("attribute '{}' is {}", key, value);
    return value;
  }

  // [regions, n] as [regions, 1, n] (axis 1) or [regions, n, 1] (axis 2).
  Neighbour with_axis(const Neighbour& at, int64_t axis) {
    const int64_t n = e_.shape(at.index)[1];
    const Shape shape = axis == 1 ? Shape{regions_, 1, n} : Shape{regions_, n, 1};
    return {e_.reshape(at.index, shape), e_.reshape(at.weight, shape)};
  }

  // Column `k` of the regions, in elements of the input: [regions, 1].
  ValueId border(int64_t k) {
    const ValueId column = e_.slice(c_.input(1), 1, k, 1);
    const ValueId scaled = e_.mul(column, e_.number(column, c_.float_or("spatial_scale", 1)));
    return half_pixel_ ? e_.sub(scaled, e_.number(scaled, 0.5)) : scaled;
  }

  // Of all samples along one axis, `bins` bins between two borders: [regions, bins * samples].
  std::array<Neighbour, 2> neighbours(int64_t first, int64_t last, int64_t bins, int64_t extent) {
    const ValueId start = border(first);
    ValueId size = e_.sub(border(last), start);
    if (!half_pixel_) size = e_.op("max", {size, e_.number(size, 1)});  // regions have at least one element
    const double samples = static_cast<double>(bins * samples_);
    const ValueId steps =
        iota(e_, bins * samples_, 0.5 / samples, 1 / samples, {e_.data_type(size), {1, bins * samples_}});
    const double end = static_cast<double>(extent);
    const Clipped at = clipped(e_, e_.add(start, e_.mul(size, steps)), -1, end, end - 1);
    std::array<Neighbour, 2> both = linear_neighbours(e_, at.x, extent);
    for (Neighbour& n : both) n.weight = e_.where(at.inside, n.weight, e_.number(n.weight, 0));
    return both;
  }

  NodeContext& c_;
  Emitter& e_;
  int64_t regions_ = 0, samples_ = 0;
  bool half_pixel_ = true;
  std::string mode_;
};

// A convolution in two dimensions whose kernel elements are read at places moved by `offset`: the input is sampled
// once for every kernel element and output position, the rest is a matrix product. `pieces` groups of channels share
// their offsets.
class DeformConv {
 public:
  explicit DeformConv(NodeContext& c) : c_(c), e_(c.emit()) {
    x_ = c.shape(0);
    w_ = c.shape(1);
    if (x_.size() != 4) throw Unsupported("only two spatial dimensions are supported");
    if (w_.size() != 4 || c.type(0).elements() == 0) throw UserError("the weights must have the input's rank");
    require_float(c, 2, "the offset");
    window_ = read_window(c, spatial_of(x_), spatial_of(w_));
    group_ = group_of(c);
    pieces_ = c.int_or("offset_group", 1);
    kernel_ = window_.kernel[0] * window_.kernel[1];
    const Shape offset = c.shape(2);
    if (pieces_ < 1 || x_[1] % pieces_ != 0 || x_[1] != w_[1] * group_ || w_[0] % group_ != 0 || offset.size() != 4 ||
        offset[0] != x_[0] || offset[1] != pieces_ * kernel_ * 2 || offset[2] != extent(0) || offset[3] != extent(1)) {
      throw UserError("input {}, weights {} and offset {} do not fit", to_string(x_), to_string(w_), to_string(offset));
    }
    out_ = {offset[2], offset[3]};
    if (c.has(4) && c.shape(4) != Shape{x_[0], pieces_ * kernel_, out_[0], out_[1]})
      throw UserError("mask {} does not fit offset {}", to_string(c.shape(4)), to_string(offset));
  }

  ValueId run() {
    const int64_t positions = out_[0] * out_[1];
    const ValueId columns = e_.reshape(sampled(), {x_[0], group_, w_[1] * kernel_, positions});
    const ValueId weights = e_.reshape(c_.input(1), {group_, w_[0] / group_, w_[1] * kernel_});
    ValueId y = e_.reshape(e_.matmul(weights, columns), {x_[0], w_[0], out_[0], out_[1]});
    if (c_.has(3)) y = e_.add(y, e_.reshape(c_.input(3), {w_[0], 1, 1}));
    return y;
  }

 private:
  int64_t extent(size_t d) const {
    return (x_[2 + d] + window_.pads[d] + window_.pads[d + 2] - window_.dilated_kernel(d)) / window_.strides[d] + 1;
  }

  // [N * pieces, C / pieces, kernel * positions].
  ValueId sampled() {
    const int64_t points = kernel_ * out_[0] * out_[1];
    const Shape flat{x_[0] * pieces_, points};
    const ValueId pixels = e_.reshape(c_.input(0), {x_[0] * pieces_, x_[1] / pieces_, x_[2] * x_[3]});
    ValueId sum = kAbsent;
    for (const Neighbour& row : neighbours(0)) {
      for (const Neighbour& column : neighbours(1)) {
        const Neighbour at = crossed(e_, row, column, x_[3]);
        const ValueId part = weighted_pixels(e_, pixels, {e_.reshape(at.index, flat), e_.reshape(at.weight, flat)});
        sum = sum == kAbsent ? part : e_.add(sum, part);
      }
    }
    return c_.has(4) ? e_.mul(sum, e_.reshape(c_.input(4), {flat[0], 1, points})) : sum;
  }

  // Along axis d, of every kernel element and output position: [N * pieces, kernel rows, columns, out rows, columns].
  std::array<Neighbour, 2> neighbours(size_t d) {
    const auto axis = static_cast<int64_t>(d);
    const std::vector<int64_t>& k = window_.kernel;
    const ValueId offsets = e_.reshape(c_.input(2), {x_[0] * pieces_, k[0], k[1], 2, out_[0], out_[1]});
    const ValueId moved = e_.reshape(e_.slice(offsets, 3, axis, 1), {x_[0] * pieces_, k[0], k[1], out_[0], out_[1]});
    const DataType type = e_.data_type(moved);
    const double first = -static_cast<double>(window_.pads[d]);
    const ValueId in_kernel =
        iota(e_, k[d], first, static_cast<double>(window_.dilations[d]), {type, along_axis(5, 1 + axis, k[d])});
    const ValueId in_out =
        iota(e_, out_[d], 0, static_cast<double>(window_.strides[d]), {type, along_axis(5, 3 + axis, out_[d])});
    const ValueId at = e_.add(e_.add(in_kernel, in_out), moved);
    const ValueId below = e_.op("floor", {at});
    const ValueId part = e_.sub(at, below);
    return {zero_outside(e_, below, e_.sub(e_.number(part, 1), part), x_[2 + d]),
            zero_outside(e_, e_.add(below, e_.number(below, 1)), part, x_[2 + d])};
  }

  NodeContext& c_;
  Emitter& e_;
  Shape x_, w_, out_;
  Window window_;
  int64_t group_ = 1, pieces_ = 1, kernel_ = 1;
};

}  // namespace

std::vector<ConverterRow> region_rows() {
  return {{"DeformConv", 19, 0, [](NodeContext& c) -> Outputs { return {DeformConv(c).run()}; }},
          {"RoiAlign", 10, 0, [](NodeContext& c) -> Outputs { return {RoiAligner(c).run()}; }}};
}

}  // namespace tw::frontend
