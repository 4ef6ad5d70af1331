#include "driver/other_extents.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "ops/list.h"
#include "support/error.h"

namespace tw::driver {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

// Any elements, of which no two are equal as far as their bytes allow.
graph::Bytes different_elements(const TensorType& type) {
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  const auto size = static_cast<size_t>(type.type.bytes());
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i / size >> 8 * std::min<size_t>(i % size, sizeof(size_t) - 1) & 0xff);
  return share(std::move(bytes));
}

std::shared_ptr<const frontend::Weights> weights_for(const frontend::ImportResult& model) {
  auto weights = std::make_shared<frontend::Weights>();
  for (const auto& [name, type] : frontend::initializer_types(std::as_bytes(std::span(model.skeleton)))) {
    if (!model.weights.contains(name)) continue;
    const ValueId id = model.graph.find_value(name);
    const bool known =
        id != graph::kAbsent && model.graph.value(id).is_constant() && model.graph.value(id).type == type;
    weights->emplace(name, frontend::Weight{type, known ? model.graph.value(id).constant : different_elements(type)});
  }
  return weights;
}

class Comparison {
 public:
  Comparison(const Graph& shorter, const Graph& longer) : shorter_(shorter), longer_(longer) {}

  std::string run() const {
    if (shorter_.nodes.size() != longer_.nodes.size()) return "the graph";
    for (size_t n = 0; n < shorter_.nodes.size(); ++n) {
      if (std::string what = compare(shorter_.nodes[n], longer_.nodes[n]); !what.empty()) return what;
    }
    return "";
  }

 private:
  std::string compare(const Node& a, const Node& b) const {
    const std::string whole = fmt::format("node '{}' ({})", a.name, a.op);
    if (a.op != b.op || a.name != b.name || a.inputs.size() != b.inputs.size()) return whole;
    if ((a.body == nullptr) != (b.body == nullptr) ||
        (a.body != nullptr && graph::to_outline(*a.body) != graph::to_outline(*b.body)))
      return whole;
    for (const auto& [key, value] : a.attrs) {
      // Extents follow from the types.
      const bool is_extent = key == "shape" || key == "extent" || key == "extents" || key == "repeats";
      if (!b.has_attr(key) || (!is_extent && b.attrs.at(key) != value)) return whole;
    }
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      if ((a.inputs[k] == graph::kAbsent) != (b.inputs[k] == graph::kAbsent)) return whole;
      if (a.inputs[k] == graph::kAbsent) continue;
      const Value &read = shorter_.value(a.inputs[k]), &other = longer_.value(b.inputs[k]);
      if (read.name != other.name || read.is_constant() != other.is_constant()) return whole;
      if (read.is_constant() && !is_prefix(read, other))
        return fmt::format("the constant '{}' of {}", read.name, whole);
    }
    return "";
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

frontend::ImportResult import_again(const frontend::ImportResult& model, frontend::ImportOptions options) {
  options.weights = weights_for(model);
  return frontend::import_onnx_bytes(std::as_bytes(std::span(model.skeleton)), "", ops::all_ops(), options);
}

void share_elements(const graph::Graph& from, graph::Graph& to) {
  std::map<std::string_view, const Value*> constants;
  for (const Value& value : from.values) {
    if (value.is_constant()) constants.emplace(value.name, &value);
  }
  for (Value& value : to.values) {
    const auto same = value.is_constant() ? constants.find(value.name) : constants.end();
    if (same != constants.end() && same->second->type == value.type &&
        std::ranges::equal(*same->second->constant, *value.constant))
      value.constant = same->second->constant;
  }
}

std::string difference_in_extents(const graph::Graph& smaller, const graph::Graph& larger) {
  return Comparison(smaller, larger).run();
}

}  // namespace tw::driver
