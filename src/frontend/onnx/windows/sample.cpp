// Sampling at computed coordinates: AffineGrid makes them, GridSample reads the input there.

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/windows/sampling.h"

namespace tw::frontend {
namespace {

constexpr double kCubicAlpha = -0.75;  // of GridSample's cubic mode

// theta [N, D, D + 1] applied to the normalized coordinates (x, y, (z), 1) of every output element.
Outputs convert_affine_grid(NodeContext& c) {
  Emitter& e = c.emit();
  const std::vector<int64_t> size = c.const_ints(1, "size");
  const size_t n = size.size() - 2;
  if (size.size() < 4 || size.size() > 5 || c.rank(0) != 3 || c.shape(0)[1] != static_cast<int64_t>(n) ||
      c.shape(0)[2] != static_cast<int64_t>(n) + 1) {
    throw UserError("theta {} does not fit size {}", to_string(c.shape(0)), to_string(size));
  }
  if (!c.type(0).type.is_float()) throw UserError("theta is {}, it must be a float", to_string(c.type(0).type));
  int64_t points = 1;
  for (size_t d = 0; d < n; ++d) {
    if (size[2 + d] < 1 || size[2 + d] > kMaxFoldInputElements / points) throw UserError("size {}", to_string(size));
    points *= size[2 + d];
  }
  const bool corners = c.int_or("align_corners", 0) != 0;
  graph::RefTensor base = graph::RefTensor::zeros({c.type(0).type, {points, static_cast<int64_t>(n) + 1}});
  const Shape spatial(size.begin() + 2, size.end());
  const Shape strides = row_major_strides(spatial);
  for (int64_t p = 0; p < points; ++p) {
    double* row = &base.floats.at(p * (static_cast<int64_t>(n) + 1));
    for (size_t d = 0; d < n; ++d) {
      const double at = static_cast<double>(p / strides[d] % spatial[d]);
      const double extent = static_cast<double>(spatial[d]);
      // x is the last spatial axis.
      row[n - 1 - d] = corners ? (extent > 1 ? -1 + 2 * at / (extent - 1) : 0) : -1 + (2 * at + 1) / extent;
    }
    row[n] = 1;
  }
  base.round_to_type();
  const ValueId grid = e.matmul(e.constant(base), e.transpose(c.input(0), {0, 2, 1}));
  return {e.reshape(grid, joined(Shape{c.shape(0)[0]}, spatial, Shape{static_cast<int64_t>(n)}))};
}

class GridSampler {
 public:
  explicit GridSampler(NodeContext& c) : c_(c), e_(c.emit()) {
    const Shape& x = c.shape(0);
    const Shape& grid = c.shape(1);
    n_ = x.size() < 3 ? 0 : x.size() - 2;
    if (n_ == 0 || grid.size() != x.size() || grid[0] != x[0] || grid.back() != static_cast<int64_t>(n_) ||
        c.type(0).elements() == 0) {
      throw UserError("the grid {} does not fit the input {}", to_string(grid), to_string(x));
    }
    if (!c.type(0).type.is_float() || !c.type(1).type.is_float())
      throw UserError("the input and the grid must be floats");
    mode_ = c.string_or("mode", "linear");
    if (mode_ == "bilinear") mode_ = "linear";
    if (mode_ == "bicubic") mode_ = "cubic";
    padding_ = c.choice("padding_mode", {"zeros", "border", "reflection"});
    corners_ = c.int_or("align_corners", 0) != 0;
    if (mode_ != "linear" && mode_ != "nearest" && mode_ != "cubic") throw UserError("mode '{}'", mode_);
    points_ = num_elements({grid.begin() + 1, grid.end() - 1});
  }

  ValueId run() {
    std::vector<std::vector<Neighbour>> axes = by_index(n_, [&](size_t d) { return neighbours(coordinate(d), d); });
    const Shape& x = c_.shape(0);
    pixels_ = e_.reshape(c_.input(0), {x[0], x[1], num_elements({x.begin() + 2, x.end()})});
    combine(axes, 0, {});
    const Shape grid = c_.shape(1);
    return e_.reshape(sum_, joined(Shape{x[0], x[1]}, std::span(grid).subspan(1, n_)));
  }

 private:
  ValueId number(double value) { return e_.scalar(value, e_.data_type(c_.input(1))); }
  double extent(size_t d) const { return static_cast<double>(c_.shape(0)[2 + d]); }

  // [N, points], in elements of axis d; x is the last axis of the input and the first of the grid's tuples.
  ValueId coordinate(size_t d) {
    const int64_t last = c_.rank(1) - 1;
    const ValueId normalized =
        e_.reshape(e_.slice(c_.input(1), last, static_cast<int64_t>(n_ - 1 - d), 1), {c_.shape(1)[0], points_});
    const ValueId shifted = e_.add(normalized, number(1));
    if (corners_) return e_.mul(shifted, number((extent(d) - 1) / 2));
    return e_.sub(e_.mul(shifted, number(extent(d) / 2)), number(0.5));
  }

  // Mirrored at both borders as often as needed.
  ValueId reflected(ValueId x, size_t d) {
    const double low = corners_ ? 0 : -0.5;
    const double range = corners_ ? extent(d) - 1 : extent(d);
    if (range == 0) return e_.mul(x, number(0));
    const ValueId distance = e_.op("abs", {e_.sub(x, number(low))});
    const ValueId turns = e_.op("floor", {e_.div(distance, number(range))});
    const ValueId rest = e_.sub(distance, e_.mul(turns, number(range)));
    const ValueId odd =
        e_.op("equal", {e_.sub(turns, e_.mul(e_.op("floor", {e_.div(turns, number(2))}), number(2))), number(1)});
    return e_.where(odd, e_.sub(number(low + range), rest), e_.add(rest, number(low)));
  }

  ValueId clipped(ValueId x, size_t d) { return e_.op("clip", {x}, {{"min", 0.0}, {"max", extent(d) - 1}}); }

  // The neighbour at the whole coordinate `at`: outside, it counts nothing (zeros) or is taken from inside.
  Neighbour neighbour(ValueId at, ValueId weight, size_t d) {
    if (padding_ == "zeros") return zero_outside(e_, at, weight, c_.shape(0)[2 + d]);
    const ValueId source = padding_ == "reflection" && mode_ == "cubic" ? reflected(at, d) : at;
    return {e_.cast(clipped(source, d), DataType::i64()), weight};
  }

  std::vector<Neighbour> neighbours(ValueId x, size_t d) {
    if (mode_ != "cubic" && padding_ == "border") x = clipped(x, d);
    if (mode_ != "cubic" && padding_ == "reflection") x = clipped(reflected(x, d), d);
    if (mode_ == "nearest") return {neighbour(e_.op("round", {x}), e_.expand(number(1), e_.shape(x)), d)};
    const ValueId base = e_.op("floor", {x});
    const ValueId t = e_.sub(x, base);
    if (mode_ == "linear") return {neighbour(base, e_.sub(number(1), t), d), neighbour(e_.add(base, number(1)), t, d)};
    std::vector<Neighbour> result;
    for (int64_t k = -1; k <= 2; ++k)
      result.push_back(neighbour(e_.add(base, number(static_cast<double>(k))), cubic_weight(t, k), d));
    return result;
  }

  // Keys 1981, equation (4), at distance |t - k|.
  ValueId cubic_weight(ValueId t, int64_t k) {
    const ValueId s = e_.op("abs", {e_.sub(t, number(static_cast<double>(k)))});
    const auto polynomial = [&](double c3, double c2, double c1, double c0) {
      ValueId y = e_.add(e_.mul(s, number(c3)), number(c2));
      y = e_.add(e_.mul(y, s), number(c1));
      return e_.add(e_.mul(y, s), number(c0));
    };
    const double a = kCubicAlpha;
    return k == 0 || k == 1 ? polynomial(a + 2, -(a + 3), 0, 1) : polynomial(a, -5 * a, 8 * a, -4 * a);
  }

  // Adds the products over every combination of one neighbour an axis.
  void combine(const std::vector<std::vector<Neighbour>>& axes, size_t d, const Neighbour& so_far) {
    if (d == n_) {
      const ValueId part = weighted_pixels(e_, pixels_, so_far);
      sum_ = sum_ == kAbsent ? part : e_.add(sum_, part);
      return;
    }
    for (const Neighbour& neighbour : axes[d])
      combine(axes, d + 1, d == 0 ? neighbour : crossed(e_, so_far, neighbour, c_.shape(0)[2 + d]));
  }

  NodeContext& c_;
  Emitter& e_;
  size_t n_ = 0;  // spatial axes
  std::string mode_, padding_;
  bool corners_ = false;
  int64_t points_ = 0;
  ValueId pixels_ = kAbsent;  // [N, C, elements]
  ValueId sum_ = kAbsent;
};

}  // namespace

std::vector<ConverterRow> sample_rows() {
  return {{"AffineGrid", 20, 0, convert_affine_grid},
          {"GridSample", 16, 0, [](NodeContext& c) -> Outputs { return {GridSampler(c).run()}; }}};
}

}  // namespace tw::frontend
