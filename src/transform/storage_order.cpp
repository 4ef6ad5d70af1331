#include "transform/storage_order.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/join.h"

namespace tw::transform {

std::vector<int64_t> permuted(const std::vector<int64_t>& list, const std::vector<int64_t>& order) {
  return mapped(order, [&](int64_t i) { return list[i]; });
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

std::optional<std::vector<int64_t>> storage_order(const Layout& layout, size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  for (const LayoutPrimitive& p : layout.primitives()) {
    if (p.op != LayoutOp::kReorder || p.args.size() != rank) return std::nullopt;
    order = permuted(order, p.args);
  }
  return order;
}

Layout layout_of_order(const std::vector<int64_t>& order) {
  return std::is_sorted(order.begin(), order.end()) ? Layout() : Layout().reorder(order);
}

bool same_bytes(const Shape& shape, const Layout& a, const Layout& b) {
  if (a == b) return true;
  auto x = storage_order(a, shape.size());
  auto y = storage_order(b, shape.size());
  if (!x || !y) return false;
  const auto is_unit = [&](int64_t d) { return shape[d] == 1; };
  std::erase_if(*x, is_unit);
  std::erase_if(*y, is_unit);
  return *x == *y || num_elements(shape) == 0;
}

std::optional<Layout> view_of_transpose(const graph::Node& transpose, const Layout& input, size_t rank) {
  const auto order = storage_order(input, rank);
  if (!order) return std::nullopt;
  // Output dim j is input dim perm[j]; storage dim i is input dim order[i], hence output dim inverse[order[i]].
  return layout_of_order(permuted(inverse_of(transpose.ints_attr("perm")), *order));
}

bool fits(const Layout& layout, const Shape& shape) {
  try {
    return num_elements(layout.storage_shape(shape)) == num_elements(shape) &&
           storage_order(layout, shape.size()).has_value();
  } catch (const InternalError&) {
    return false;
  }
}

const Layout* find_layout(const ValueLayouts* known, const graph::Value& value) {
  if (known == nullptr) return nullptr;
  const auto found = known->values.find(value.name);
  return found != known->values.end() && fits(found->second, value.type.shape) ? &found->second : nullptr;
}

namespace {

// Reshape between storages: the bytes stay when both are row-major, or when both keep dims 0 and 1 and store dim 1
// last.
bool reshape_keeps_bytes(const graph::Value& in, const graph::Value& out) {
  const Shape& a = in.type.shape;
  const Shape& b = out.type.shape;
  if (same_bytes(a, in.layout, Layout()) && same_bytes(b, out.layout, Layout())) return true;
  if (a.size() < 3 || b.size() < 3 || a[0] != b[0] || a[1] != b[1]) return false;
  return same_bytes(a, in.layout, channels_last(static_cast<int>(a.size()))) &&
         same_bytes(b, out.layout, channels_last(static_cast<int>(b.size())));
}

}  // namespace

bool is_view(const graph::Graph& graph, const graph::Node& node) {
  if (node.is_group() && (node.body->nodes.size() != 1 || node.inputs.size() != 1)) return false;
  const graph::Node& inner = node.is_group() ? node.body->nodes[0] : node;
  if (node.inputs.empty() || node.inputs[0] == graph::kAbsent || node.outputs.size() != 1) return false;
  const graph::Value& in = graph.value(node.inputs[0]);
  const graph::Value& out = graph.value(node.outputs[0]);
  if (inner.op == "identity") return same_bytes(in.type.shape, in.layout, out.layout);
  if (inner.op == "reshape") return reshape_keeps_bytes(in, out);
  if (inner.op != "transpose") return false;
  const auto view = view_of_transpose(inner, in.layout, in.type.shape.size());
  return view && same_bytes(out.type.shape, *view, out.layout);
}

}  // namespace tw::transform
