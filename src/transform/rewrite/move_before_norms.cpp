// A norm of rows may come before or behind what moves whole rows: images that are rolled and cut into windows, the
// token that is taken of all. Behind it, the norm reads rows where they are, and stores what a product reads as it is;
// rows that are left out have no norm.
#include <algorithm>
#include <set>

#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr int kEpilogue = 4;  // operators behind a contraction that are looked through: bias, activation, residual

class NormMover {
 public:
  NormMover(const graph::Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "layer_norm" && node.outputs.size() == 1 && is_of_rows(node) && may_part(node.inputs[0]))
        move_before(node);
    });
    return editor_.finish();
  }

 private:
  bool is_of_rows(const Node& norm) const {
    const int64_t axis = norm.int_attr_or("axis", -1), rank = std::ssize(editor_.shape(norm.inputs[0]));
    return axis == -1 || axis == rank - 1;
  }

  // Whether `x` is what a contraction computes, or its epilogue: it shares no kernel with the norm.
  bool may_part(ValueId x, int steps = kEpilogue) const {
    const Node* node = editor_.producer(x);
    if (node == nullptr || steps == 0) return false;
    if (role_of(editor_.ops(), *node) == Role::kContraction) return true;
    return is_pointwise(editor_.ops(), *node) && std::ranges::any_of(node->inputs, [&](ValueId in) {
             return in != kAbsent && editor_.shape(in) == editor_.shape(x) && may_part(in, steps - 1);
           });
  }

  // Whether rows are moved as they are.
  bool moves_rows(const Node& node) const {
    const Shape &from = editor_.shape(node.inputs[0]), &to = editor_.shape(node.outputs[0]);
    if (from.empty() || to.empty() || from.back() != to.back()) return false;
    const int64_t last = std::ssize(from) - 1;
    if (node.op == "transpose") return node.ints_attr("perm").back() == last;
    if (node.op == "concat") return node.int_attr("axis") != last && node.int_attr("axis") != -1;
    return node.op == "reshape" || (node.op == "slice" && node.ints_attr("steps").back() == 1);
  }

  // All that only moves rows of `normed`, in order.
  std::vector<Node> moves_of(ValueId normed) const {
    std::set<ValueId> moved = {normed};
    std::vector<Node> moves;
    editor_.for_each_old([&](const Node& node) {
      const auto is_moved = [&](ValueId in) { return moved.contains(in); };
      if (node.inputs.empty() || !std::ranges::all_of(node.inputs, is_moved) || !moves_rows(node)) return;
      moved.insert(node.outputs[0]);
      moves.push_back(node);
    });
    return moves;
  }

  // The only one of `moves` that others read; null where there are several, or others read what is not moved.
  const Node* last_of(ValueId normed, const std::vector<Node>& moves) const {
    std::vector<const Node*> left;
    const auto leaves = [&](ValueId id) {
      return editor_.graph().is_output(id) || std::ranges::any_of(editor_.readers(id), [&](int reader) {
               const ValueId made = editor_.node(static_cast<size_t>(reader)).outputs[0];
               return std::ranges::none_of(moves, [&](const Node& move) { return move.outputs[0] == made; });
             });
    };
    if (leaves(normed)) return nullptr;
    for (const Node& move : moves) {
      if (leaves(move.outputs[0])) left.push_back(&move);
    }
    return left.size() == 1 ? left.front() : nullptr;
  }

  void move_before(const Node& norm) {
    const std::vector<Node> moves = moves_of(norm.outputs[0]);
    const Node* last = last_of(norm.outputs[0], moves);
    if (last == nullptr || last->op == "transpose") return;  // which readers read through
    const bool only_views = std::ranges::all_of(moves, [](const Node& move) { return move.op == "reshape"; });
    if (only_views || editor_.type(last->outputs[0]).elements() > editor_.type(norm.outputs[0]).elements()) return;
    std::map<ValueId, ValueId> before = {{norm.outputs[0], norm.inputs[0]}};
    for (Node move : moves) {
      const ValueId made = move.outputs[0];
      for (ValueId& in : move.inputs) in = before.at(in);
      before[made] = editor_.add(std::move(move));
    }
    Node moved = norm;
    moved.inputs[0] = before.at(last->outputs[0]);
    moved.attrs["axis"] = std::ssize(editor_.shape(moved.inputs[0])) - 1;
    editor_.replace(last->outputs[0], editor_.add(std::move(moved)));
  }

  Editor editor_;
};

}  // namespace

// On CPUs rows are read in the order in which they are stored.
graph::Graph move_before_norms(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu) return graph;
  return NormMover(graph, context.ops).run();
}

}  // namespace tw::transform
