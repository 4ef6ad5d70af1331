#include <random>

#include "tests/transform/graph_tools.h"

namespace tw::testing {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::RefTensor;
using graph::ValueId;

constexpr DataType kType = DataType::f64();

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  Graph run() {
    graph_.name = "random";
    for (int64_t k = between(1, 3); k > 0; --k) pool_.push_back(graph_.add_input("x", {kType, random_shape()}));
    for (int64_t k = between(3, 14); k > 0; --k) add_something();
    for (int64_t k = between(1, 3); k > 0; --k)
      leave(pool_[pool_.size() - 1 -
                  static_cast<size_t>(between(0, std::min<int64_t>(3, static_cast<int64_t>(pool_.size()) - 1)))]);
    graph::verify(graph_, context().ops);
    return std::move(graph_);
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return between(0, 99) < percent; }
  template <typename T>
  T pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(shape(id).size()); }

  Shape random_shape() {
    const std::vector<int64_t> extents = {1, 2, 3, 4, 5, 7};
    Shape s(static_cast<size_t>(between(2, 4)));
    for (int64_t& extent : s) extent = pick(extents);
    return s;
  }

  // Outputs have names of their own: an output is used once, and is no input.
  void leave(ValueId id) { graph_.outputs.push_back(node("identity", {id})); }

  ValueId node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph::append_node(graph_, context().ops,
                              {.op = op,
                               .name = op,
                               .attrs = std::move(attrs),
                               .inputs = std::move(inputs),
                               .outputs = {},
                               .body = nullptr})[0];
  }

  // Multiples of 1/16 in [-1, 1].
  ValueId constant(const Shape& s) {
    RefTensor t = RefTensor::zeros({kType, s});
    for (double& x : t.floats) x = static_cast<double>(between(-16, 16)) / 16;
    return graph_.add_constant("c", t.type, share(t.to_bytes()));
  }
  ValueId scalar(double number) {
    RefTensor t = RefTensor::zeros({kType, {}});
    t.floats[0] = number;
    return graph_.add_constant("c", t.type, share(t.to_bytes()));
  }
  ValueId operand(const Shape& s) { return chance(70) ? constant(s) : fitting(s); }

  // A value of that shape out of the pool, or a constant.
  ValueId fitting(const Shape& s) {
    std::vector<ValueId> found;
    for (const ValueId id : pool_) {
      if (shape(id) == s) found.push_back(id);
    }
    return found.empty() ? constant(s) : pick(found);
  }

  void add_something() {
    const ValueId x = pick(pool_);
    ValueId y = graph::kAbsent;
    switch (between(0, 10)) {
      case 10:
        y = of_itself(x);
        break;
      case 0:
      case 1:
        y = unary(x);
        break;
      case 2:
      case 3:
        y = binary(x);
        break;
      case 4:
      case 5:
        y = movement(x);
        break;
      case 6:
        y = reduction(x);
        break;
      case 7:
        y = pattern(x);
        break;
      case 8:
        y = contraction(x);
        break;
      default:
        y = node("reshape", {x}, {{"shape", reshaped(shape(x))}});
        break;
    }
    pool_.push_back(y);
  }

  ValueId unary(ValueId x) {
    const std::vector<std::string> ops = {"relu", "tanh", "sigmoid", "neg", "abs", "identity", "sin", "erf"};
    if (chance(10)) return node("clip", {x}, {{"min", -0.5}, {"max", 0.75}});
    if (chance(10)) return dropout(x);
    if (chance(10)) return node("cast", {x}, {{"to", std::string("f64")}});
    return node(pick(ops), {x});
  }

  // By the place of each element: what moves elements may not pass it.
  ValueId dropout(ValueId x) {
    const auto number = [&](int64_t value) {
      const RefTensor t{{DataType::i64(), {}}, {}, {value}};
      return graph_.add_constant("n", t.type, share(t.to_bytes()));
    };
    return node("dropout", {x, number(between(0, 9)), number(between(0, 9))},
                {{"ratio", 0.5}, {"stream", between(0, 3)}});
  }

  // An operand of x's shape, of one element, or with some extents 1.
  ValueId broadcast_operand(ValueId x) {
    Shape s = shape(x);
    for (int64_t& extent : s) extent = chance(40) ? 1 : extent;
    if (chance(30)) s.erase(s.begin(), s.begin() + between(0, rank(x)));
    return operand(chance(50) ? shape(x) : s);
  }

  ValueId binary(ValueId x) {
    const std::vector<std::string> ops = {"add", "sub", "mul", "max", "min"};
    const std::vector<double> numbers = {0.5, 1, 2, 4, 3, 0};
    if (chance(15)) return node("div", {x, scalar(pick(std::vector<double>{1, 2, 8, 3, 0.25}))});
    if (chance(10)) return node("pow", {node("abs", {x}), scalar(pick(std::vector<double>{0.5, 1, 2, 3}))});
    if (chance(20)) return node(pick(ops), {x, scalar(pick(numbers))});
    const ValueId other = broadcast_operand(x);
    if (chance(10)) return node("where", {node("less", {x, scalar(0.12345)}), x, other});
    return chance(50) ? node(pick(ops), {x, other}) : node(pick(ops), {other, x});
  }

  ValueId movement(ValueId x) {
    switch (between(0, 6)) {
      case 0:
      case 1:
        return node("transpose", {x}, {{"perm", random_order(rank(x))}});
      case 2:
        return slice(x);
      case 3: {
        Shape s = shape(x);
        for (int64_t& extent : s) extent = extent == 1 && chance(50) ? 3 : extent;
        return node("expand", {x}, {{"shape", s}});
      }
      case 4: {
        std::vector<ValueId> parts = {x};
        if (chance(80)) parts.push_back(fitting(shape(x)));
        return node("concat", parts, {{"axis", between(-rank(x), rank(x) - 1)}});
      }
      case 5: {
        std::vector<int64_t> pads(static_cast<size_t>(2 * rank(x)));
        for (int64_t& p : pads) p = chance(70) ? 0 : 1;
        return node("pad", {x}, {{"pads", pads}});
      }
      default:
        return gather(x);
    }
  }

  ValueId gather(ValueId x) {
    const int64_t axis = between(0, rank(x) - 1);
    RefTensor t = RefTensor::zeros({DataType::i64(), {between(1, 3)}});
    for (int64_t& i : t.ints) i = between(0, shape(x)[axis] - 1);
    const ValueId indices = graph_.add_constant("i", t.type, share(t.to_bytes()));
    return node("gather", {x, indices}, {{"axis", axis}});
  }

  ValueId slice(ValueId x) {
    std::vector<int64_t> starts, steps, extents;
    for (const int64_t extent : shape(x)) {
      const int64_t step = chance(20) && extent > 1 ? (chance(50) ? 2 : -1) : 1;
      const int64_t start = step < 0 ? extent - 1 : (chance(30) ? between(0, extent - 1) : 0);
      starts.push_back(start);
      steps.push_back(step);
      extents.push_back(step < 0 ? between(1, start + 1) : 1 + (extent - 1 - start) / step);
    }
    return node("slice", {x}, {{"starts", starts}, {"steps", steps}, {"extents", extents}});
  }

  std::vector<int64_t> random_order(int64_t n) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  Shape reshaped(const Shape& s) {
    if (chance(30)) return s;
    const int64_t count = num_elements(s);
    if (chance(50) && s.size() > 2) return {s[0], s[1], count / (s[0] * s[1])};
    for (const int64_t factor : {7, 5, 4, 3, 2}) {
      if (count % factor == 0) return chance(50) ? Shape{factor, count / factor} : Shape{1, count / factor, factor, 1};
    }
    return {1, count};
  }

  ValueId reduction(ValueId x) {
    const int64_t axis = between(0, rank(x) - 1);
    if (chance(30)) return node("softmax", {x}, {{"axis", axis}});
    if (chance(20)) return node("layer_norm", {x, constant({shape(x).back()})}, {{"axis", int64_t{-1}}});
    const std::vector<std::string> ops = {"reduce_mean", "reduce_max", "reduce_sum"};
    const bool keep = chance(70) || rank(x) == 2;
    return node(pick(ops), {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{keep}}});
  }

  // What exporters write for one operator.
  ValueId pattern(ValueId x) {
    switch (between(0, 3)) {
      case 0:
        return node("mul", {x, node("sigmoid", {x})});
      case 1: {
        const ValueId gate = node("add", {node("erf", {node("div", {x, scalar(1.4142135623730951)})}), scalar(1)});
        return chance(50) ? node("mul", {node("mul", {x, gate}), scalar(0.5)})
                          : node("mul", {node("mul", {scalar(0.5), x}), gate});
      }
      case 2: {
        const Attrs last{{"axes", std::vector<int64_t>{rank(x) - 1}}, {"keepdims", int64_t{1}}};
        const ValueId d = node("sub", {x, node("reduce_mean", {x}, last)});
        const ValueId v = node("reduce_mean", {node("pow", {d, scalar(2)})}, last);
        const ValueId n = node("div", {d, node("sqrt", {node("add", {v, scalar(1e-2)})})});
        return node("add", {node("mul", {n, constant({shape(x).back()})}), constant({shape(x).back()})});
      }
      default: {
        const ValueId e = node("exp", {node("tanh", {x})});
        const Attrs last{{"axes", std::vector<int64_t>{rank(x) - 1}}, {"keepdims", int64_t{1}}};
        return node("div", {e, node("reduce_sum", {e}, last)});
      }
    }
  }

  ValueId contraction(ValueId x) {
    if (rank(x) < 3 || chance(40))
      return node("tanh", {node("matmul", {x, operand({shape(x).back(), between(1, 5)})})});
    if (chance(30)) {
      const std::vector<int64_t> kernel(static_cast<size_t>(rank(x)) - 2, 1);
      return node(chance(50) ? "max_pool" : "avg_pool", {x}, {{"kernel_shape", kernel}});
    }
    if (chance(20)) return node("batch_norm", {x, channel(x), channel(x), channel(x), positive(shape(x)[1])});
    const int64_t channels = between(1, 5);
    Shape w = {channels, shape(x)[1]};
    for (size_t d = 2; d < shape(x).size(); ++d) w.push_back(between(1, std::min<int64_t>(3, shape(x)[d])));
    std::vector<ValueId> inputs = {x, constant(w)};
    if (chance(50)) inputs.push_back(constant({channels}));
    ValueId y = node("conv", inputs);
    if (chance(50)) y = node("batch_norm", {y, channel(y), channel(y), channel(y), positive(channels)});
    if (chance(30)) {
      Shape each(shape(y).size() - 1, 1);
      each[0] = channels;
      y = node(chance(50) ? "mul" : "add", {y, constant(each)});
    }
    return chance(50) ? node("relu", {y}) : y;
  }

  // One value as several operands.
  ValueId of_itself(ValueId x) {
    std::vector<int64_t> order(static_cast<size_t>(rank(x)));
    for (int64_t i = 0; i < rank(x); ++i) order[i] = i;
    std::swap(order[rank(x) - 1], order[rank(x) - 2]);
    const ValueId turned = node("transpose", {x}, {{"perm", order}});
    switch (between(0, 4)) {
      case 0:
        return node("tanh", {node("matmul", {x, turned})});
      case 1:
        return node("tanh", {node("matmul", {node("softmax", {node("matmul", {x, turned})}), x})});
      case 2:
        return node("where", {node("less", {x, scalar(0.12345)}), x, x});
      case 3:
        return node(chance(50) ? "sub" : "mul", {x, x});
      default: {
        if (rank(x) < 3) return node("concat", {x, x}, {{"axis", between(-rank(x), rank(x) - 1)}});
        return node("tanh", {node("conv", {x, x})});
      }
    }
  }

  ValueId channel(ValueId x) { return constant({shape(x)[1]}); }
  ValueId positive(int64_t count) {
    RefTensor t = RefTensor::zeros({kType, {count}});
    for (double& x : t.floats) x = static_cast<double>(between(4, 32)) / 16;
    return graph_.add_constant("v", t.type, share(t.to_bytes()));
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<ValueId> pool_;
};

}  // namespace

Graph random_graph(uint64_t seed) { return Maker(seed).run(); }

}  // namespace tw::testing
