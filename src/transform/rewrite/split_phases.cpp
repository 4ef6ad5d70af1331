// Transposed convolutions as phases (operator conv_phases, or conv for stride 1). Output position
// o = q * s + r reads x at q plus an offset of phase r, through every filter position k with k * dilation = r + pad
// modulo the stride s: no division is left, and no product with the zeros between the elements of x.
//
// The filters of the phases are one tensor, filled up with zeros to the filter positions of the longest phase; these
// are not multiplied. It is a constant where the weights are; else a few moves of the weights compute it (those of the
// convolutions whose gradients these are). Extents that the stride does not divide are rounded up, and cut after the
// element-wise operators that follow.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/common.h"
#include "support/math.h"
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

// Of one spatial axis of a transposed convolution.
struct TransposedAxis {
  int64_t in, kernel, out, stride, dilation, pad;
};

// The same axis as phases. Filter position t of phase r is element kernel_at[r][t] of the kernel.
struct PhasedAxis {
  int64_t in, kernel, out;
  int64_t extent = 0, spacing = 0, positions = 1;
  Ints starts = {};
  std::vector<Ints> kernel_at = {};
  int64_t phases() const { return static_cast<int64_t>(starts.size()); }
};

// Phase r: the filter positions k0, k0 + step, .. backwards, so that the positions of x that they read ascend.
PhasedAxis phased(const TransposedAxis& a) {
  const int64_t phases = std::min(a.stride, a.out);
  const int64_t common = std::gcd(a.dilation, a.stride);
  const int64_t step = a.stride / common;
  PhasedAxis p{a.in, a.kernel, a.out, ceil_div(a.out, phases), a.dilation / common};
  for (int64_t r = 0; r < phases; ++r) {
    int64_t first = 0;
    while (first < step && (r + a.pad - first * a.dilation) % a.stride != 0) ++first;
    Ints positions;
    for (int64_t k = first; first < step && k < a.kernel; k += step) positions.push_back(k);
    std::ranges::reverse(positions);
    p.starts.push_back(positions.empty() ? 0 : (r + a.pad - positions[0] * a.dilation) / a.stride);
    p.positions = std::max(p.positions, static_cast<int64_t>(positions.size()));
    p.kernel_at.push_back(std::move(positions));
  }
  return p;
}

std::vector<PhasedAxis> phased_axes(const Editor& editor, const Node& node) {
  const Shape& x = editor.type(node.inputs[0]).shape;
  const Shape& w = editor.type(node.inputs[1]).shape;
  const Shape& y = editor.type(node.outputs[0]).shape;
  const size_t rank = x.size() - 2;
  const Ints strides = node.ints_attr_or("strides", Ints(rank, 1));
  const Ints dilations = node.ints_attr_or("dilations", Ints(rank, 1));
  const Ints pads = node.ints_attr_or("pads", Ints(2 * rank, 0));
  std::vector<PhasedAxis> axes;
  for (size_t d = 0; d < rank; ++d)
    axes.push_back(phased({x[2 + d], w[2 + d], y[2 + d], strides[d], dilations[d], pads[d]}));
  return axes;
}

// Of a filter: [phases.., positions..].
Shape filter_shape(const std::vector<PhasedAxis>& axes) {
  return joined(mapped(axes, &PhasedAxis::phases), mapped(axes, &PhasedAxis::positions));
}

// For every element of a filter its place in the kernel, -1 where a phase has fewer filter positions.
Ints places_in_kernel(const std::vector<PhasedAxis>& axes) {
  Ints places;
  ops::for_each_index(filter_shape(axes), [&](const Ints& index) {
    int64_t place = 0;
    for (size_t d = 0; d < axes.size(); ++d) {
      const Ints& positions = axes[d].kernel_at[index[d]];
      const int64_t t = index[axes.size() + d];
      const bool exists = place >= 0 && t < static_cast<int64_t>(positions.size());
      place = exists ? place * axes[d].kernel + positions[t] : -1;
    }
    places.push_back(place);
  });
  return places;
}

// [C, OC / group, kernel..] as [OC, C / group, filter], element k of a filter from places[k] of the kernel.
std::vector<std::byte> filters(const graph::Value& weights, int64_t group, int64_t kernel, const Ints& places) {
  const auto size = static_cast<size_t>(weights.type.type.bytes());
  const int64_t in_each = weights.type.shape[0] / group;
  const int64_t out_each = weights.type.shape[1];
  std::vector<std::byte> result(size * group * out_each * in_each * places.size());
  std::byte* to = result.data();
  for (int64_t oc = 0; oc < group * out_each; ++oc) {
    for (int64_t ic = 0; ic < in_each; ++ic) {
      const int64_t row = (oc / out_each * in_each + ic) * out_each + oc % out_each;
      const std::byte* from = weights.constant->data() + size * row * kernel;
      for (const int64_t place : places) {
        if (place >= 0) std::memcpy(to, from + size * place, size);
        to += size;
      }
    }
  }
  return result;
}

// The same of weights that are computed: [C, OC / group, kernel] seen by groups, channels last, one zero behind each
// kernel, read at `places`. What is stored has the channels of a filter's element beside each other, as the tiles of
// the sum read them; the convolution sees them in their usual order.
ValueId emit_filters(Editor& editor, const Node& node, int64_t kernel, const Ints& places, const Shape& shape) {
  const Shape weights = editor.shape(node.inputs[1]);
  const int64_t group = node.int_attr_or("group", 1);
  const auto emit = [&](const char* op, std::vector<ValueId> inputs, graph::Attrs attrs) {
    return editor.emit(node.name + ".filters", op, std::move(inputs), std::move(attrs));
  };
  const bool is_matrix = kernel == 1 && places == Ints{0};
  if (is_matrix && group == 1) {  // products read it either way round
    Ints turned = sequence(weights.size());
    std::swap(turned[0], turned[1]);
    const ValueId w = emit("transpose", {node.inputs[1]}, {{"perm", turned}});
    return editor.shape(w) == shape ? w : emit("reshape", {w}, {{"shape", shape}});
  }
  ValueId w = emit("reshape", {node.inputs[1]}, {{"shape", Shape{group, weights[0] / group, weights[1], kernel}}});
  if (is_matrix) return emit("reshape", {emit("transpose", {w}, {{"perm", Ints{0, 2, 1, 3}}})}, {{"shape", shape}});
  w = emit("transpose", {w}, {{"perm", Ints{0, 2, 3, 1}}});
  graph::RefTensor from = graph::RefTensor::zeros({DataType::i64(), {std::ssize(places)}});
  std::ranges::replace_copy(places, from.ints.begin(), -1, kernel);
  if (std::ranges::find(places, -1) != places.end()) w = emit("pad", {w}, {{"pads", Ints{0, 0, 0, 0, 0, 0, 1, 0}}});
  const ValueId table = editor.add_constant(node.name + ".places", from);
  w = emit("gather", {w, table}, {{"axis", int64_t{2}}});
  const Shape last = joined(joined(Shape{shape[0]}, Shape(shape.begin() + 2, shape.end())), Shape{shape[1]});
  const Ints perm = joined(Ints{0, std::ssize(shape) - 1}, sequence(shape.size() - 2, 1));
  return emit("transpose", {emit("reshape", {w}, {{"shape", last}})}, {{"perm", perm}});
}

// The filters of all phases: [OC, C / group, phases.., positions..], or in the shape of a convolution's weights.
enum class FilterShape : uint8_t { kPhases, kConvolution };
ValueId add_filters(Editor& editor, const Node& node, const std::vector<PhasedAxis>& axes, FilterShape as) {
  const graph::Value weights = editor.value(node.inputs[1]);
  const int64_t group = node.int_attr_or("group", 1);
  const int64_t kernel = num_elements(mapped(axes, &PhasedAxis::kernel));
  const Shape filter = as == FilterShape::kPhases ? filter_shape(axes) : mapped(axes, &PhasedAxis::positions);
  const Shape shape = joined(Shape{weights.type.shape[1] * group, weights.type.shape[0] / group}, filter);
  if (!weights.is_constant()) return emit_filters(editor, node, kernel, places_in_kernel(axes), shape);
  return editor.add_constant(weights.name, {weights.type.type, shape},
                             filters(weights, group, kernel, places_in_kernel(axes)));
}

Node make_phases(Editor& editor, const Node& node, const std::vector<PhasedAxis>& axes) {
  Ints starts, counts;
  for (const PhasedAxis& axis : axes) {
    append(starts, axis.starts);
    append(counts, mapped(axis.kernel_at, [](const Ints& positions) { return std::ssize(positions); }));
  }
  Node phases = node;
  phases.op = "conv_phases";
  phases.inputs[1] = add_filters(editor, node, axes, FilterShape::kPhases);
  phases.attrs = {{"extents", mapped(axes, &PhasedAxis::extent)},
                  {"spacing", mapped(axes, &PhasedAxis::spacing)},
                  {"starts", starts},
                  {"counts", counts},
                  {"group", node.int_attr_or("group", 1)}};
  return phases;
}

// Pads of the convolution that one phase is; nothing when there are more phases, or x is cut instead of padded.
std::optional<Ints> pads_of_convolution(const std::vector<PhasedAxis>& axes) {
  const size_t rank = axes.size();
  Ints pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    const PhasedAxis& axis = axes[d];
    if (axis.phases() != 1 || axis.kernel_at[0].empty()) return std::nullopt;
    pads[d] = -axis.starts[0];
    pads[rank + d] = axis.starts[0] + axis.extent + (axis.positions - 1) * axis.spacing - axis.in;
    if (pads[d] < 0 || pads[rank + d] < 0) return std::nullopt;
  }
  return pads;
}

Node make_convolution(Editor& editor, const Node& node, const std::vector<PhasedAxis>& axes, const Ints& pads) {
  const size_t rank = axes.size();
  Node conv = node;
  conv.op = "conv";
  conv.inputs[1] = add_filters(editor, node, axes, FilterShape::kConvolution);
  conv.attrs = {{"strides", Ints(rank, 1)},
                {"dilations", mapped(axes, &PhasedAxis::spacing)},
                {"pads", pads},
                {"group", node.int_attr_or("group", 1)}};
  return conv;
}

// Whether `node` computes each element from the same element of `value` and constants that are the same all over the
// image.
bool follows_everywhere(const Editor& editor, const Node& node, ValueId value) {
  if (!is_pointwise(editor.ops(), node) || node.outputs.size() != 1) return false;
  const Shape& shape = editor.type(value).shape;
  if (editor.type(node.outputs[0]).shape != shape) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId in) {
    if (in == kAbsent || in == value) return true;
    const graph::Value& other = editor.value(in);
    if (!other.is_constant()) return false;
    const size_t spatial = std::min(other.type.shape.size(), shape.size() - 2);
    return std::all_of(other.type.shape.end() - static_cast<std::ptrdiff_t>(spatial), other.type.shape.end(),
                       [](int64_t extent) { return extent == 1; });
  });
}

// `rounded` stands for `value` with more positions: the element-wise operators that follow it take all of them, and
// what comes after these reads as many as `value` has.
bool replace_cut(Editor& editor, ValueId value, ValueId rounded) {
  while (editor.use_count(value) == 1 && editor.readers(value).size() == 1) {
    Node next = editor.node(editor.readers(value)[0]);
    if (!follows_everywhere(editor, next, value)) break;
    std::ranges::replace(next.inputs, value, rounded);
    value = next.outputs[0];
    rounded = editor.add(std::move(next));
  }
  const Shape shape = editor.shape(value);
  return editor.replace(value,
                        editor.emit_slice(editor.value(value).name + ".cut", rounded, Ints(shape.size(), 0), shape));
}

void rewrite(Editor& editor, const Node& node) {
  const std::vector<PhasedAxis> axes = phased_axes(editor, node);
  const auto pads = pads_of_convolution(axes);
  Node made = pads ? make_convolution(editor, node, axes, *pads) : make_phases(editor, node, axes);
  const ValueId out = editor.add(std::move(made));
  if (editor.type(out) == editor.type(node.outputs[0])) {
    editor.replace(node.outputs[0], out);
  } else {
    replace_cut(editor, node.outputs[0], out);
  }
}

}  // namespace

graph::Graph split_phases(const graph::Graph& graph, const TransformContext& context) {
  Editor editor(graph, context.ops);
  editor.for_each_old([&](const Node& node) {
    if (node.op == "conv_transpose") rewrite(editor, node);
  });
  return editor.finish();
}

}  // namespace tw::transform
