// Queries that share keys: a product whose second operand is repeated for several batches, or broadcast to them, is one
// of their rows with the operand as it is. Where queries are few (decoding), that is what counts: keys and values are
// read once, from where they are stored, and rows of all heads that share them fill one tile. What stands between two
// such products, point by point or along rows, is computed of the joined rows, too.
#include "support/join.h"
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

constexpr int64_t kMaxRows = 64;  // joined: of one tile. More are tiles of their own, whose masks are matrices

// Whether a transpose exchanges the last two dims.
bool exchanges_last(const Node& node) {
  Ints perm = node.ints_attr("perm");
  if (perm.size() < 2) return false;
  std::swap(perm.back(), perm[perm.size() - 2]);
  Ints order = sequence(perm.size());
  return perm == order;
}

// Matrices [.., batches, a, b] as [.., groups, batches / groups, a, b], of which one of each group is there.
struct Repeated {
  ValueId base;             // [.., groups, a, b], or with a dim of 1 behind the groups
  std::vector<Node> moves;  // from there to the matrices, without what repeats
  int64_t count;            // batches of a group
};

class RowJoiner {
 public:
  RowJoiner(const graph::Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.outputs.size() != 1) return;
      if (node.op == "matmul") return multiply(node);
      const bool of_rows = node.op == "softmax" && is_last(node);
      const bool of_points = is_pointwise(editor_.ops(), node) && !node.inputs.empty();
      if (of_rows || of_points) follow(node);
    });
    return editor_.finish();
  }

 private:
  // What has been computed of joined rows: [.., groups, count * rows, columns] in place of [.., groups * count, rows,
  // columns].
  struct Joined {
    ValueId value;
    int64_t count;
  };

  bool is_last(const Node& node) const {
    const int64_t rank = std::ssize(editor_.shape(node.outputs[0])), axis = node.int_attr_or("axis", -1);
    return axis == -1 || axis == rank - 1;
  }

  // The repetition behind moves that treat all matrices alike.
  std::optional<Repeated> repeated(ValueId id) const {
    Repeated out{kAbsent, {}, 1};
    bool joined = false;  // a group and its batches were one dim behind what is looked at
    for (;;) {
      const Node* node = editor_.producer(id);
      if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
      const ValueId in = node->inputs[0];
      const Shape &from = editor_.shape(in), &to = editor_.shape(id);
      if (node->op == "expand") {
        const size_t dim = to.size() - 3;
        Shape expected = to;
        if (to.size() < 3 || from.size() != to.size()) return std::nullopt;
        expected[dim] = 1;
        if (from != expected || to[dim] == 1 || to.size() < (joined ? 4 : 3)) return std::nullopt;
        out.base = in, out.count = to[dim];
        std::ranges::reverse(out.moves);
        return out;
      }
      if (node->op == "reshape" && !joined && from.size() == to.size() + 1 && to.size() >= 3) {
        Shape expected = from;
        const auto batches = expected.end() - 3;
        *(batches - 1) *= *batches;
        expected.erase(batches);
        if (expected != to) return std::nullopt;
        joined = true;
      } else if ((node->op == "transpose" && exchanges_last(*node)) || node->op == "cast") {
        out.moves.push_back(*node);
      } else {
        return std::nullopt;
      }
      id = in;
    }
  }

  // The matrices of one of each group, [.., groups, a, b] as `like` of all.
  ValueId one_of_each(const Repeated& r, const Shape& like) {
    Shape shape = like;
    const size_t batch = like.size() - 3;
    shape[batch] /= r.count;
    bool exchanged = false;
    for (const Node& move : r.moves) exchanged = exchanged != (move.op == "transpose");
    if (exchanged) std::swap(shape[batch + 1], shape[batch + 2]);
    ValueId value = r.base;
    if (editor_.shape(value) != shape)
      value = editor_.emit(r.moves.empty() ? name(value) : r.moves[0].name, "reshape", {value}, {{"shape", shape}});
    for (const Node& move : r.moves) {
      graph::Attrs attrs = move.attrs;
      if (move.op == "transpose") {
        Ints perm = sequence(shape.size());
        std::swap(perm.back(), perm[perm.size() - 2]);
        attrs = {{"perm", perm}};
      }
      value = editor_.emit(move, move.op, {value}, std::move(attrs));
    }
    return value;
  }
  std::string name(ValueId id) const { return editor_.value(id).name; }

  void multiply(const Node& node) {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    const Shape of_a = editor_.shape(a), of_b = editor_.shape(b), of_y = editor_.shape(node.outputs[0]);
    if (of_a.size() != of_y.size() || of_b.size() != of_y.size() || of_y.size() < 3) return;
    const size_t batch = of_y.size() - 3;
    if (!std::equal(of_a.begin(), of_a.end() - 2, of_y.begin())) return;
    std::optional<Repeated> shared;
    if (of_b[batch] == 1 && of_y[batch] > 1 && std::equal(of_b.begin(), of_b.begin() + batch, of_y.begin())) {
      shared = Repeated{b, {}, of_y[batch]};
    } else if (std::equal(of_b.begin(), of_b.end() - 2, of_y.begin())) {
      shared = repeated(b);
    }
    if (!shared || shared->count * of_a[batch + 1] > kMaxRows) return;
    const ValueId right = of_b[batch] == 1 ? b : one_of_each(*shared, of_b);
    const ValueId product = editor_.emit(node, "matmul", {rows_of(node, a, shared->count), right});
    remember(node, {product, shared->count});
  }

  static Shape joined(Shape shape, int64_t count) {
    shape[shape.size() - 3] /= count;
    shape[shape.size() - 2] *= count;
    return shape;
  }

  ValueId rows_of(const Node& node, ValueId id, int64_t count) {
    const auto known = joined_.find(id);
    if (known != joined_.end() && known->second.count == count) return known->second.value;
    return editor_.emit(node, "reshape", {id}, {{"shape", joined(editor_.shape(id), count)}});
  }

  // Readers of what a node computes read a view of the joined rows.
  void remember(const Node& node, const Joined& value) {
    const Shape shape = editor_.shape(node.outputs[0]);
    const ValueId view = editor_.emit(node, "reshape", {value.value}, {{"shape", shape}});
    joined_[view] = value;
    editor_.replace(node.outputs[0], view);
  }

  // A node that computes row by row, of joined rows where an operand has such.
  void follow(const Node& old) {
    const Node node = *editor_.producer(old.outputs[0]);  // with operands as they are now
    const Shape shape = editor_.shape(node.outputs[0]);
    int64_t count = 0;
    for (const ValueId in : node.inputs) {
      const auto known = joined_.find(in);
      if (known != joined_.end()) count = known->second.count;
    }
    if (count == 0) return;
    std::vector<ValueId> inputs;
    for (const ValueId in : node.inputs) {
      const std::optional<ValueId> rows = operand_rows(node, in, shape, count);
      if (!rows) return;
      inputs.push_back(*rows);
    }
    remember(node, {editor_.emit(node, node.op, inputs, node.attrs), count});
  }

  // An operand that is broadcast to `shape`, for joined rows; nothing where it has elements for some of a group.
  std::optional<ValueId> operand_rows(const Node& node, ValueId in, const Shape& shape, int64_t count) {
    const Shape own = editor_.shape(in);
    if (own == shape) return rows_of(node, in, count);
    if (own.size() < 2 || (own.size() == 2 && own[0] == 1)) return in;  // the same for all rows
    Shape full(shape.size() - own.size(), 1);
    full.insert(full.end(), own.begin(), own.end());
    const size_t batch = full.size() - 3;
    if (full[batch] != 1) return std::nullopt;
    if (full[batch + 1] == 1) return in;
    // The rows of one batch, again for each of a group.
    Shape apart = full;
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(batch) + 1, 1);
    ValueId value = editor_.emit(node, "reshape", {in}, {{"shape", apart}});
    apart[batch + 1] = count;
    value = editor_.emit(node, "expand", {value}, {{"shape", apart}});
    full[batch + 1] *= count;
    return editor_.emit(node, "reshape", {value}, {{"shape", full}});
  }

  Editor editor_;
  std::map<ValueId, Joined> joined_;  // by the view that has the model's shape
};

}  // namespace

graph::Graph join_rows(const graph::Graph& graph, const TransformContext& context) {
  return RowJoiner(graph, context.ops).run();
}

}  // namespace tw::transform
