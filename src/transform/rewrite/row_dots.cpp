// The gradient of a softmax sums each row of its result p times its own gradient. Where p is the left operand of a
// product, o = p v, that gradient is dp = g v^T, and
//   sum_j p_ij dp_ij = sum_j p_ij sum_d g_id v_jd = sum_d g_id o_id:
// a sum of as many elements as the product has columns, of values that are there anyway. So nothing but element-wise
// operators is left between the products of an attention's backward pass (Dao et al. 2022, "FlashAttention", appendix
// B.2). The same holds with a dropout of p before the product, whose gradient drops the same elements of dp.
#include <algorithm>

#include "support/join.h"
#include "transform/editor.h"
#include "transform/passes.h"
#include "transform/storage_order.h"

namespace tw::transform {
namespace {

class RowDots {
 public:
  RowDots(const graph::Graph& graph, const graph::OpTable& ops) : editor_(graph, ops) {}

  graph::Graph run() {
    editor_.for_each_old([&](const Node& node) {
      if (node.op == "reduce_sum" && sums_rows(node)) replace(node);
    });
    return editor_.finish();
  }

 private:
  // Both products: o = p v, and the gradient of its left operand.
  struct Products {
    ValueId o, g;
  };

  bool sums_rows(const Node& sum) const {
    if (!sum.attrs.contains("axes")) return false;  // of all elements
    const int64_t rank = std::ssize(editor_.shape(sum.inputs[0]));
    const Ints& axes = sum.ints_attr("axes");
    return axes.size() == 1 && (axes[0] == rank - 1 || axes[0] == -1);
  }

  void replace(const Node& sum) {
    const Node* dots = editor_.producer(sum.inputs[0], "mul");
    if (dots == nullptr || editor_.use_count(sum.inputs[0]) != 1) return;
    const ValueId a = dots->inputs[0], b = dots->inputs[1];
    if (editor_.shape(a) != editor_.shape(b)) return;
    std::optional<Products> found = products_of(a, b);
    if (!found) found = products_of(b, a);
    if (!found || editor_.shape(found->g) != editor_.shape(found->o)) return;
    const ValueId columns = editor_.emit(sum, "mul", {found->g, found->o});
    editor_.replace(sum.outputs[0], editor_.emit(sum, "reduce_sum", {columns}, sum.attrs));
  }

  // Of a row of `p` times `dp`; nothing where they are not what o = p v and its gradient have.
  std::optional<Products> products_of(ValueId p, ValueId dp) const {
    const Node* dropped = editor_.producer(dp, "dropout");
    const Node* second = editor_.producer(dropped == nullptr ? dp : dropped->inputs[0], "matmul");
    if (second == nullptr) return std::nullopt;
    const ValueId left = dropped == nullptr ? p : dropped_like(p, *dropped);
    if (left == kAbsent) return std::nullopt;
    for (const int reader : editor_.readers(left)) {
      const Node& first = editor_.node(static_cast<size_t>(reader));
      if (first.op == "matmul" && first.inputs[0] == left && are_transposed(first.inputs[1], second->inputs[1]))
        return Products{first.outputs[0], second->inputs[0]};
    }
    return std::nullopt;
  }

  // The dropout of `p` that keeps the elements that `gradient` keeps.
  ValueId dropped_like(ValueId p, const Node& gradient) const {
    for (const int reader : editor_.readers(p)) {
      const Node& node = editor_.node(static_cast<size_t>(reader));
      const bool same = node.op == "dropout" && node.inputs[0] == p && node.attrs == gradient.attrs;
      if (same &&
          std::equal(node.inputs.begin() + 1, node.inputs.end(), gradient.inputs.begin() + 1, gradient.inputs.end()))
        return node.outputs[0];
    }
    return kAbsent;
  }

  // Where a value's elements come from: `root` with its dims in the order `perm`.
  struct Moved {
    ValueId root;
    Ints perm;
  };
  Moved moved(ValueId id) const {
    Ints perm = sequence(editor_.shape(id).size());
    const Node* transpose = editor_.producer(id, "transpose");
    for (; transpose != nullptr; transpose = editor_.producer(id, "transpose")) {
      perm = permuted(transpose->ints_attr("perm"), perm);
      id = transpose->inputs[0];
    }
    return {id, perm};
  }

  // Whether `b` is `a` with its last two dims exchanged.
  bool are_transposed(ValueId a, ValueId b) const {
    Moved from = moved(a);
    const Moved to = moved(b);
    const size_t rank = from.perm.size();
    if (rank < 2 || from.root != to.root || to.perm.size() != rank) return false;
    std::swap(from.perm[rank - 1], from.perm[rank - 2]);
    return from.perm == to.perm;
  }

  Editor editor_;
};

}  // namespace

graph::Graph move_row_dots(const graph::Graph& graph, const TransformContext& context) {
  return RowDots(graph, context.ops).run();
}

}  // namespace tw::transform
