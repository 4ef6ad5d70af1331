// Data movement in one order, in which its parts meet and merge: reshapes that split dims, slices, transposes, reshapes
// that merge dims. What is left are index maps of operands and views, however a model splits, turns and joins heads.
#include <algorithm>

#include "support/join.h"
#include "transform/roles.h"
#include "transform/rules.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

// Whether a value may be stored in another order than that of its dims: of more than three, and not made by a reshape.
bool may_be_image(const Editor& editor, ValueId id) {
  constexpr size_t kMaxRank = 3;
  if (editor.shape(id).size() <= kMaxRank) return false;
  const Node* node = editor.producer(id);
  while (node != nullptr && !node->inputs.empty() &&
         (node->op == "slice" || is_pointwise(editor.ops(), *node) || node->op == "transpose"))
    node = editor.producer(node->inputs[0]);
  return node == nullptr || node->op != "reshape";
}

// The axis that alone is cut, by neighbours; nothing where that is none, or several.
std::optional<size_t> only_cut_axis(const Node& slice, const Shape& from, const Shape& to) {
  std::optional<size_t> cut;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    if (cut || slice.ints_attr("steps")[d] != 1) return std::nullopt;
    cut = d;
  }
  return cut;
}

// The reshape comes first, for it is a view, and the slice is of heads of attention then, which their reader takes as
// they are: where dim j of the new shape cuts the axis in whole pieces.
bool reshape_before_slice(Editor& editor, const Node& node) {
  const Node* slice = editor.producer(node.inputs[0], "slice");
  if (slice == nullptr || editor.use_count(node.inputs[0]) != 1) return false;
  const Shape from = editor.shape(slice->inputs[0]), to = editor.shape(node.inputs[0]);
  const std::optional<size_t> axis = only_cut_axis(*slice, from, to);
  if (!axis || may_be_image(editor, slice->inputs[0]) || num_elements(to) == 0) return false;
  const auto below = static_cast<std::ptrdiff_t>(*axis);
  const int64_t outer = num_elements(Shape(to.begin(), to.begin() + below));
  const int64_t inner = num_elements(Shape(to.begin() + below + 1, to.end()));
  Shape shape = editor.shape(node.outputs[0]);
  const Shape extents = shape;
  int64_t before = 1, behind = num_elements(shape);
  for (size_t j = 0; j < shape.size(); before *= shape[j++]) {
    behind /= shape[j];
    const int64_t start = slice->ints_attr("starts")[*axis] * inner;
    if (before != outer || from[*axis] * inner % behind != 0 || start % behind != 0) continue;
    shape[j] = from[*axis] * inner / behind;
    Ints starts(shape.size(), 0);
    starts[j] = start / behind;
    const ValueId whole = editor.emit(*slice, "reshape", {slice->inputs[0]}, {{"shape", shape}});
    return editor.replace(node.outputs[0], editor.emit_slice(node.name, whole, starts, extents));
  }
  return false;
}

// Dims of a value, split as far as a reshape of it asks for: dim j of the new shape is run j of them.
struct SplitDims {
  Shape dims;
  std::vector<Ints> runs;
};

// Nothing where dims are neither split nor merged but cut anew ([4, 6] to [3, 8]), or there are no elements.
std::optional<SplitDims> split_for(const Shape& from, const Shape& to) {
  if (num_elements(from) == 0 || to.empty()) return std::nullopt;
  SplitDims split;
  split.runs.resize(to.size());
  size_t next = 0;
  int64_t left = 1;  // of dim next - 1 of `from`
  const auto take = [&](size_t run, int64_t extent) {
    split.runs[run].push_back(static_cast<int64_t>(split.dims.size()));
    split.dims.push_back(extent);
  };
  for (size_t j = 0; j < to.size(); ++j) {
    for (int64_t wanted = to[j]; wanted > 1;) {
      while (left == 1) {
        left = from[next++];
        if (left == 1) take(j, 1);
      }
      const int64_t extent = std::min(wanted, left);
      if (wanted % extent != 0 || left % extent != 0) return std::nullopt;
      take(j, extent);
      wanted /= extent;
      left /= extent;
    }
  }
  for (; next < from.size(); ++next) take(to.size() - 1, 1);
  return split;
}

Shape without_units(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

// Units come and go before a transpose, whose readers read through it then.
bool units_before_transpose(Editor& editor, const Node& node) {
  const Node* transpose = editor.producer(node.inputs[0], "transpose");
  const Shape to = editor.shape(node.outputs[0]), turned = editor.shape(node.inputs[0]);
  if (transpose == nullptr || to == turned || without_units(to) != without_units(turned) ||
      may_be_image(editor, transpose->inputs[0]))
    return false;
  const ValueId x = transpose->inputs[0];
  Ints order = transpose->ints_attr("perm");  // of dims of x that are no units, as the result has them
  std::erase_if(order, [&](int64_t d) { return editor.shape(x)[d] == 1; });
  Shape from(std::ranges::count(to, 1), 1);  // all units, then the others as x has them
  const int64_t units = std::ssize(from);
  int64_t next_unit = 0;
  append(from, without_units(editor.shape(x)));
  Ints perm;
  size_t next = 0;
  for (const int64_t extent : to) {
    if (extent == 1) {
      perm.push_back(next_unit++);
    } else {
      const int64_t dim = order[next++];
      perm.push_back(units + std::ranges::count_if(order, [&](int64_t d) { return d < dim; }));
    }
  }
  const ValueId moved = editor.emit(node, "reshape", {x}, {{"shape", from}});
  return editor.replace(node.outputs[0], editor.emit(node, "transpose", {moved}, {{"perm", perm}}));
}

// The transpose comes before dims are merged: where those dims were split before, it is a transpose of
// what they were split from, and it meets the transposes before them. Where it meets none it stays behind the reshape,
// a view: rows of all batches that a product reads by columns, as gradients of weights do, are an index map.
bool transpose_before_merging(Editor& editor, const Node& node) {
  const Node* reshape = editor.producer(node.inputs[0], "reshape");
  if (reshape == nullptr) return false;
  const ValueId x = reshape->inputs[0];
  const std::optional<SplitDims> split = split_for(editor.shape(x), editor.shape(node.inputs[0]));
  if (!split || (split->dims == editor.shape(x) && editor.producer(x, "transpose") == nullptr)) return false;
  if (without_units(split->dims) == without_units(editor.shape(node.inputs[0]))) return false;
  Ints perm;
  for (const int64_t dim : node.ints_attr("perm")) append(perm, split->runs[static_cast<size_t>(dim)]);
  const ValueId apart = editor.emit(*reshape, "reshape", {x}, {{"shape", split->dims}});
  const ValueId turned = editor.emit(node, "transpose", {apart}, {{"perm", perm}});
  return editor.replace(node.outputs[0],
                        editor.emit(node, "reshape", {turned}, {{"shape", editor.shape(node.outputs[0])}}));
}

// A slice of what a transpose has turned is turned itself: of heads, which are a reshape. (An image may be stored in
// the order that the transpose gives it.)
bool slice_before_transpose(Editor& editor, const Node& node) {
  const Node* found = editor.producer(node.inputs[0], "transpose");
  if (found == nullptr || editor.producer(found->inputs[0], "reshape") == nullptr) return false;
  const Node transpose = *found;
  const Ints& perm = transpose.ints_attr("perm");
  const Ints back = inverse_of(perm);
  Attrs attrs;
  for (const char* name : {"starts", "steps", "extents"}) attrs[name] = permuted(node.ints_attr(name), back);
  const ValueId part = editor.emit(node, "slice", {transpose.inputs[0]}, std::move(attrs));
  return editor.replace(node.outputs[0], editor.emit(transpose, "transpose", {part}, {{"perm", perm}}));
}

// Whether `id` is a matrix that was turned, as it is or with its rows in batches.
bool is_turned(const Editor& editor, ValueId id) {
  const Node* node = editor.producer(id, "reshape");
  return editor.producer(node == nullptr ? id : node->inputs[0], "transpose") != nullptr;
}

// (a^T b)^T is b^T a: the gradient of weights that are read transposed. Nothing is stored to be turned then.
bool turn_product(Editor& editor, const Node& node) {
  const Node* found = editor.producer(node.inputs[0], "matmul");
  if (found == nullptr || editor.use_count(node.inputs[0]) != 1 || editor.graph().is_output(node.inputs[0]))
    return false;
  const Node product = *found;
  const ValueId a = product.inputs[0], b = product.inputs[1];
  if (editor.shape(a).size() != 2 || editor.shape(b).size() != 2 || !is_turned(editor, a)) return false;
  const auto turned = [&](ValueId id) { return editor.emit(node, "transpose", {id}, {{"perm", Ints{1, 0}}}); };
  if (std::ranges::is_sorted(node.ints_attr("perm"))) return false;
  const ValueId right = turned(a);
  return editor.replace(node.outputs[0], editor.emit(product, "matmul", {turned(b), right}, product.attrs));
}

// A slice of a concat is a concat of slices, where nothing else reads the whole: rolled images are cut once.
bool slice_before_concat(Editor& editor, const Node& node) {
  const Node* found = editor.producer(node.inputs[0], "concat");
  const Ints& steps = node.ints_attr("steps");
  if (found == nullptr || !all_are(steps, 1) || editor.graph().is_output(node.inputs[0])) return false;
  for (const int reader : editor.readers(node.inputs[0])) {
    if (editor.node(static_cast<size_t>(reader)).op != "slice") return false;
  }
  const Node concat = *found;
  const int64_t rank = std::ssize(steps), axis = concat.int_attr("axis");
  const auto dim = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const Ints &starts = node.ints_attr("starts"), &extents = node.ints_attr("extents");
  const int64_t first = starts[dim], end = first + extents[dim];
  std::vector<ValueId> parts;
  int64_t before = 0;
  for (const ValueId part : concat.inputs) {
    const int64_t length = editor.shape(part)[dim];
    const int64_t from = std::max(first, before), to = std::min(end, before + length);
    if (from < to) {
      Ints at = starts;
      Shape taken = extents;
      at[dim] = from - before;
      taken[dim] = to - from;
      parts.push_back(editor.emit_slice(node.name, part, at, taken));
    }
    before += length;
  }
  if (parts.empty()) return false;
  return editor.replace(node.outputs[0], editor.emit(concat, "concat", parts, concat.attrs));
}

// What is padded with zeros along one axis.
struct Padded {
  ValueId value;
  int64_t axis, first;  // its first element is that of the whole
};

std::optional<Padded> padded_with_zeros(const Node& node) {
  const Ints& pads = node.ints_attr("pads");
  const size_t rank = pads.size() / 2;
  if (node.string_attr_or("mode", "constant") != "constant" || node.has_attr("value")) return std::nullopt;
  std::optional<Padded> padded;
  for (size_t d = 0; d < rank; ++d) {
    if (pads[d] == 0 && pads[rank + d] == 0) continue;
    if (padded || pads[d] < 0 || pads[rank + d] < 0) return std::nullopt;
    padded = {node.inputs[0], static_cast<int64_t>(d), pads[d]};
  }
  return padded;
}

// The terms of a sum that are padded with zeros, each of which nothing else reads; whether all are.
bool find_padded(const Editor& editor, const Node& sum, std::vector<Padded>& terms) {
  return std::ranges::all_of(sum.inputs, [&](ValueId in) {
    const Node* term = editor.producer(in);
    if (term == nullptr || editor.use_count(in) != 1 || editor.type(in) != editor.type(sum.outputs[0])) return false;
    if (term->op == "add") return find_padded(editor, *term, terms);
    const std::optional<Padded> padded = term->op == "pad" ? padded_with_zeros(*term) : std::nullopt;
    if (padded) terms.push_back(*padded);
    return padded.has_value();
  });
}

// A sum of parts, each with zeros where the others are, is the parts one behind the other: the gradient of a value that
// was read in parts.
bool join_padded(Editor& editor, const Node& node) {
  std::vector<Padded> terms;
  if (!find_padded(editor, node, terms)) return false;
  std::ranges::sort(terms, {}, &Padded::first);
  const int64_t axis = terms[0].axis;
  int64_t end = 0;
  for (const Padded& term : terms) {
    if (term.axis != axis || term.first != end) return false;
    end += editor.shape(term.value)[static_cast<size_t>(axis)];
  }
  if (end != editor.shape(node.outputs[0])[static_cast<size_t>(axis)]) return false;
  const std::vector<ValueId> parts = mapped(terms, &Padded::value);
  return editor.replace(node.outputs[0], editor.emit(node, "concat", parts, {{"axis", axis}}));
}

// What a gather takes at constant indices, each as far from the one before.
struct Steps {
  int64_t start, step;
};

std::optional<Steps> steps_of(const graph::Value& indices, int64_t extent) {
  constexpr int64_t kMaxIndices = 1 << 20;
  const int64_t count = indices.type.elements();
  if (!indices.is_constant() || count == 0 || count > kMaxIndices) return std::nullopt;
  Ints at = elements_of(indices).ints;
  for (int64_t& i : at) {
    i += i < 0 ? extent : 0;
    if (i < 0 || i >= extent) return std::nullopt;
  }
  const int64_t step = count > 1 ? at[1] - at[0] : 1;
  for (size_t k = 1; k < at.size(); ++k) {
    if (step == 0 || at[k] - at[k - 1] != step) return std::nullopt;
  }
  return Steps{at[0], step};
}

bool gather_to_slice(Editor& editor, const Node& node) {
  Shape extents = editor.shape(node.inputs[0]);
  const int64_t axis = node.int_attr_or("axis", 0);
  const auto dim = static_cast<size_t>(axis < 0 ? axis + std::ssize(extents) : axis);
  const std::optional<Steps> taken = steps_of(editor.value(node.inputs[1]), extents[dim]);
  if (!taken) return false;
  extents[dim] = editor.type(node.inputs[1]).elements();
  Ints starts(extents.size(), 0), steps(extents.size(), 1);
  starts[dim] = taken->start;
  steps[dim] = taken->step;
  const ValueId part =
      editor.emit(node, "slice", {node.inputs[0]}, {{"starts", starts}, {"steps", steps}, {"extents", extents}});
  return editor.replace(node.outputs[0],
                        editor.emit(node, "reshape", {part}, {{"shape", editor.shape(node.outputs[0])}}));
}

// What is repeated is computed before: other operands are numbers.
bool expand_after_elementwise(Editor& editor, const Node& node) {
  if (!is_pointwise(editor.ops(), node) || node.outputs.size() != 1 || node.has_attr("axis")) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Node* expand = node.inputs[i] == kAbsent ? nullptr : editor.producer(node.inputs[i], "expand");
    const Shape out = editor.shape(node.outputs[0]);
    if (expand == nullptr || editor.shape(node.inputs[i]) != out || editor.use_count(node.inputs[i]) != 1) continue;
    const auto is_number = [&](ValueId in) {
      return in == kAbsent || in == node.inputs[i] || editor.shape(in).empty();
    };
    if (!std::ranges::all_of(node.inputs, is_number)) continue;
    Node moved = node;
    moved.inputs[i] = expand->inputs[0];
    const ValueId value = editor.add(std::move(moved));
    return editor.replace(node.outputs[0], editor.emit(node, "expand", {value}, {{"shape", out}}));
  }
  return false;
}

// Operands of element-wise operators are broadcast without being repeated first.
bool broadcast_without_expand(Editor& editor, const Node& node) {
  if (!is_pointwise(editor.ops(), node) || node.outputs.size() != 1 || node.has_attr("axis")) return false;
  const Shape out = editor.shape(node.outputs[0]);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Node* expand = node.inputs[i] == kAbsent ? nullptr : editor.producer(node.inputs[i], "expand");
    if (expand == nullptr) continue;
    Node moved = node;
    moved.inputs[i] = expand->inputs[0];
    Shape reached(out.size(), 1);
    for (const ValueId in : moved.inputs) {
      if (in == kAbsent) continue;
      const Shape& own = editor.shape(in);
      const size_t first = out.size() - std::min(out.size(), own.size());
      for (size_t d = first; d < out.size(); ++d) reached[d] = std::max(reached[d], own[d - first]);
    }
    if (reached == out) return editor.replace(node.outputs[0], editor.add(std::move(moved)));
  }
  return false;
}

constexpr Rule kRules[] = {
    {"reshape of a slice", "reshape", reshape_before_slice},
    {"units behind a transpose", "reshape", units_before_transpose},
    {"transpose of merged dims", "transpose", transpose_before_merging},
    {"transpose of a product", "transpose", turn_product},
    {"slice of a transpose", "slice", slice_before_transpose},
    {"slice of a concat", "slice", slice_before_concat},
    {"sum of padded parts", "add", join_padded},
    {"gather of neighbours", "gather", gather_to_slice},
    {"expand before a broadcast", "", broadcast_without_expand},
    {"element-wise operator of an expand", "", expand_after_elementwise},
};

}  // namespace

std::span<const Rule> order_rules() { return kRules; }

}  // namespace tw::transform
