#include "transform/storage_order.h"

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
  std::vector<int64_t> order = sequence(rank);
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

// Which part of a reshape each dim of more than one element belongs to: the fewest dims next to each other that hold
// as many elements in both shapes.
struct ReshapeParts {
  std::vector<int> of_in, of_out;  // by dim; -1: of one element
};
ReshapeParts parts_of(const Shape& in, const Shape& out) {
  ReshapeParts parts{std::vector<int>(in.size(), -1), std::vector<int>(out.size(), -1)};
  int64_t a = 1, b = 1;  // elements of the part so far
  int part = 0;
  for (size_t i = 0, o = 0; i < in.size() || o < out.size();) {
    const bool is_of_in = o == out.size() || (i < in.size() && a <= b);
    int64_t& elements = is_of_in ? a : b;
    const int64_t extent = is_of_in ? in[i] : out[o];
    int& mine = is_of_in ? parts.of_in[i++] : parts.of_out[o++];
    if (extent == 1) continue;
    if (a == b) part += a == 1 ? 0 : 1, a = b = 1;
    elements *= extent;
    mine = part;
  }
  return parts;
}

// The parts in the order in which a layout stores them; nothing where a part's dims are not next to each other, in
// their own order.
std::optional<std::vector<int>> stored_parts(const graph::Value& value, const std::vector<int>& part_of) {
  const auto order = storage_order(value.layout, part_of.size());
  if (!order) return std::nullopt;
  std::vector<int> stored;
  std::map<int, int64_t> last;  // dim of each part
  for (const int64_t dim : *order) {
    const int part = part_of[static_cast<size_t>(dim)];
    if (part < 0) continue;
    const auto [before, is_first] = last.try_emplace(part, dim);
    if (!is_first && (stored.back() != part || before->second > dim)) return std::nullopt;
    before->second = dim;
    if (is_first) stored.push_back(part);
  }
  return stored;
}

// Reshape between storages: the bytes stay when both store the same parts in the same order, each row by row.
bool reshape_keeps_bytes(const graph::Value& in, const graph::Value& out) {
  if (num_elements(in.type.shape) == 0) return true;
  const ReshapeParts parts = parts_of(in.type.shape, out.type.shape);
  const auto a = stored_parts(in, parts.of_in), b = stored_parts(out, parts.of_out);
  return a && b && *a == *b;
}

// Whether bytes are the words of neighbours along the packed axis as they lie: they have the signs that words have, are
// next to each other, and fill whole words.
bool pack_keeps_bytes(const graph::Node& pack, const graph::Value& in, const graph::Value& out) {
  constexpr int64_t kBytes = 4;
  const Shape& shape = in.type.shape;
  const int64_t given = pack.int_attr("axis"), axis = given < 0 ? given + std::ssize(shape) : given;
  const bool is_signed = pack.string_attr_or("side", "") == "right";
  if (pack.string_attr("words") != "quads" || in.type.type.is_signed_int() != is_signed ||
      shape[static_cast<size_t>(axis)] % kBytes != 0 || num_elements(shape) == 0)
    return false;
  auto from = storage_order(in.layout, shape.size()), to = storage_order(out.layout, shape.size());
  if (!from || !to) return false;
  const auto is_unit = [&](int64_t d) { return shape[static_cast<size_t>(d)] == 1; };
  std::erase_if(*from, is_unit);
  std::erase_if(*to, is_unit);
  return *from == *to && from->back() == axis;
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
  if (inner.op == "pack_words") return pack_keeps_bytes(inner, in, out);
  if (inner.op != "transpose") return false;
  const auto view = view_of_transpose(inner, in.layout, in.type.shape.size());
  return view && same_bytes(out.type.shape, *view, out.layout);
}

}  // namespace tw::transform
