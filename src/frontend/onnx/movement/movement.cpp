// Data movement: transpose, concat, split, slice, pad, expand, tile, rearrangements of blocks and gathers.
#include <algorithm>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"
#include "support/math.h"

namespace tw::frontend {
namespace {

constexpr double kMaxOneHotDepth = 1 << 30;  // elements along the new axis

Outputs convert_transpose(NodeContext& c) {
  const int64_t rank = c.rank(0);
  std::vector<int64_t> perm = sequence(rank);
  std::ranges::reverse(perm);
  perm = c.ints_or("perm", perm);
  if (!std::ranges::is_permutation(perm, sequence(rank)))
    throw UserError("attribute 'perm' is not a permutation of the axes");
  return {c.emit().transpose(c.input(0), perm)};
}

Outputs convert_concat(NodeContext& c) {
  const std::vector<ValueId> parts = c.all_inputs();
  const int64_t axis = c.opset() < 4 ? c.axis_or("axis", 1, c.rank(0)) : normalize_axis(c.int_attr("axis"), c.rank(0));
  return {c.emit().concat(parts, axis)};
}

// Extents of the parts: given, or as equal as ONNX wants them (the last one is what is left).
std::vector<int64_t> split_extents(NodeContext& c, int64_t extent) {
  if (c.opset() < 13 && c.has_attr("split")) return c.ints_attr("split");
  if (c.opset() >= 13 && c.has(1)) return c.const_ints(1, "split");
  const int64_t outputs = static_cast<int64_t>(c.num_outputs());
  const int64_t parts = c.opset() < 18 ? outputs : c.int_or("num_outputs", outputs);
  if (parts < 1 || parts != outputs) throw UserError("{} parts for {} outputs", parts, outputs);
  if (c.opset() < 18 && extent % parts != 0)
    throw UserError("extent {} cannot be split into {} equal parts", extent, parts);
  const int64_t part = ceil_div(extent, parts);
  std::vector<int64_t> extents(parts, part);
  extents.back() = extent - part * (parts - 1);
  return extents;
}

Outputs convert_split(NodeContext& c) {
  const int64_t axis = c.axis_or("axis", 0, c.rank(0));
  const int64_t extent = c.shape(0)[axis];
  const std::vector<int64_t> extents = split_extents(c, extent);
  int64_t total = 0;
  for (int64_t part : extents) {
    if (part < 0 || part > extent) throw UserError("a part of {} of {} elements", part, extent);
    total += part;
  }
  if (total != extent || extents.size() < c.num_outputs()) {
    throw UserError("{} parts with {} elements in all, for {} outputs of axis {} with {} elements", extents.size(),
                    total, c.num_outputs(), axis, extent);
  }
  Outputs outputs;
  int64_t start = 0;
  for (int64_t part : extents) {
    outputs.push_back(c.emit().slice(c.input(0), axis, start, part));
    start += part;
  }
  return outputs;
}

// One axis of Slice by ONNX's rules: out-of-range bounds are clamped - a start to an element, which numpy does not do -
// and negative steps run backwards.
Emitter::Range slice_range(int64_t axis, int64_t extent, int64_t start, int64_t end, int64_t step) {
  if (step == 0) throw UserError("step 0 for axis {}", axis);
  const auto from_end = [&](int64_t at) { return at < 0 ? at + extent : at; };
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? extent : extent - 1;
  start = std::clamp<int64_t>(from_end(start), std::min<int64_t>(0, high), high);
  end = std::clamp<int64_t>(from_end(end), low, high);
  const int64_t span = step > 0 ? end - start : start - end;
  // The magnitude of the most negative step does not fit; any step beyond the extent picks one element.
  const int64_t stride = std::min(step > 0 ? step : -std::max(step, -kMaxElements), kMaxElements);
  const int64_t count = span <= 0 ? 0 : ceil_div(span, stride);
  const int64_t kept_step = count <= 1 ? 1 : (step > 0 ? stride : -stride);
  return {axis, count == 0 ? 0 : start, count, kept_step};
}

Outputs convert_slice(NodeContext& c) {
  const bool old = c.opset() < 10;
  const std::vector<int64_t> starts = old ? c.ints_attr("starts") : c.const_ints(1, "starts");
  const std::vector<int64_t> ends = old ? c.ints_attr("ends") : c.const_ints(2, "ends");
  std::vector<int64_t> axes = sequence(std::ssize(starts));
  if (old) axes = c.ints_or("axes", axes);
  if (!old && c.has(3)) axes = c.const_ints(3, "axes");
  const std::vector<int64_t> steps =
      !old && c.has(4) ? c.const_ints(4, "steps") : std::vector<int64_t>(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    throw UserError("{} starts, {} ends, {} axes and {} steps: they must be equally many", starts.size(), ends.size(),
                    axes.size(), steps.size());
  }
  std::vector<Emitter::Range> ranges;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], c.rank(0));
    for (const Emitter::Range& r : ranges) {
      if (r.axis == axis) throw UserError("axis {} repeats", axis);
    }
    ranges.push_back(slice_range(axis, c.shape(0)[axis], starts[i], ends[i], steps[i]));
  }
  return {c.emit().slice(c.input(0), ranges)};
}

// pads of all axes, begins then ends, from attribute (before 11) or inputs (with axes from 18).
std::vector<int64_t> pads_of(NodeContext& c) {
  const int64_t rank = c.rank(0);
  const std::vector<int64_t> given = c.opset() < 2    ? c.ints_attr("paddings")
                                     : c.opset() < 11 ? c.ints_attr("pads")
                                                      : c.const_ints(1, "pads");
  std::vector<int64_t> axes = sequence(rank);
  if (c.opset() >= 18 && c.has(3)) axes = c.const_ints(3, "axes");
  if (given.size() != 2 * axes.size()) {
    throw UserError("{} pads for {} axes: there must be two for each", given.size(), axes.size());
  }
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], rank);
    pads[axis] = given[i];
    pads[axis + rank] = given[i + axes.size()];
  }
  for (int64_t p : pads) {
    if (p > kMaxAttribute || p < -kMaxAttribute) throw UserError("a pad of {}", p);
  }
  return pads;
}

Outputs convert_pad(NodeContext& c) {
  const std::string mode = c.choice("mode", {"constant", "reflect", "edge", "wrap"});
  std::vector<int64_t> pads = pads_of(c);
  graph::Attr value = int64_t{0};
  if (c.opset() < 11) value = c.float_or("value", 0);
  if (c.opset() >= 11 && c.has(2)) {
    const graph::RefTensor fill = c.constant(2, "constant_value");
    if (fill.type.elements() != 1) throw UserError("constant_value must hold one number");
    value = fill.is_float() ? graph::Attr(fill.floats[0]) : graph::Attr(fill.ints[0]);
  }
  if (mode != "wrap") return {c.emit().pad(c.input(0), pads, mode, std::move(value))};
  // What is left after cropping repeats.
  std::vector<Emitter::Range> kept;
  for (int64_t axis = 0; axis < c.rank(0); ++axis) {
    const int64_t first = std::max<int64_t>(-pads[axis], 0);
    const int64_t last = std::max<int64_t>(-pads[axis + c.rank(0)], 0);
    kept.push_back({axis, first, std::max<int64_t>(c.shape(0)[axis] - first - last, 0), 1});
  }
  for (int64_t& pad : pads) pad = std::max<int64_t>(pad, 0);
  return {c.emit().pad(c.emit().slice(c.input(0), kept), pads, mode, std::move(value))};
}

Outputs convert_expand(NodeContext& c) {
  const Shape target = c.const_ints(1, "shape");
  Shape result;
  for (int64_t extent : target) {
    if (extent < 0) throw UserError("the shape {} has a negative extent", to_string(target));
  }
  if (!broadcast_shapes(c.shape(0), target, &result)) {
    throw UserError("{} cannot be expanded to {}", to_string(c.shape(0)), to_string(target));
  }
  return {c.emit().expand(c.input(0), result)};
}

Outputs convert_tile(NodeContext& c) {
  const Shape& shape = c.shape(0);
  const std::vector<int64_t> repeats = c.const_ints(1, "repeats");
  if (repeats.size() != shape.size()) throw UserError("{} repeats for rank {}", repeats.size(), shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (repeats[d] < 0 || repeats[d] > kMaxElements / std::max<int64_t>(shape[d], 1))
      throw UserError("{} repeats", repeats[d]);
  }
  return {c.emit().op("tile", {c.input(0)}, {{"repeats", repeats}})};
}

int64_t block_size(NodeContext& c) {
  const int64_t block = c.int_attr("blocksize");
  if (block < 1 || block > kMaxAttribute) throw UserError("attribute 'blocksize' is {}", block);
  return block;
}

Outputs convert_depth_to_space(NodeContext& c) {
  const std::string mode = c.choice("mode", {"DCR", "CRD"});
  return {c.emit().op("depth_to_space", {c.input(0)}, {{"blocksize", block_size(c)}, {"mode", mode}})};
}

Outputs convert_space_to_depth(NodeContext& c) {
  return {c.emit().op("space_to_depth", {c.input(0)}, {{"blocksize", block_size(c)}})};
}

// Diagonals beyond the matrix are all alike, so k is brought near it.
Outputs convert_trilu(NodeContext& c) {
  if (c.rank(0) < 2) throw UserError("the input must have rank 2 or more");
  const int64_t reach = c.shape(0)[c.rank(0) - 2] + c.shape(0)[c.rank(0) - 1];
  const int64_t k = std::clamp(c.has(1) ? c.const_int(1, "k") : 0, -reach, reach);
  return {c.emit().op("band", {c.input(0)}, {{c.int_or("upper", 1) != 0 ? "lower" : "upper", k}})};
}

// Crops or pads each listed axis around its middle to the wanted extent.
Outputs convert_center_crop_pad(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t rank = c.rank(0);
  const std::vector<int64_t> wanted = c.const_ints(1, "shape");
  const std::vector<int64_t> axes = c.ints_or("axes", sequence(rank));
  if (axes.size() != wanted.size()) throw UserError("{} extents for {} axes", wanted.size(), axes.size());
  std::vector<Emitter::Range> kept;
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], rank);
    const int64_t extent = c.shape(0)[axis];
    if (wanted[i] < 0 || wanted[i] > kMaxElements) throw UserError("extent {} for axis {}", wanted[i], axis);
    const int64_t missing = wanted[i] - extent;
    kept.push_back({axis, missing < 0 ? -missing / 2 : 0, std::min(extent, wanted[i]), 1});
    pads[axis] = std::max<int64_t>(missing, 0) / 2;
    pads[axis + rank] = std::max<int64_t>(missing, 0) - pads[axis];
  }
  return {e.pad(e.slice(c.input(0), kept), pads, "constant", int64_t{0})};
}

Outputs convert_one_hot(NodeContext& c) {
  const graph::RefTensor depth = c.constant(1, "depth");
  if (depth.type.elements() != 1) throw UserError("depth must be one number");
  if (!(depth.at(0) >= 0 && depth.at(0) <= kMaxOneHotDepth)) throw UserError("depth is {}", depth.at(0));
  const int64_t axis = normalize_axis(c.int_or("axis", -1), c.rank(0) + 1);
  return {
      c.emit().op("one_hot", {c.input(0), c.input(2)}, {{"depth", static_cast<int64_t>(depth.at(0))}, {"axis", axis}})};
}

}  // namespace

std::vector<ConverterRow> movement_rows() {
  return {{"Transpose", 1, 0, convert_transpose},
          {"Concat", 1, 0, convert_concat},
          {"Split", 2, 0, convert_split},
          {"Slice", 1, 0, convert_slice},
          {"Pad", 1, 0, convert_pad},
          {"Expand", 8, 0, convert_expand},
          {"Tile", 6, 0, convert_tile},
          {"DepthToSpace", 1, 0, convert_depth_to_space},
          {"SpaceToDepth", 1, 0, convert_space_to_depth},
          {"Trilu", 14, 0, convert_trilu},
          {"CenterCropPad", 18, 0, convert_center_crop_pad},
          {"Gather", 1, 0, plain("gather", 2, {{"axis", AxisOr{0}}})},
          {"GatherElements", 11, 0, plain("gather_elements", 2, {{"axis", AxisOr{0}}})},
          {"GatherND", 11, 0, plain("gather_nd", 2, {{"batch_dims", 0}})},
          {"OneHot", 9, 0, convert_one_hot}};
}

}  // namespace tw::frontend
