// A value that is wide between products of few columns, as the gradient of an attention's scores, costs more to write
// and to read than to compute once more by every product that reads it: then each has it, block by block, in the
// registers that multiply it (pass fuse-chains), and nobody stores it (Dao et al. 2022, "FlashAttention"). So each such
// product gets nodes of its own for what lies between it and the products before, and these products.
//
// What is on the right of a product, a b with a wide b, becomes (b^T a^T)^T: rows of a chain are those of its last
// product's left operand.
//
// An attention's weights are among those values where nothing but products want them. The first of these reads the
// softmax, which then leaves the maximum m of each row and r = 1 / sum exp(s - m), too; the others have exp(s - m) r of
// scores s of their own (Dao et al. 2022, algorithm 4): what the softmax says, in the same order.
#include <algorithm>
#include <set>

#include "transform/passes.h"
#include "transform/rewrite/masks.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr int64_t kMaxDepth = 128;  // steps of a product that is computed again, and columns of who reads it
constexpr int64_t kMinWidth = 64;   // of the value between, both ways

class ComputeAgain {
 public:
  ComputeAgain(const graph::Graph& graph, const TransformContext& context)
      : editor_(graph, context.ops), precision_(context.precision) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "softmax") leave_statistics(node);
    });
    editor_.for_each_old([&](const Node& node) {
      if (node.op != "matmul" || node.outputs.size() != 1) return;
      for (const size_t side : {0, 1}) {
        if (const ValueId own = is_wide(node, side) ? own_operand(node, side) : kAbsent; own != kAbsent)
          return multiply(node, side, own);
      }
    });
    return editor_.finish();
  }

 private:
  // Nodes between products and one operand of a later one, those products too.
  using Cone = std::set<const Node*>;

  // A softmax whose result is computed again of what it leaves of each row; the product that reads it itself.
  struct Statistics {
    ValueId maximum, scale;
    ValueId kept;  // what that product computes
  };

  static Ints swapped_order(size_t rank) {
    Ints perm(rank);
    for (size_t d = 0; d < rank; ++d) perm[d] = static_cast<int64_t>(d);
    std::swap(perm[rank - 1], perm[rank - 2]);
    return perm;
  }

  // The value that operand `side` is, looked at through an exchange of its last two dims.
  ValueId behind_turn(ValueId id) const {
    const Node* turn = editor_.producer(id, "transpose");
    const bool turns = turn != nullptr && turn->ints_attr("perm") == swapped_order(editor_.shape(id).size());
    return turns ? turn->inputs[0] : id;
  }

  bool is_wide(const Node& product, size_t side) const {
    const ValueId operand = product.inputs[side];
    const Shape &shape = editor_.shape(operand), &out = editor_.shape(product.outputs[0]);
    const size_t rank = shape.size();
    if (rank < 2 || out.size() != rank || !editor_.type(operand).type.is_half()) return false;
    if (std::min(shape[rank - 1], shape[rank - 2]) < kMinWidth) return false;
    if (!std::equal(shape.begin(), shape.end() - 2, out.begin())) return false;
    const int64_t others = out[side == 0 ? rank - 1 : rank - 2];  // columns of the product as it will be
    if (others > kMaxDepth || others >= std::min(shape[rank - 1], shape[rank - 2])) return false;
    return true;
  }

  // Gives a softmax its statistics, where all that reads its result is multiplied, by more products than one.
  void leave_statistics(const Node& node) {
    const ValueId result = node.outputs[0];
    const int64_t rank = std::ssize(editor_.shape(result)), axis = node.int_attr_or("axis", -1);
    if (node.outputs.size() != 1 || (axis != -1 && axis != rank - 1) || !editor_.type(result).type.is_half()) return;
    if (!has_products(cone_of(node.inputs[0], result))) return;
    const std::optional<std::vector<int>> products = products_behind(result);
    if (!products || products->size() < 2) return;
    Node more = node;
    more.outputs.clear();
    more.attrs["outputs"] = int64_t{3};
    const std::vector<ValueId> all = editor_.add_all(std::move(more));
    editor_.replace(result, all[0]);
    const int keeper = *std::ranges::min_element(*products);
    statistics_[all[0]] = {all[1], all[2], editor_.node(static_cast<size_t>(keeper)).outputs[0]};
  }

  // The products that multiply what is computed of `value` point by point; nothing where something else reads it.
  std::optional<std::vector<int>> products_behind(ValueId value) const {
    std::vector<int> found;
    std::vector<ValueId> open = {value};
    std::set<ValueId> seen(open.begin(), open.end());
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (editor_.graph().is_output(id)) return std::nullopt;
      for (const int n : editor_.readers(id)) {
        const Node& reader = editor_.node(static_cast<size_t>(n));
        const ValueId out = reader.outputs[0];
        const bool turns = reader.op == "transpose" && behind_turn(out) == id;
        if (reader.op == "matmul") {
          const size_t side = reader.inputs[0] == id ? 0 : 1;
          if (reader.inputs[0] == reader.inputs[1] || !is_wide(reader, side)) return std::nullopt;
          if (std::ranges::count(found, n) == 0) found.push_back(n);
        } else if (turns || belongs(reader, value)) {
          if (seen.insert(out).second) open.push_back(out);
        } else {
          return std::nullopt;
        }
      }
    }
    return found;
  }

  // Whether `product` computes the weights that `node`, a softmax, gives another one.
  bool is_again(const Node& node, const Node& product) const {
    const auto known = statistics_.find(node.outputs[0]);
    return known != statistics_.end() && known->second.kept != product.outputs[0];
  }

  // What computes `start`, of the shape of `value`; with what `product`, if any, has of weights that come again.
  Cone cone_of(ValueId start, ValueId value, const Node* product = nullptr) const {
    Cone cone;
    std::vector<ValueId> open = {start};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Node* node = editor_.producer(id);
      if (node == nullptr) continue;
      const bool comes = belongs(*node, value) || (product != nullptr && is_again(*node, *product));
      if (!comes || !cone.insert(node).second || node->op == "matmul") continue;
      for (const ValueId in : node->inputs) {
        if (in != kAbsent) open.push_back(in);
      }
    }
    return cone;
  }

  bool belongs(const Node& node, ValueId value) const {
    if (node.outputs.size() != 1 || editor_.shape(node.outputs[0]) != editor_.shape(value)) return false;
    // What a dropout keeps depends on each element's place alone, which copies have, too.
    if (node.op != "matmul") return is_pointwise(editor_.ops(), node) || node.op == "dropout";
    return editor_.type(node.outputs[0]).type.is_half() && editor_.shape(node.inputs[0]).back() <= kMaxDepth;
  }

  static bool has_products(const Cone& cone) {
    return std::ranges::any_of(cone, [](const Node* node) { return node->op == "matmul"; });
  }

  // Whether anyone but `product` reads something of it.
  bool is_shared(const Cone& cone, ValueId value, const Node& product) const {
    return std::ranges::any_of(cone, [&](const Node* node) {
      const ValueId out = node->outputs[0];
      if (editor_.graph().is_output(out)) return true;
      return std::ranges::any_of(editor_.readers(out), [&](int n) {
        const Node& reader = editor_.node(static_cast<size_t>(n));
        return !cone.contains(&reader) && !is_way(reader, out == value, product);
      });
    });
  }
  // From the value to the product.
  bool is_way(const Node& reader, bool of_value, const Node& product) const {
    if (!of_value) return false;
    const ValueId out = reader.outputs[0];
    if (out == product.outputs[0]) return true;
    return reader.op == "transpose" && editor_.use_count(out) == 1 &&
           editor_.node(static_cast<size_t>(editor_.readers(out)[0])).outputs[0] == product.outputs[0];
  }

  // What `product` has as its operand `side`, computed for it alone: what it is, or a copy; kAbsent where no product
  // comes before.
  ValueId own_operand(const Node& product, size_t side) {
    const ValueId operand = product.inputs[side], value = behind_turn(operand);
    const Cone cone = cone_of(value, value, &product);
    if (!has_products(cone)) return kAbsent;
    if (!is_shared(cone, value, product)) return operand;
    ++number_;
    copies_.clear();
    const ValueId own = copy_of(value, value, product);
    return value == operand ? own : turned(product, own);
  }

  ValueId turned(const Node& product, ValueId id) {
    return editor_.emit(product, "transpose", {id}, {{"perm", swapped_order(editor_.shape(id).size())}});
  }

  void multiply(const Node& product, size_t side, ValueId own) {
    if (side == 1) {
      const ValueId left = turned(product, own), right = turned(product, product.inputs[0]);
      const ValueId result = editor_.emit(product, "matmul", {left, right}, product.attrs);
      editor_.replace(product.outputs[0], turned(product, result));
    } else if (own != product.inputs[0]) {
      editor_.replace(product.outputs[0], editor_.emit(product, "matmul", {own, product.inputs[1]}, product.attrs));
    }
  }

  ValueId copy_of(ValueId id, ValueId value, const Node& product) {
    const Node* found = editor_.producer(id);
    const bool again = found != nullptr && is_again(*found, product);
    if (found == nullptr || (!again && !belongs(*found, value))) return id;
    if (const auto known = copies_.find(id); known != copies_.end()) return known->second;
    Node copy = *found;
    copy.outputs.clear();
    copy.attrs[kAgain] = number_;
    if (copy.op != "matmul") {
      for (ValueId& in : copy.inputs) in = in == kAbsent ? in : copy_of(in, value, product);
    }
    return copies_[id] = again ? weights(copy.name, copy.inputs[0], statistics_.at(id)) : editor_.add(std::move(copy));
  }

  // What a softmax of `scores` is, by its statistics.
  ValueId weights(const std::string& name, ValueId scores, const Statistics& of_rows) {
    Shape column = editor_.shape(scores);
    column.back() = 1;
    const auto add = [&](std::string op, std::vector<ValueId> inputs, Attrs attrs = {}) {
      attrs[kAgain] = number_;
      return editor_.emit(name, std::move(op), std::move(inputs), std::move(attrs));
    };
    const auto of_row = [&](ValueId x) { return add("reshape", {x}, {{"shape", column}}); };
    const auto type_of = [&](ValueId x) { return to_string(editor_.type(x).type); };
    const ValueId wide = add("cast", {scores}, {{"to", type_of(of_rows.maximum)}});
    const ValueId power = add("exp", {add("sub", {wide, of_row(of_rows.maximum)})});
    const ValueId all = add("cast", {add("mul", {power, of_row(of_rows.scale)})}, {{"to", type_of(scores)}});
    const Node* found = editor_.producer(scores);
    const std::optional<Masked> masked = found == nullptr ? std::nullopt : masks_.masked(*found, precision_);
    if (!masked || !leaves_zeros(*masked)) return all;
    const auto number = [&](ValueId like, double x) {
      graph::RefTensor one = graph::RefTensor::zeros({editor_.type(like).type, {1}});
      one.floats[0] = x;
      return editor_.add_constant(name + ".number", one);
    };
    const bool adds = editor_.type(masked->mask).type.is_float();
    const ValueId kept =
        adds ? add("greater", {masked->mask, number(masked->mask, te::RowMask::kLowest)}) : masked->mask;
    const ValueId zero = number(all, 0);
    return add("where", adds || masked->keeps_true ? std::vector{kept, all, zero} : std::vector{kept, zero, all});
  }

  // Whether all else has no weight: the first row and the last, and so those between, keep some that is not as low.
  bool leaves_zeros(const Masked& masked) const {
    const Shape& shape = editor_.shape(masked.x);
    const auto has_some = [&](int64_t i) {
      return std::max<int64_t>(0, i + masked.band.lower) <= std::min(shape.back() - 1, i + masked.band.upper);
    };
    return masked.fill <= te::RowMask::kLowest && has_some(0) && has_some(shape[shape.size() - 2] - 1) &&
           is_of_products(masked.x);
  }

  // Whether a value is a sum of products but for single numbers.
  bool is_of_products(ValueId id) const {
    const Node* node = editor_.producer(id);
    if (node == nullptr || node->op == "matmul") return node != nullptr;
    const auto is_one = [&](ValueId in) { return num_elements(editor_.shape(in)) == 1 || is_of_products(in); };
    return is_pointwise(editor_.ops(), *node) && std::ranges::all_of(node->inputs, is_one);
  }

  Editor editor_;
  Masks masks_{editor_};
  Precision precision_;
  std::map<ValueId, Statistics> statistics_;  // by result
  std::map<ValueId, ValueId> copies_;         // of the product at hand
  int64_t number_ = 1;                        // of products so far, and one: what a training computes again has that
};

}  // namespace

graph::Graph compute_again(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind != DeviceKind::kCuda) return graph;
  return ComputeAgain(graph, context).run();
}

}  // namespace tw::transform
