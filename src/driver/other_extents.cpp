#include "driver/other_extents.h"

#include <algorithm>
#include <cstring>

#include "graph/repeat.h"
#include "ops/list.h"
#include "support/join.h"

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
  Comparison(const Graph& shorter, const Graph& longer, std::pair<int64_t, int64_t> extents)
      : shorter_(shorter), longer_(longer), extents_(extents) {}

  std::string run() {
    size_t n = 0;
    for (const Node& node : longer_.nodes) {
      const Node* next = n < shorter_.nodes.size() ? &shorter_.nodes[n] : nullptr;
      const bool is_there =
          next != nullptr && next->name == node.name && (next->op == node.op || !may_do_nothing(node));
      if (!is_there && !may_do_nothing(node)) return "the graph";
      if (!is_there) {
        const auto before = dropped_.find(node.inputs[0]);
        dropped_[node.outputs[0]] = before == dropped_.end() ? node.inputs[0] : before->second;
      } else if (std::string what = compare(shorter_.nodes[n++], node); !what.empty()) {
        return what;
      }
    }
    return n == shorter_.nodes.size() ? "" : "the graph";
  }

 private:
  // What imports leave out where the result is the operand, as it is at extents of one. Whoever read its result reads
  // its operand then.
  static bool may_do_nothing(const Node& node) {
    return node.op == "reshape" || node.op == "expand" || node.op == "slice";
  }

  std::string compare(const Node& a, const Node& b) const {
    const std::string whole = fmt::format("node '{}' ({})", a.name, a.op);
    if (a.op != b.op || a.name != b.name || a.inputs.size() != b.inputs.size()) return whole;
    if ((a.body == nullptr) != (b.body == nullptr)) return whole;
    if (a.body != nullptr) {
      if (std::string what = Comparison(*a.body, *b.body, extents_).run(); !what.empty()) return what;
      const auto names = [](const Graph& body, const std::vector<ValueId>& ids) {
        return mapped(ids, [&](ValueId id) { return body.value(id).name; });
      };
      if (names(*a.body, a.body->inputs) != names(*b.body, b.body->inputs) ||
          names(*a.body, a.body->outputs) != names(*b.body, b.body->outputs))
        return whole;
    }
    for (const auto& [key, value] : a.attrs) {
      // Extents follow from the types.
      const bool is_extent = key == "shape" || key == "extent" || key == "extents" || key == "repeats";
      const bool is_place = a.op == "slice" && key == "starts" && are_last(a, b);
      const bool is_turns = a.op == graph::kRepeat && (key == "turns" || key == "rows") && are_turns(a, b);
      if (!b.has_attr(key) || (!is_extent && !is_place && !is_turns && b.attrs.at(key) != value)) return whole;
    }
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      if ((a.inputs[k] == graph::kAbsent) != (b.inputs[k] == graph::kAbsent)) return whole;
      if (a.inputs[k] == graph::kAbsent) continue;
      const auto dropped = dropped_.find(b.inputs[k]);
      const Value &read = shorter_.value(a.inputs[k]),
                  &other = longer_.value(dropped == dropped_.end() ? b.inputs[k] : dropped->second);
      const bool is_constant = read.is_constant();  // by whatever name: expanded or not
      if (is_constant != other.is_constant() || (!is_constant && read.name != other.name)) return whole;
      const bool names = k == 1 && (a.op == "gather" || a.op == "gather_nd");
      if (is_constant && !(names ? names_same(a, b) : is_prefix(read, other)))
        return fmt::format("the constant '{}' of {}", read.name, whole);
    }
    return "";
  }

  // Whether slices begin at the same places, or at the last ones of dims.
  bool are_last(const Node& a, const Node& b) const {
    const Shape &from = shorter_.value(a.inputs[0]).type.shape, &to = longer_.value(b.inputs[0]).type.shape;
    const auto &starts = a.ints_attr("starts"), &others = b.ints_attr("starts");
    bool are = from.size() == to.size();
    for (size_t d = 0; are && d < from.size(); ++d)
      are = starts[d] == others[d] || (starts[d] == from[d] - 1 && others[d] == to[d] - 1);
    return are;
  }

  // Loops with a turn for each row, whose outputs have as many or some last ones.
  bool are_turns(const Node& a, const Node& b) const {
    const graph::Repeat fewer = graph::repeat_of(a), more = graph::repeat_of(b);
    if (fewer.turns != extents_.first || more.turns != extents_.second)
      return fewer.turns == more.turns && fewer.rows == more.rows;
    return std::ranges::equal(fewer.rows, more.rows, [&](int64_t x, int64_t y) {
      return (x == fewer.turns && y == more.turns) || x == std::min(y, fewer.turns);
    });
  }

  // Batches behind each other along the first dim of a gather's data, rows of which an extent is the number; 0: there
  // are none, and indices name the same rows where they are equal.
  int64_t batches_of(const Node& a, const Node& b) const {
    const Shape &from = shorter_.value(a.inputs[0]).type.shape, &to = longer_.value(b.inputs[0]).type.shape;
    const int64_t axis = a.int_attr_or("axis", 0);
    if (a.op != "gather" || (axis != 0 && axis + std::ssize(from) != 0)) return 0;
    const auto [shorter, longer] = extents_;
    if (from.empty() || to.empty() || from[0] % shorter != 0 || to[0] % longer != 0) return 0;
    return from[0] / shorter == to[0] / longer ? to[0] / longer : 0;
  }

  // How many batches of rows a reshape has put behind each other there, the extent being the only dim that differs: 1
  // where it is the outermost one. 0: it is none, or made otherwise.
  int64_t batches_before(const Node& b) const {
    const auto made = std::ranges::find_if(
        longer_.nodes, [&](const Node& n) { return n.op == "reshape" && n.outputs[0] == b.inputs[0]; });
    if (made == longer_.nodes.end()) return 0;
    const Value& large = longer_.value(made->inputs[0]);
    const ValueId small = shorter_.find_value(large.name);
    if (small == graph::kAbsent) return 0;
    const Shape &from = shorter_.value(small).type.shape, &to = large.type.shape;
    const auto [x, y] = std::ranges::mismatch(from, to);
    if (x == from.end() || y == to.end() || !std::ranges::equal(x + 1, from.end(), y + 1, to.end())) return 0;
    if (*x != extents_.first || *y != extents_.second) return 0;
    return num_elements(Shape(to.begin(), y));
  }

  // Whether indices that are constants name the same.
  bool names_same(const Node& a, const Node& b) const {
    const Value &indices = shorter_.value(a.inputs[1]), &others = longer_.value(b.inputs[1]);
    const int64_t batches = batches_of(a, b);
    const int64_t before = batches <= 1 ? 1 : batches_before(b);
    if (before == 1) return is_prefix(indices, others);
    if (indices.type.type != others.type.type || before != batches) return false;
    const std::vector<int64_t> is = graph::RefTensor::from_bytes(indices.type, *indices.constant).ints,
                               are = graph::RefTensor::from_bytes(others.type, *others.constant).ints;
    return is_prefix(indices.type.shape, others.type.shape, [&](int64_t i, int64_t at) {
      const int64_t x = is[static_cast<size_t>(i)], y = are[static_cast<size_t>(at)];
      return x >= 0 && y >= 0 && x / extents_.first == y / extents_.second && x % extents_.first == y % extents_.second;
    });
  }

  // Whether the elements of `a` are those of `b` at the same indices.
  static bool is_prefix(const Value& a, const Value& b) {
    if (a.type == b.type) return a.constant == b.constant || std::ranges::equal(*a.constant, *b.constant);
    if (a.type.type != b.type.type) return false;
    const auto size = static_cast<int64_t>(a.type.type.bytes());
    return is_prefix(a.type.shape, b.type.shape, [&](int64_t i, int64_t at) {
      return std::memcmp(a.constant->data() + i * size, b.constant->data() + at * size, static_cast<size_t>(size)) == 0;
    });
  }

  // Whether that is so where is_equal(i, k) compares element i of `from` and element k of `to`.
  template <typename Equal>
  static bool is_prefix(const Shape& from, const Shape& to, const Equal& is_equal) {
    if (from.size() != to.size()) return false;
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] > to[d]) return false;
    }
    const Shape strides = row_major_strides(from), places = row_major_strides(to);
    for (int64_t i = 0; i < num_elements(from); ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < from.size(); ++d) at += i / strides[d] % from[d] * places[d];
      if (!is_equal(i, at)) return false;
    }
    return true;
  }

  const Graph& shorter_;
  const Graph& longer_;
  std::pair<int64_t, int64_t> extents_;
  std::map<ValueId, ValueId> dropped_;  // results of such, and what they are results of
};

}  // namespace

frontend::ImportResult import_again(const frontend::ImportResult& model, frontend::ImportOptions options) {
  options.weights = weights_for(model);
  return frontend::import_onnx_bytes(std::as_bytes(std::span(model.skeleton)), "", ops::all_ops(), options);
}

void share_elements(const frontend::ImportResult& from, frontend::ImportResult& to) {
  std::map<std::string_view, const Value*> constants;
  for (const Value& value : from.graph.values) {
    if (value.is_constant()) constants.emplace(value.name, &value);
  }
  for (Value& value : to.graph.values) {
    const auto same = value.is_constant() ? constants.find(value.name) : constants.end();
    if (same != constants.end() && same->second->type == value.type &&
        std::ranges::equal(*same->second->constant, *value.constant))
      value.constant = same->second->constant;
  }
  for (size_t k = 0; from.weights == to.weights && k < to.elements.size(); ++k) {
    if (std::ranges::equal(*from.elements[k], *to.elements[k])) to.elements[k] = from.elements[k];
  }
}

std::string difference_in_extents(const graph::Graph& smaller, const graph::Graph& larger,
                                  std::pair<int64_t, int64_t> extents) {
  return Comparison(smaller, larger, extents).run();
}

}  // namespace tw::driver
