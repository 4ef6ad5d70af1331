#include "transform/layout/layout_costs.h"

#include <algorithm>
#include <numeric>

#include "core/model_units.h"
#include "support/join.h"
#include "support/math.h"

namespace tw::transform {
namespace {

constexpr double kConversionShare = 0.7;  // of a copy's bandwidth that a transposing copy reaches
constexpr double kShortLines = 3;         // times that of a transposing copy along rows that are shorter than a line
constexpr double kResident = 0.75;        // of a cache: the rest holds other things
constexpr double kDenseShare = 0.9;       // of the FMA peak with vectors along the output channels
constexpr double kRowShare = 0.7;         // the same with vectors along image rows, whose operands are not in panels
constexpr double kPanelShare = 0.85;      // the same where rows are all one and the weights stay near while panels pass
constexpr double kStridedShare = 0.4;     // the same where rows are read with a stride
constexpr double kPositionCycles = 2;     // of one product of a depthwise window: an FMA with both operands loaded
constexpr double kStridedPositionCycles = 3.5;  // where it reads every other element: two loads and their shuffle
constexpr double kEdgePositionCycles = 0.5;  // more for a vector that reaches over one edge of the image: masked loads
constexpr double kStridedEdgeCycles = 3;     // the same with a stride: one load a lane
constexpr double kShortRow = 2;              // times the issue cycles where a row is shorter than a vector
constexpr double kWindowReads = 0.7;         // of a copy: windows along channels that read planes in place
constexpr double kExposedRows = 0.5;         // share of the lines brought in again that prefetching leaves visible
constexpr int64_t kTilePixels = 6;           // rows of a register tile
constexpr int64_t kTileVectors = 2;          // columns of a register tile

double or_nominal(double figure, double nominal) { return figure > 0 ? figure : nominal; }

double as_double(int64_t x) { return static_cast<double>(x); }

}  // namespace

// What the time of a convolution or pooling under layouts depends on.
struct LayoutCosts::ConvShape {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t channels = 1, out_channels = 1;  // of a group
  int64_t filter_positions = 1;
  int64_t points = 1, width = 1;  // of the output: all spatial dims, those that are contiguous in a row
  int64_t plane = 1;              // points of the input
  int64_t lanes = 1;
  double in_bytes = 0, out_bytes = 0, weight_bytes = 0;
  bool padded = false;
  bool short_rows = false;  // rows of the input with their padding are shorter than a line
  bool strided = false;     // along the last dim
  bool pointwise = false;   // rows of the output are rows of the input: all spatial dims are one
  bool is_contraction = true;
};

LayoutCosts::ConvShape LayoutCosts::conv_shape_of(const graph::Node& node) const {
  const TensorType& x = graph_.value(node.inputs[0]).type;
  const TensorType& y = graph_.value(node.outputs[0]).type;
  const auto points = [](const Shape& s) { return num_elements(Shape(s.begin() + 2, s.end())); };
  ConvShape p;
  p.batch = y.shape[0];
  p.lanes = std::max(1, target_.lanes(y.type));
  p.points = points(y.shape);
  p.width = y.shape.back();
  p.plane = points(x.shape);
  p.in_bytes = as_double(num_elements(x.shape) * x.type.bytes());
  p.out_bytes = as_double(num_elements(y.shape) * y.type.bytes());
  p.is_contraction = node.op.find("conv") != std::string::npos;
  const std::vector<int64_t> pads = node.ints_attr_or("pads", {});
  p.padded = !all_are(pads, 0);
  const int64_t padded_row = x.shape.back() + (pads.empty() ? 0 : pads[pads.size() / 2 - 1] + pads.back());
  p.short_rows = !target_.levels.empty() && padded_row * x.type.bytes() < target_.levels.front().line_bytes;
  const std::vector<int64_t> strides = node.ints_attr_or("strides", {});
  p.strided = !strides.empty() && strides.back() > 1;
  if (!p.is_contraction) {
    const std::vector<int64_t> kernel = node.ints_attr_or("kernel_shape", {p.plane});
    p.filter_positions = num_elements(kernel);
    p.groups = y.shape[1];
    return p;
  }
  const Shape& w = graph_.value(node.inputs[1]).type.shape;
  p.filter_positions =
      num_elements(Shape(w.end() - static_cast<std::ptrdiff_t>(x.shape.size() - 2), w.end()));  // of one phase
  p.groups = node.int_attr_or("group", 1);
  p.channels = std::max<int64_t>(1, x.shape[1] / p.groups);
  p.out_channels = std::max<int64_t>(1, y.shape[1] / p.groups);
  p.weight_bytes = as_double(num_elements(w) * x.type.bytes());
  p.pointwise = p.filter_positions == 1 && !p.padded && all_are(strides, 1);
  if (node.op == "conv_phases") describe_phases(node, w, p);
  return p;
}

// Neighbours in a row of the output belong to different phases: a vector spans the phases of one position.
void LayoutCosts::describe_phases(const graph::Node& node, const Shape& w, ConvShape& p) const {
  const size_t rank = w.size() / 2 - 1;
  const Shape& x = graph_.value(node.inputs[0]).type.shape;
  const std::vector<int64_t>& starts = node.ints_attr("starts");
  const std::vector<int64_t>& counts = node.ints_attr("counts");
  size_t phase = 0;
  for (size_t d = 0; d < rank; ++d) {
    for (int64_t r = 0; r < w[2 + d]; ++r, ++phase) {
      const int64_t last =
          node.ints_attr("extents")[d] - 1 + starts[phase] + (counts[phase] - 1) * node.ints_attr("spacing")[d];
      p.padded = p.padded || (counts[phase] > 0 && (starts[phase] < 0 || last >= x[2 + d]));
    }
  }
  if (w[1 + rank] == 1) return;
  p.width = w[1 + rank];
  p.pointwise = false;
}

// The nearest level that holds `bytes`; null where no levels are known.
const MemoryLevel* LayoutCosts::level_of(double bytes) const {
  for (const MemoryLevel& level : target_.levels) {
    if (bytes <= kResident * as_double(level.capacity_bytes)) return &level;
  }
  return target_.levels.empty() ? nullptr : &target_.levels.back();
}

// `bytes` read and as many written, in the same order.
double LayoutCosts::copy_ns(double bytes) const {
  const MemoryLevel* level = level_of(2 * bytes);
  return 2 * bytes / or_nominal(level == nullptr ? 0 : level->copy_per_ns, kNominalBytesPerNs) + target_.barrier_ns;
}

double LayoutCosts::transpose_ns(double bytes) const {
  return (copy_ns(bytes) - target_.barrier_ns) / kConversionShare + target_.barrier_ns;
}

double LayoutCosts::conversion_ns(graph::ValueId id) const {
  const TensorType& type = graph_.value(id).type;
  return transpose_ns(as_double(num_elements(type.shape) * type.type.bytes()));
}

// Whether lines `stride` lines apart, `count` of them, stay in a cache together: they share some of its sets.
bool LayoutCosts::holds_lines(const MemoryLevel& level, int64_t stride, int64_t count) {
  const int64_t ways = std::max(1, level.ways);
  const int64_t sets = std::max<int64_t>(1, level.capacity_bytes / (std::max<int64_t>(1, level.line_bytes) * ways));
  return count <= sets / std::gcd(std::max<int64_t>(1, stride), sets) * ways / 2;
}

// A contraction that reads its pixels from planes touches one line for each channel of a register tile: streams too
// many for prefetching. Where the lines of all channels do not stay in the first cache together, each visit brings them
// in again from the nearest level in which they do.
double LayoutCosts::scattered_rows_ns(const ConvShape& p) const {
  if (target_.levels.size() < 2) return 0;
  const int64_t line = std::max<int64_t>(1, target_.levels.front().line_bytes);
  const int64_t plane_lines = static_cast<int64_t>(p.in_bytes) / (p.batch * p.groups * p.channels) / line;
  const double streamed = p.in_bytes / or_nominal(level_of(p.in_bytes)->read_per_ns, kNominalBytesPerNs);
  size_t home = 0;
  while (home + 1 < target_.levels.size() && !holds_lines(target_.levels[home], plane_lines, p.channels)) ++home;
  if (home == 0) return streamed;
  const double tiles = as_double(p.batch * ceil_div(p.points, kTilePixels) *
                                 ceil_div(p.out_channels, kTileVectors * p.lanes) * p.groups);
  const double bytes = tiles * as_double(p.channels * p.filter_positions * line);
  return std::max(streamed, kExposedRows * bytes / or_nominal(target_.levels[home].read_per_ns, kNominalBytesPerNs));
}

// Threads gather pixels for each filter position anew, padding on the way: from planes one element at a time.
double LayoutCosts::gathered_from_planes_ns(const ConvShape& p) const {
  return transpose_ns(p.in_bytes * as_double(p.filter_positions * p.points) / as_double(std::max<int64_t>(1, p.plane)));
}

// Channels last: vectors along the output channels, pixels read as scalars from anywhere, padding in a copy that brings
// its own order. Row-major: vectors along rows of the image; a product with the weights where rows are all one, its
// second operand copied to panels, one by one.
double LayoutCosts::dense_ns(const ConvShape& p, int in, int out) const {
  const double steps = as_double(p.channels * p.filter_positions);
  if (out == 1) {
    // Narrow groups share vectors of a GPU's tile, not those of a CPU.
    const int64_t vectors = target_.kind == DeviceKind::kCpu ? p.groups * ceil_div(p.out_channels, p.lanes)
                                                             : ceil_div(p.groups * p.out_channels, p.lanes);
    const double sums =
        as_double(p.batch * p.points * vectors) * steps * issue_cycle_ns(target_, p.lanes) / kDenseShare;
    const double from_planes = transpose_ns(p.in_bytes) * (p.short_rows ? kShortLines : 1);
    // Of an odd number of channels threads gather single elements from either order.
    if (target_.kind != DeviceKind::kCpu)
      return sums + (in == 0 && p.channels % 2 == 0 ? gathered_from_planes_ns(p) : 0);
    const double pad = !p.padded ? 0 : in == 0 ? from_planes : copy_ns(p.in_bytes);
    return sums + pad + (in == 0 && !p.padded ? scattered_rows_ns(p) : 0);
  }
  const int64_t row_vectors =
      p.pointwise ? ceil_div(p.points, p.lanes) : p.points / p.width * ceil_div(p.width, p.lanes);
  const auto weights_stay = [&](size_t level) {
    return level < target_.levels.size() &&
           p.weight_bytes <= kResident * as_double(target_.levels[level].capacity_bytes);
  };
  double share = p.strided ? kStridedShare : kRowShare;
  if (p.pointwise && weights_stay(1)) share = weights_stay(0) ? kDenseShare : kPanelShare;
  const double sums =
      as_double(p.batch * p.groups * p.out_channels * row_vectors) * steps * issue_cycle_ns(target_, p.lanes) / share;
  if (!p.pointwise) return sums + (p.padded ? copy_ns(p.in_bytes) : 0);
  const MemoryLevel* level = level_of(p.in_bytes);
  return sums + p.in_bytes / or_nominal(level == nullptr ? 0 : level->read_per_ns, kNominalBytesPerNs);
}

// One window for each element: poolings too. The guards of padding stand in the loops.
double LayoutCosts::depthwise_ns(const ConvShape& p, int out) const {
  const double windows = as_double(p.batch) * as_double(p.filter_positions) * issue_cycle_ns(target_, p.lanes);
  if (out == 1) return windows * kPositionCycles * as_double(p.points * ceil_div(p.groups * p.out_channels, p.lanes));
  if (target_.kind != DeviceKind::kCpu)  // threads read elements of rows, which start anywhere, one by one
    return windows * kPositionCycles * as_double(p.points * p.groups * p.out_channels);
  const double edges = (p.padded ? 1 : 0) * (p.strided ? kStridedEdgeCycles : 2 * kEdgePositionCycles);
  const double row =
      as_double(ceil_div(p.width, p.lanes)) * (p.strided ? kStridedPositionCycles : kPositionCycles) + edges;
  const double rows = as_double(p.groups * p.out_channels * (p.points / std::max<int64_t>(1, p.width)));
  return windows * rows * row * (p.width < p.lanes ? kShortRow : 1);
}

LayoutCosts::OrderCosts LayoutCosts::spatial_ns(const graph::Node& node) const {
  const ConvShape p = conv_shape_of(node);
  OrderCosts costs{};
  if (p.batch * p.points * p.groups == 0) return costs;
  const double read = transpose_ns(p.in_bytes);
  const double write = transpose_ns(p.out_bytes);
  if (node.op == "winograd_conv") return {{{read + write, read}, {write, 0}}};  // transforms convert as a copy does
  const bool is_window = !p.is_contraction || (p.channels == 1 && p.groups > 1);
  for (const int out : {0, 1}) {
    for (const int in : {0, 1}) costs[in][out] = is_window ? depthwise_ns(p, out) : dense_ns(p, in, out);
  }
  if (is_window) costs[0][1] += target_.kind == DeviceKind::kCpu ? kWindowReads * read : gathered_from_planes_ns(p);
  costs[1][0] += 2 * read;  // vectors along rows of what is stored channels last: worse than a copy
  return costs;
}

}  // namespace tw::transform
