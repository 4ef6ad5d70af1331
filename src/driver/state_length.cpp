#include "driver/state_length.h"

#include <algorithm>
#include <cstring>

#include "driver/states.h"
#include "ops/list.h"
#include "support/error.h"
#include "transform/rewrite/append_states.h"

namespace tw::driver {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

// Extents that become one more: of states before and after a run.
using Extents = std::vector<int64_t>;

[[noreturn]] void refuse(const std::string& what) {
  throw Unsupported(
      "a state grows, and the model computes with its length: {} is another one for a longer state. Positions and "
      "masks "
      "have to be inputs",
      what);
}

// The model's own elements, where the graph still has them under their names: others do not matter.
std::shared_ptr<const frontend::Weights> weights_for(const frontend::ImportResult& model) {
  auto weights = std::make_shared<frontend::Weights>();
  for (const auto& [name, type] : frontend::initializer_types(std::as_bytes(std::span(model.skeleton)))) {
    if (!model.weights.contains(name)) continue;
    const ValueId id = model.graph.find_value(name);
    const bool known =
        id != graph::kAbsent && model.graph.value(id).is_constant() && model.graph.value(id).type == type;
    weights->emplace(name, frontend::Weight{type, known ? model.graph.value(id).constant
                                                        : share(std::vector<std::byte>(type.bytes()))});
  }
  return weights;
}

frontend::ImportOptions one_longer(const frontend::ImportOptions& import, const Extents& growing) {
  frontend::ImportOptions longer = import;
  const auto grow = [&](int64_t& extent) { extent += std::ranges::count(growing, extent) > 0 ? 1 : 0; };
  for (auto& [name, extent] : longer.dims) grow(extent);
  for (auto& [name, shape] : longer.shapes) std::ranges::for_each(shape, grow);
  return longer;
}

class Comparison {
 public:
  Comparison(const Graph& shorter, const Graph& longer) : shorter_(shorter), longer_(longer) {}

  void run() const {
    if (shorter_.nodes.size() != longer_.nodes.size()) refuse("the graph");
    for (size_t n = 0; n < shorter_.nodes.size(); ++n) compare(shorter_.nodes[n], longer_.nodes[n]);
  }

 private:
  void compare(const Node& a, const Node& b) const {
    const auto differs = [&] { refuse(fmt::format("node '{}' ({})", a.name, a.op)); };
    if (a.op != b.op || a.name != b.name || a.inputs.size() != b.inputs.size()) differs();
    for (const auto& [key, value] : a.attrs) {
      // Extents follow from the types.
      const bool is_extent = key == "shape" || key == "extents" || key == "repeats";
      if (!b.has_attr(key) || (!is_extent && b.attrs.at(key) != value)) differs();
    }
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      if ((a.inputs[k] == graph::kAbsent) != (b.inputs[k] == graph::kAbsent)) differs();
      if (a.inputs[k] != graph::kAbsent) compare(shorter_.value(a.inputs[k]), longer_.value(b.inputs[k]));
    }
  }

  static void compare(const Value& a, const Value& b) {
    if (a.is_constant() != b.is_constant()) refuse(fmt::format("'{}'", a.name));
    if (a.is_constant() && !is_prefix(a, b)) refuse(fmt::format("the constant '{}'", a.name));
  }

  // Whether the elements of `a` are those of `b` at the same indices.
  static bool is_prefix(const Value& a, const Value& b) {
    const Shape &from = a.type.shape, &to = b.type.shape;
    if (a.type == b.type) return a.constant == b.constant || std::ranges::equal(*a.constant, *b.constant);
    if (a.type.type != b.type.type || from.size() != to.size()) return false;
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] > to[d]) return false;
    }
    const Shape strides = row_major_strides(from), places = row_major_strides(to);
    const auto size = static_cast<size_t>(a.type.type.bytes());
    for (int64_t i = 0; i < a.type.elements(); ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < from.size(); ++d) at += i / strides[d] % from[d] * places[d];
      if (std::memcmp(a.constant->data() + static_cast<size_t>(i) * size,
                      b.constant->data() + static_cast<size_t>(at) * size, size) != 0)
        return false;
    }
    return true;
  }

  const Graph& shorter_;
  const Graph& longer_;
};

}  // namespace

void check_lengths(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                   std::span<const StatePair> states) {
  Extents growing;
  for (const transform::StateNames& names : names_of(states)) {
    const ValueId before = model.graph.find_value(names.before), after = model.graph.find_value(names.after);
    if (before == graph::kAbsent || after == graph::kAbsent || !transform::grows(model.graph, names)) continue;
    const Shape &from = model.graph.value(before).type.shape, &to = model.graph.value(after).type.shape;
    const size_t dim = static_cast<size_t>(std::ranges::mismatch(from, to).in1 - from.begin());
    growing.insert(growing.end(), {from[dim], to[dim]});
  }
  if (growing.empty() || model.skeleton.empty()) return;
  frontend::ImportOptions longer = one_longer(import, growing);
  longer.weights = weights_for(model);
  const frontend::ImportResult other =
      frontend::import_onnx_bytes(std::as_bytes(std::span(model.skeleton)), "", ops::all_ops(), longer);
  for (const transform::StateNames& names : names_of(states)) {
    const ValueId before = model.graph.find_value(names.before);
    if (!transform::grows(model.graph, names)) continue;
    if (other.graph.value(other.graph.find_value(names.before)).type == model.graph.value(before).type)
      throw Unsupported("state '{}' grows, and its length is not a dimension that --dim or --shape gives",
                        names.before);
  }
  Comparison(model.graph, other.graph).run();
}

}  // namespace tw::driver
