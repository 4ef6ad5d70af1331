// Pooling: windows over the spatial dimensions, and global pools as reductions.

#include "frontend/onnx/converters.h"
#include "frontend/onnx/windows/window.h"

namespace tw::frontend {

graph::Attrs pool_attrs(NodeContext& c) {
  const Window w = read_window(c, spatial_of(c.shape(0)));
  // Automatic pads are for the extents of ceil_mode 0 already.
  const bool ceil = c.int_or("ceil_mode", 0) != 0 && c.string_or("auto_pad", "NOTSET") == "NOTSET";
  return {{"kernel_shape", w.kernel},
          {"strides", w.strides},
          {"dilations", w.dilations},
          {"pads", w.pads},
          {"ceil_mode", int64_t{ceil}}};
}

namespace {

Outputs convert_max_pool(NodeContext& c) {
  graph::Attrs attrs = pool_attrs(c);
  attrs["storage_order"] = c.int_or("storage_order", 0);
  attrs["outputs"] = int64_t{c.wants(1) ? 2 : 1};
  return c.emit().apply("max_pool", {c.input(0)}, std::move(attrs));
}

Outputs convert_average_pool(NodeContext& c) {
  graph::Attrs attrs = pool_attrs(c);
  attrs["count_include_pad"] = c.int_or("count_include_pad", 0);
  return {c.emit().op("avg_pool", {c.input(0)}, std::move(attrs))};
}

int64_t norm_of(NodeContext& c) {
  const int64_t p = c.int_or("p", 2);
  if (p < 1 || p > 1000) throw UserError("attribute 'p' is {}", p);
  return p;
}

Outputs convert_lp_pool(NodeContext& c) {
  graph::Attrs attrs = pool_attrs(c);
  attrs["p"] = norm_of(c);
  return {c.emit().op("lp_pool", {c.input(0)}, std::move(attrs))};
}

// Reductions over the spatial axes, as exporters also write them.
Outputs convert_global_pool(NodeContext& c) {
  if (c.rank(0) < 2) throw UserError("the input must have shape (N, C, ...)");
  const std::string_view op = c.op() == "GlobalMaxPool" ? "reduce_max" : "reduce_mean";
  return {c.emit().reduce(op, c.input(0), sequence(c.rank(0) - 2, 2), KeepDims::kYes)};
}

Outputs convert_global_lp_pool(NodeContext& c) {
  return {c.emit().op("global_lp_pool", {c.input(0)}, {{"p", norm_of(c)}})};
}

}  // namespace

std::vector<ConverterRow> pool_rows() {
  return {{"MaxPool", 1, 0, convert_max_pool},
          {"AveragePool", 1, 0, convert_average_pool},
          {"LpPool", 2, 0, convert_lp_pool},
          {"GlobalMaxPool", 1, 0, convert_global_pool},
          {"GlobalAveragePool", 1, 0, convert_global_pool},
          {"GlobalLpPool", 2, 0, convert_global_lp_pool}};
}

}  // namespace tw::frontend
