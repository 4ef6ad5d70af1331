// Random graphs of 3 to 10 differentiable operators against finite differences. Values are read again by later nodes,
// so that gradients meet.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/graph_evaluate.h"
#include "tests/transform/train/gradient_check.h"
#include "transform/pass.h"
#include "transform/train/differentiate.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;
using graph::Attrs;
using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Graph run() {
    graph_.name = "random";
    for (int64_t k = between(1, 2); k >= 0; --k) pool_.push_back(input(random_shape()));
    const int64_t count = between(3, 10);
    while (std::ssize(graph_.nodes) < count) pool_.push_back(next(pick(pool_)));
    graph_.outputs = {pool_.back(), pool_[pool_.size() - 2]};
    if (graph_.outputs[0] == graph_.outputs[1]) graph_.outputs.pop_back();
    return graph_;
  }

  std::vector<RefTensor> values() {
    std::vector<RefTensor> result;
    for (const ValueId in : graph_.inputs) result.push_back(random_tensor(graph_.value(in).type, {-1.2, 1.2}, random_));
    return result;
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  template <typename T>
  T pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(between(0, std::ssize(list) - 1))];
  }
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  int64_t rank(ValueId id) const { return std::ssize(shape(id)); }
  ValueId input(const Shape& s) { return graph_.add_input("x", f64(s)); }
  ValueId node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add_node(graph_, op, std::move(inputs), std::move(attrs));
  }

  Shape random_shape() {
    Shape s(static_cast<size_t>(between(2, 4)));
    for (int64_t& extent : s) extent = pick(Ints{1, 2, 3, 4});
    return s;
  }

  // A value of that shape: an old one, x itself among them, or a new input.
  ValueId operand(const Shape& s) {
    std::vector<ValueId> found;
    for (const ValueId id : pool_) {
      if (shape(id) == s) found.push_back(id);
    }
    return found.empty() || between(0, 3) == 0 ? input(s) : pick(found);
  }

  ValueId next(ValueId x) {
    switch (between(0, 7)) {
      case 0:
      case 1:
        return node(pick(std::vector<std::string>{"tanh", "sigmoid", "gelu", "sin", "softplus", "silu", "erf", "elu"}),
                    {x});
      case 2:
      case 3:
        return binary(x);
      case 4:
        return reduction(x);
      case 5:
        return movement(x);
      case 6:
        return contraction(x);
      default:
        return normalization(x);
    }
  }

  ValueId binary(ValueId x) {
    Shape s = shape(x);
    for (int64_t& extent : s) extent = between(0, 2) == 0 ? 1 : extent;
    if (between(0, 3) == 0) s.erase(s.begin());
    const ValueId other = operand(between(0, 1) == 0 ? shape(x) : s);
    const std::string op = pick(std::vector<std::string>{"add", "sub", "mul", "max", "min", "where", "div"});
    if (op == "where") return node(op, {node("less", {x, other}), x, other});
    if (op == "div") return node(op, {x, node("softplus", {other})});
    return between(0, 1) == 0 ? node(op, {x, other}) : node(op, {other, x});
  }

  ValueId reduction(ValueId x) {
    const std::string op =
        pick(std::vector<std::string>{"reduce_sum", "reduce_mean", "reduce_max", "reduce_log_sum_exp", "reduce_prod"});
    const int64_t keep = rank(x) <= 2 ? 1 : between(0, 1);
    return node(op, {x}, {{"axes", Ints{between(0, rank(x) - 1)}}, {"keepdims", keep}});
  }

  ValueId normalization(ValueId x) {
    const int64_t axis = between(0, rank(x) - 1);
    if (between(0, 1) == 0)
      return node(pick(std::vector<std::string>{"softmax", "log_softmax"}), {x}, {{"axis", axis}});
    // A wide epsilon: statistics of equal elements have steep gradients, which differences do not resolve.
    return node("layer_norm", {x, input({shape(x).back()})}, {{"epsilon", 0.5}});
  }

  ValueId movement(ValueId x) {
    switch (between(0, 4)) {
      case 0: {
        Ints order(static_cast<size_t>(rank(x)));
        for (int64_t d = 0; d < rank(x); ++d) order[d] = d;
        std::shuffle(order.begin(), order.end(), random_);
        return node("transpose", {x}, {{"perm", order}});
      }
      case 1:
        return node("concat", {x, operand(shape(x))}, {{"axis", between(0, rank(x) - 1)}});
      case 2: {
        Ints pads(static_cast<size_t>(2 * rank(x)));
        for (int64_t& p : pads) p = pick(Ints{0, 0, 1});
        return node("pad", {x}, {{"pads", pads}, {"mode", pick(std::vector<std::string>{"constant", "edge"})}});
      }
      case 3:
        return node("gather", {x, add_constant(graph_, indices(x))}, {{"axis", int64_t{1}}});
      default:
        return node("reshape", {x}, {{"shape", Ints{num_elements(shape(x)), 1}}});
    }
  }

  RefTensor indices(ValueId x) {
    RefTensor t = RefTensor::zeros(i64({between(1, 4)}));
    for (int64_t& i : t.ints) i = between(0, shape(x)[1] - 1);
    return t;
  }

  ValueId contraction(ValueId x) {
    if (rank(x) < 3 || between(0, 1) == 0) {
      if (rank(x) == 2 && between(0, 2) == 0)
        return node("matmul", {x, node("transpose", {x}, {{"perm", Ints{1, 0}}})});
      return node("matmul", {x, operand({shape(x).back(), between(1, 3)})});
    }
    Shape w{between(1, 3), shape(x)[1]};
    for (int64_t d = 2; d < rank(x); ++d) w.push_back(std::min<int64_t>(shape(x)[d], between(1, 2)));
    if (between(0, 2) > 0) return node("conv", {x, operand(w)});
    return node(pick(std::vector<std::string>{"max_pool", "avg_pool"}), {x},
                {{"kernel_shape", Ints(w.begin() + 2, w.end())}});
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<ValueId> pool_;
};

// Differences resolve gradients of losses of moderate size only.
bool is_tame(const Graph& g, const std::vector<RefTensor>& inputs) {
  for (const RefTensor& value : graph::evaluate(g, operators(), inputs, graph::Rounding::kNone)) {
    for (const double x : value.floats) {
      if (!(std::fabs(x) < 50)) return false;
    }
  }
  return true;
}

TEST(RandomGradients, MatchDifferences) {
  int checked = 0;
  for (uint64_t seed = 1; checked < 200; ++seed) {
    SCOPED_TRACE(seed);
    ASSERT_LT(seed, 400u) << "too many graphs whose values are too large";
    Maker maker(seed);
    const Graph g = maker.run();
    const std::vector<RefTensor> inputs = maker.values();
    if (!is_tame(g, inputs)) continue;
    ++checked;
    check_gradients(g, inputs, 2e-6);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// The sum of the squares of all outputs, and its gradients for all inputs.
Graph with_gradients(Graph g) {
  ValueId loss = graph::kAbsent;
  for (const ValueId out : g.outputs) {
    const ValueId sum = add_node(g, "reduce_sum", {add_node(g, "mul", {out, out})}, {{"keepdims", int64_t{0}}});
    loss = loss == graph::kAbsent ? sum : add_node(g, "add", {loss, sum});
  }
  const std::vector<ValueId> gradients = transform::differentiate(g, operators(), loss, g.inputs);
  g.outputs = {loss};
  g.outputs.insert(g.outputs.end(), gradients.begin(), gradients.end());
  return g;
}

// All graph passes keep the gradients.
TEST(RandomGradients, PassesKeepThem) {
  const transform::TransformContext context{operators(), TargetInfo{}};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Maker maker(seed);
    const Graph plain = maker.run();
    const std::vector<RefTensor> inputs = maker.values();
    if (!is_tame(plain, inputs)) continue;
    const Graph before = with_gradients(plain);
    const Graph after = transform::transform(before, context, {});
    const auto want = graph::evaluate(before, operators(), inputs, graph::Rounding::kNone);
    const auto got = graph::evaluate(after, operators(), inputs, graph::Rounding::kNone);
    for (size_t k = 0; k < before.outputs.size(); ++k) {
      const std::vector<double>&a = want[before.outputs[k]].floats, &b = got[after.outputs[k]].floats;
      ASSERT_EQ(a.size(), b.size());
      double largest = 1;
      for (const double x : a) largest = std::max(largest, std::fabs(x));
      for (size_t e = 0; e < a.size(); ++e) ASSERT_NEAR(a[e], b[e], 1e-9 * largest) << "output " << k;
    }
  }
}

}  // namespace
}  // namespace tw::testing
