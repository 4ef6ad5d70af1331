// Pooling: windows over the spatial dimensions, and global pools as reductions.
#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/window.h"
#include "support/math.h"

namespace tw::frontend {
namespace {

using graph::ValueId;

struct Pool {
  Window window;
  bool ceil_mode = false;
};

// With ceil_mode a last window may hang over the padded end, if it starts inside the input or its left padding: the
// end pads grow to hold it. `extra` is what they grew by.
Pool read_pool(NodeContext& c) {
  if (c.rank(0) < 3) throw UserError("the input must have shape (N, C, D1, ...)");
  const Shape spatial(c.shape(0).begin() + 2, c.shape(0).end());
  Pool p{read_window(c, spatial), c.int_or("ceil_mode", 0) != 0 && c.string_or("auto_pad", "NOTSET") == "NOTSET"};
  c.ignore_attr("ceil_mode");
  const size_t n = spatial.size();
  for (size_t d = 0; d < n; ++d) {
    const int64_t padded = spatial[d] + p.window.pads[d] + p.window.pads[d + n];
    if (padded < p.window.reach(d) && !p.ceil_mode) {
      throw UserError(fmt::format("spatial dimension {}: the window spans {} elements, the padded input has {}", d, p.window.reach(d), padded));
    }
  }
  return p;
}

graph::Attrs pool_attrs(const Pool& p) {
  return {{"kernel_shape", p.window.kernel}, {"strides", p.window.strides},        {"dilations", p.window.dilations},
          {"pads", p.window.pads},           {"ceil_mode", int64_t{p.ceil_mode}}};
}

Outputs convert_max_pool(NodeContext& c) {
  const Pool p = read_pool(c);
  graph::Attrs attrs = pool_attrs(p);
  if (c.int_or("storage_order", 0) != 0 && c.wants(1)) throw Unsupported("storage_order 1 (column-major indices) is not supported");
  return {c.emit().op("max_pool", {c.input(0)}, std::move(attrs))};
}

Outputs convert_average_pool(NodeContext& c) {
  const Pool p = read_pool(c);
  graph::Attrs attrs = pool_attrs(p);
  attrs["count_include_pad"] = c.int_or("count_include_pad", 0);
  return {c.emit().op("avg_pool", {c.input(0)}, std::move(attrs))};
}

std::vector<int64_t> spatial_axes(NodeContext& c) {
  if (c.rank(0) < 2) throw UserError("the input must have shape (N, C, ...)");
  std::vector<int64_t> axes;
  for (int64_t d = 2; d < c.rank(0); ++d) axes.push_back(d);
  return axes;
}

Outputs convert_global_pool(NodeContext& c) {
  const std::string_view op = c.op() == "GlobalMaxPool" ? "reduce_max" : "reduce_mean";
  return {c.emit().reduce(op, c.input(0), spatial_axes(c), KeepDims::kYes)};
}

// |x|^p and the p-th root, for p = 1, 2 without pow.
ValueId power(Emitter& e, ValueId x, int64_t p) {
  if (p == 1) return e.op("abs", {x});
  if (p == 2) return e.mul(x, x);
  return e.op("pow", {e.op("abs", {x}), e.scalar(static_cast<double>(p), e.data_type(x))});
}

ValueId root(Emitter& e, ValueId x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return e.op("sqrt", {x});
  return e.op("pow", {x, e.scalar(1.0 / static_cast<double>(p), e.data_type(x))});
}

int64_t norm_of(NodeContext& c) {
  const int64_t p = c.int_or("p", 2);
  if (p < 1 || p > 1000) throw UserError(fmt::format("attribute 'p' is {}", p));
  return p;
}

Outputs convert_global_lp_pool(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t p = norm_of(c);
  return {root(e, e.reduce("reduce_sum", power(e, c.input(0), p), spatial_axes(c), KeepDims::kYes), p)};
}

// The sum of a window is its average, padding counted, times its size.
Outputs convert_lp_pool(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t p = norm_of(c);
  const Pool pool = read_pool(c);
  graph::Attrs attrs = pool_attrs(pool);
  attrs["count_include_pad"] = int64_t{1};
  const ValueId mean = e.op("avg_pool", {power(e, c.input(0), p)}, std::move(attrs));
  return {root(e, e.mul(mean, static_cast<double>(num_elements(pool.window.kernel))), p)};
}

constexpr auto kRows = std::to_array<ConverterRow>({
    {"MaxPool", 1, 0, convert_max_pool},
    {"AveragePool", 1, 0, convert_average_pool},
    {"LpPool", 2, 0, convert_lp_pool},
    {"GlobalMaxPool", 1, 0, convert_global_pool},
    {"GlobalAveragePool", 1, 0, convert_global_pool},
    {"GlobalLpPool", 2, 0, convert_global_lp_pool},
});

}  // namespace

std::span<const ConverterRow> pool_rows() { return kRows; }

}  // namespace tw::frontend
