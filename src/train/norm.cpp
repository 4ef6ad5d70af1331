#include <algorithm>
#include <limits>

#include "support/join.h"
#include "train/optimizer.h"

namespace tw::train {
namespace {

using graph::Term;
using graph::Terms;

// Enough rows for the threads of a CPU and the blocks of a GPU, and what one of these adds up after them.
constexpr int64_t kRows = 256, kMostRows = 65536;
// Vectors whose sums one kernel takes: each is a parameter of it.
constexpr size_t kTogether = 24;

// Sums of squares of the rows: of the first axis, and of more while these are few. The other axes are added up.
Term squares_by_row(const Term& x) {
  const Shape shape = x.shape();
  size_t axis = std::min<size_t>(1, shape.size());
  for (int64_t rows = axis == 0 ? 1 : shape[0]; axis < shape.size() && rows < kRows; ++axis) {
    rows *= shape[axis];
    if (rows > kMostRows) break;
  }
  const std::vector<int64_t> summed = sequence(shape.size() - axis, static_cast<int64_t>(axis));
  const Term rows =
      summed.empty() ? x * x : graph::emit("reduce_sum_square", {x}, {{"axes", summed}, {"keepdims", int64_t{0}}});
  return graph::reshape(rows, {rows.type().elements()});
}

Term total(const Terms& rows) {
  const Term all = rows.size() == 1 ? rows[0] : graph::emit("concat", rows, {{"axis", int64_t{0}}});
  return graph::reshape(graph::sum(all, {0}), {});
}

}  // namespace

Term sum_of_squares(const Terms& tensors) {
  const Terms rows = mapped(tensors, squares_by_row);
  Term sum;
  for (size_t first = 0; first < rows.size(); first += kTogether) {
    const size_t end = std::min(rows.size(), first + kTogether);
    sum = graph::sum_of(sum, total({rows.begin() + static_cast<std::ptrdiff_t>(first),
                                    rows.begin() + static_cast<std::ptrdiff_t>(end)}));
  }
  return sum;
}

Term is_finite(const Term& number) {
  return graph::compare("less", graph::emit("abs", {number}), std::numeric_limits<double>::infinity());
}

}  // namespace tw::train
