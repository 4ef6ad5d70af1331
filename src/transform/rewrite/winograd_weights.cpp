#include "transform/rewrite/winograd_weights.h"

#include <algorithm>
#include <limits>

#include "ops/winograd.h"
#include "support/join.h"

namespace tw::transform {
namespace {

constexpr int64_t kPositions = 9;           // of a kernel
constexpr double kLargestSquares = 0x1p80;  // of a channel: far from where sums of products overflow

class Weights {
 public:
  Weights(Editor& editor, const Node& conv) : editor_(editor), w_(conv.inputs[1]), name_(editor.value(w_).name) {}

  // G w G^T of each kernel, as one product with the (m + 2)^2 x 9 numbers of both.
  ValueId transformed(int64_t m) {
    const Shape shape = editor_.shape(w_);
    const auto rank = static_cast<int64_t>(shape.size());
    Ints order = {rank - 2, rank - 1};
    for (int64_t d = 2; d < rank - 2; ++d) order.push_back(d);
    order.push_back(1), order.push_back(0);
    const ops::Winograd& winograd = ops::winograd(m);
    const int64_t points = winograd.points();
    graph::RefTensor both = graph::RefTensor::zeros({DataType::f32(), {points * points, kPositions}});
    for (size_t i = 0; i < both.floats.size(); ++i) {
      const size_t point = i / kPositions, position = i % kPositions, width = static_cast<size_t>(points);
      both.floats[i] = winograd.weights[point / width][position / 3] * winograd.weights[point % width][position % 3];
    }
    const ValueId rows =
        reshaped(emit("transpose", {w_}, {{"perm", order}}), {kPositions, num_elements(shape) / kPositions});
    return reshaped(emit("matmul", {constant("both", both), rows}), ops::winograd_weights_shape(shape, m));
  }

  // Root mean squares over the largest of them; all infinite where the kernels do not suit.
  ValueId scales() {
    const ValueId each = reduced("reduce_sum_square", w_, axes_but({1}));  // [C]
    const ValueId largest = reduced("reduce_max", each, {0});              // []
    const ValueId divisor = emit("max", {largest, number(std::numeric_limits<float>::min())});
    const ValueId sizes = emit("sqrt", {emit("div", {each, divisor})});
    const ValueId small = emit("less_equal", {largest, number(kLargestSquares)});
    return emit("where", {emit("and", {small, is_even()}), sizes, number(std::numeric_limits<double>::infinity())});
  }

 private:
  // Of each output channel the four squares of 2 x 2 positions hold a share of all.
  ValueId is_even() {
    const Shape shape = editor_.shape(w_);
    const auto rank = static_cast<int64_t>(shape.size());
    const ValueId squares =
        reshaped(reduced("reduce_sum_square", w_, axes_but({0, rank - 2, rank - 1})), {shape[0], kPositions});
    graph::RefTensor lacks = graph::RefTensor::zeros({DataType::f32(), {kPositions, 4}});
    for (int64_t corner = 0; corner < 4; ++corner) {
      for (int64_t k = 0; k < kPositions; ++k) {
        const int64_t row = k / 3 - corner / 2, column = k % 3 - corner % 2;
        const bool inside = row >= 0 && row < 2 && column >= 0 && column < 2;
        lacks.floats[k * 4 + corner] = inside ? 1 - ops::kWinogradSpread : 1;
      }
    }
    const ValueId worst = reduced("reduce_max", emit("matmul", {squares, constant("corners", lacks)}), {0, 1});
    return emit("less_equal", {worst, number(0)});
  }

  Ints axes_but(const Ints& kept) const {
    return filtered(sequence(editor_.shape(w_).size()), [&](int64_t d) { return index_of(kept, d) < 0; });
  }
  ValueId emit(const std::string& op, std::vector<ValueId> inputs, graph::Attrs attrs = {}) {
    return editor_.emit(name_ + ".winograd", op, std::move(inputs), std::move(attrs));
  }
  ValueId reshaped(ValueId x, const Shape& shape) { return emit("reshape", {x}, {{"shape", shape}}); }
  ValueId reduced(const std::string& op, ValueId x, const Ints& axes) {
    return emit(op, {x}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  }
  ValueId constant(const std::string& what, const graph::RefTensor& elements) {
    return editor_.add_constant(name_ + ".winograd." + what, elements);
  }
  ValueId number(double value) { return constant("number", {{DataType::f32(), {}}, {value}, {}}); }

  Editor& editor_;
  const ValueId w_;
  const std::string name_;
};

}  // namespace

WinogradWeights compute_winograd_weights(Editor& editor, const Node& conv, int64_t m) {
  Weights weights(editor, conv);
  return {weights.transformed(m), weights.scales()};
}

}  // namespace tw::transform
