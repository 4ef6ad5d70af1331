// y = a b: da = dy b^T, db = a^T dy, each a product of its own, summed over the batches along which its operand was
// broadcast. A matrix b that multiplies batches of rows (a layer's weights) sums them within the product: the rows of
// all batches are one matrix.
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

Term turned(const Term& x) {
  Ints perm = axes_from(0, x.rank());
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, perm);
}

Term as_matrix(const Term& x) {
  const Shape shape = x.shape();
  return reshape(x, {num_elements(Shape(shape.begin(), shape.end() - 1)), shape.back()});
}

int64_t batches(const Shape& shape) { return num_elements(Shape(shape.begin(), shape.end() - 2)); }

Terms of_matmul(const GradientCall& g) {
  Shape a_shape = g.x(0).shape(), b_shape = g.x(1).shape(), y_shape = g.y().shape();
  const bool row = a_shape.size() == 1, column = b_shape.size() == 1;
  if (row) a_shape.insert(a_shape.begin(), 1);
  if (column) b_shape.push_back(1);
  if (column) y_shape.push_back(1);
  if (row) y_shape.insert(y_shape.end() - 1, 1);
  const Term dy = reshape(g.dy(), y_shape);
  const auto left = [&] { return emit("matmul", {dy, turned(reshape(g.x(1), b_shape))}); };
  const auto right = [&] {
    const Term a = reshape(g.x(0), a_shape);
    const bool rows = batches(b_shape) == 1 && batches(a_shape) == batches(y_shape);
    return rows ? reshape(emit("matmul", {turned(as_matrix(a)), as_matrix(dy)}), b_shape)
                : emit("matmul", {turned(a), dy});
  };
  const auto fit = [](const Term& dx, const Shape& seen, const Shape& own) { return reshape(sum_to(dx, seen), own); };
  return {g.wants(0) ? fit(left(), a_shape, g.x(0).shape()) : Term{},
          g.wants(1) ? fit(right(), b_shape, g.x(1).shape()) : Term{}};
}

}  // namespace

std::vector<GradientRow> matmul_gradients() {
  constexpr std::string_view kIntegers = "its operands are integers",
                             kWords = "it is made from matmul by pass pack-dot-operands, behind gradients";
  return {by_rule("matmul", of_matmul), is_zero("matmul_integer", kIntegers), is_refused("matmul_words", kWords)};
}

}  // namespace tw::ops
