#include <algorithm>

#include "support/join.h"
#include "transform/roles.h"
#include "transform/rules.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

// Operators of one input that do nothing when the type stays.
bool drop_same_type(Editor& editor, const Node& node) {
  if (node.inputs.size() != 1 || editor.type(node.inputs[0]) != editor.type(node.outputs[0])) return false;
  return editor.replace(node.outputs[0], node.inputs[0]);
}

// A type with more bits holds every number of a narrower one of its kind.
bool drop_cast_and_back(Editor& editor, const Node& node) {
  const Node* there = editor.producer(node.inputs[0], "cast");
  if (there == nullptr) return false;
  const ValueId origin = there->inputs[0];
  const DataType type = editor.type(origin).type, wider = editor.type(node.inputs[0]).type;
  const bool same_kind = (type.is_float() && wider.is_float()) || (type.is_int() && wider.is_int());
  if (!same_kind || wider.bits() <= type.bits() || editor.type(node.outputs[0]).type != type) return false;
  return editor.replace(node.outputs[0], origin);
}

bool drop_zero_pad(Editor& editor, const Node& node) {
  return all_are(node.ints_attr("pads"), 0) && drop_same_type(editor, node);
}

bool drop_whole_slice(Editor& editor, const Node& node) {
  const Shape& shape = editor.type(node.inputs[0]).shape;
  const Ints& steps = node.ints_attr("steps");
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && steps[d] != 1) return false;
  }
  return drop_same_type(editor, node);
}

// Dims of extent 1 may go anywhere: a transpose that keeps the order of the others is a reshape.
bool transpose_to_reshape(Editor& editor, const Node& node) {
  const Shape& shape = editor.type(node.inputs[0]).shape;
  Ints order = node.ints_attr("perm");
  std::erase_if(order, [&](int64_t d) { return shape[d] == 1; });
  if (!std::is_sorted(order.begin(), order.end())) return false;
  if (editor.type(node.inputs[0]) == editor.type(node.outputs[0]))
    return editor.replace(node.outputs[0], node.inputs[0]);
  return editor.replace(
      node.outputs[0], editor.emit(node, "reshape", {node.inputs[0]}, {{"shape", editor.type(node.outputs[0]).shape}}));
}

bool merge_reshapes(Editor& editor, const Node& node) {
  const Node* first = editor.producer(node.inputs[0], "reshape");
  if (first == nullptr) return false;
  return editor.replace(node.outputs[0], editor.emit(node, "reshape", {first->inputs[0]},
                                                     {{"shape", editor.type(node.outputs[0]).shape}}));
}

bool widens(const Editor& editor, const Node& node) {
  return node.op == "cast" && editor.type(node.outputs[0]).type.bits() >= editor.type(node.inputs[0]).type.bits();
}

// The reshape comes last, where it may meet another one: the operator is an epilogue of what computes the elements
// then. Other operands are numbers, or lines along a last dim that the reshape leaves. Casts to a wider type stay:
// where the reshape is a copy, it is one of the narrower type.
bool reshape_after_elementwise(Editor& editor, const Node& node) {
  if (!is_pointwise(editor.ops(), node) || node.outputs.size() != 1 || node.has_attr("axis") || widens(editor, node))
    return false;
  const Shape out = editor.shape(node.outputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Node* reshape = node.inputs[i] == kAbsent ? nullptr : editor.producer(node.inputs[i], "reshape");
    if (reshape == nullptr || editor.shape(node.inputs[i]) != out || editor.use_count(node.inputs[i]) != 1) continue;
    const Shape& from = editor.shape(reshape->inputs[0]);
    const auto stays = [&](ValueId in) {
      if (in == kAbsent || in == node.inputs[i]) return true;
      const Shape& other = editor.shape(in);
      if (other.empty()) return true;
      const bool same_lines = !from.empty() && from.back() == out.back() && other[0] == out.back();
      return other.size() == 1 && !from.empty() && (other[0] == 1 || same_lines);
    };
    if (!std::ranges::all_of(node.inputs, stays)) continue;
    Node moved = node;
    moved.inputs[i] = reshape->inputs[0];
    const ValueId value = editor.add(std::move(moved));
    return editor.replace(node.outputs[0], editor.emit(node, "reshape", {value}, {{"shape", out}}));
  }
  return false;
}

bool merge_transposes(Editor& editor, const Node& node) {
  const Node* first = editor.producer(node.inputs[0], "transpose");
  if (first == nullptr) return false;
  const Ints perm = permuted(first->ints_attr("perm"), node.ints_attr("perm"));
  const ValueId x = first->inputs[0];
  if (std::is_sorted(perm.begin(), perm.end())) return editor.replace(node.outputs[0], x);
  return editor.replace(node.outputs[0], editor.emit(node, "transpose", {x}, {{"perm", perm}}));
}

bool merge_slices(Editor& editor, const Node& node) {
  const Node* first = editor.producer(node.inputs[0], "slice");
  if (first == nullptr) return false;
  Ints starts = first->ints_attr("starts");
  Ints steps = first->ints_attr("steps");
  for (size_t d = 0; d < starts.size(); ++d) {
    starts[d] += node.ints_attr("starts")[d] * steps[d];
    steps[d] *= node.ints_attr("steps")[d];
  }
  const Attrs attrs{{"starts", starts}, {"steps", steps}, {"extents", node.ints_attr("extents")}};
  return editor.replace(node.outputs[0], editor.emit(node, "slice", {first->inputs[0]}, attrs));
}

constexpr Rule kRules[] = {
    {"identity", "identity", drop_same_type},
    {"cast to the same type", "cast", drop_same_type},
    {"cast there and back", "cast", drop_cast_and_back},
    {"reshape to the same shape", "reshape", drop_same_type},
    {"expand to the same shape", "expand", drop_same_type},
    {"tile once", "tile", drop_same_type},
    {"concat of one", "concat", drop_same_type},
    {"dropout of inference", "dropout", drop_same_type},
    {"noise of inference", "noise_uniform", drop_same_type},
    {"noise of inference", "noise_normal", drop_same_type},
    {"pad of nothing", "pad", drop_zero_pad},
    {"slice of all", "slice", drop_whole_slice},
    {"transpose of unit dims", "transpose", transpose_to_reshape},
    {"reshape of a reshape", "reshape", merge_reshapes},
    {"element-wise operator of a reshape", "", reshape_after_elementwise},
    {"transpose of a transpose", "transpose", merge_transposes},
    {"slice of a slice", "slice", merge_slices},
};

}  // namespace

std::span<const Rule> movement_rules() { return kRules; }

}  // namespace tw::transform
