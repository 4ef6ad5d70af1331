#include "tests/transform/train/networks.h"

#include "tests/transform/train/gradient_check.h"

namespace tw::testing {
namespace {

using Ints = std::vector<int64_t>;
using graph::Attrs;
using graph::RefTensor;
using graph::ValueId;

// A graph with an input for each parameter, and their values.
class Builder {
 public:
  explicit Builder(DataType type) : type_(type) {}
  ValueId input(const Shape& shape) { return add({type_, shape}, {-1, 1}); }
  ValueId classes(int64_t count, int64_t below) { return add(i64({count}), {0, static_cast<double>(below - 1)}); }
  ValueId node(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add_node(network_.graph, op, std::move(inputs), std::move(attrs));
  }
  // Both results.
  std::vector<ValueId> both(const std::string& op, ValueId x, Attrs attrs) {
    node(op, {x}, std::move(attrs));
    return network_.graph.nodes.back().outputs;
  }
  ValueId linear(ValueId x, int64_t out) {
    return node("add", {node("matmul", {x, input({shape(x).back(), out})}), input({out})});
  }
  ValueId number(double value) { return add_constant(network_.graph, {{type_, {}}, {value}, {}}); }
  // The mean cross-entropy of scores [N, C].
  ValueId cross_entropy(ValueId scores) {
    const int64_t count = shape(scores)[0];
    const ValueId target = node("reshape", {classes(count, shape(scores)[1])}, {{"shape", Ints{count, 1}}});
    const ValueId picked = node("gather_elements", {node("log_softmax", {scores}, {{"axis", int64_t{1}}}), target},
                                {{"axis", int64_t{1}}});
    return node("neg", {node("reduce_mean", {picked}, {{"keepdims", int64_t{0}}})});
  }
  const Shape& shape(ValueId id) const { return network_.graph.value(id).type.shape; }
  Network finish(ValueId loss) {
    network_.graph.outputs = {loss};
    return std::move(network_);
  }

 private:
  ValueId add(const TensorType& type, Range range) {
    network_.values.push_back(random_tensor(type, range, random_));
    network_.values.back().round_to_type();
    return network_.graph.add_input("p", type);
  }
  DataType type_;
  Network network_;
  std::mt19937_64 random_{11};
};

// The training form of batch normalization: the statistics are the batch's own.
ValueId batch_norm(Builder& n, ValueId x) {
  const int64_t channels = n.shape(x)[1];
  const std::vector<ValueId> batch = n.both("mean_variance", x, {{"axes", Ints{0, 2, 3}}, {"keepdims", int64_t{0}}});
  return n.node("batch_norm", {x, n.input({channels}), n.input({channels}), batch[0], batch[1]});
}

ValueId heads(Builder& n, ValueId x, Ints perm) {
  const Shape s = n.shape(x);
  return n.node("transpose", {n.node("reshape", {x}, {{"shape", Ints{s[0], s[1], 2, s[2] / 2}}})},
                {{"perm", std::move(perm)}});
}

}  // namespace

Network perceptron(DataType type) {
  Builder n(type);
  const ValueId x = n.input({4, 6});
  const ValueId h = n.node("layer_norm", {n.linear(x, 7), n.input({7}), n.input({7})});
  return n.finish(n.cross_entropy(n.linear(n.node("gelu", {h}), 5)));
}

Network convolutions(DataType type) {
  Builder n(type);
  const ValueId x = n.input({2, 2, 6, 5});
  const ValueId conv =
      n.node("conv", {x, n.input({3, 2, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1}}});
  const ValueId h = n.node("relu", {batch_norm(n, conv)});
  const ValueId pool = n.node("max_pool", {h}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const ValueId deep = n.node("conv", {pool, n.input({4, 3, 2, 1}), n.input({4})}, {{"strides", Ints{2, 1}}});
  const ValueId vector = n.node("reshape", {n.node("global_avg_pool", {deep})}, {{"shape", Ints{2, 4}}});
  return n.finish(n.cross_entropy(n.linear(vector, 3)));
}

Network attention(DataType type) {
  Builder n(type);
  const int64_t words = 5, width = 4, length = 3;
  const ValueId table = n.input({words, width});
  const ValueId tokens = n.node("reshape", {n.classes(2 * length, words)}, {{"shape", Ints{2, length}}});
  const ValueId x = n.node("add", {n.node("gather", {table, tokens}), n.input({length, width})});
  const ValueId q = heads(n, n.linear(x, width), {0, 2, 1, 3}), k = heads(n, n.linear(x, width), {0, 2, 3, 1}),
                v = heads(n, n.linear(x, width), {0, 2, 1, 3});
  const ValueId scores = n.node("div", {n.node("matmul", {q, k}), n.number(1.5)});
  const ValueId masked = n.node("band", {scores}, {{"upper", int64_t{0}}, {"fill", -1e9}});
  const ValueId mixed = n.node("matmul", {n.node("softmax", {masked}), v});
  const ValueId joined = n.node("reshape", {n.node("transpose", {mixed}, {{"perm", Ints{0, 2, 1, 3}}})},
                                {{"shape", Ints{2, length, width}}});
  const ValueId y = n.node("rms_norm", {n.node("add", {x, n.linear(joined, width)}), n.input({width})});
  const ValueId logits = n.node("matmul", {y, n.node("transpose", {table}, {{"perm", Ints{1, 0}}})});
  return n.finish(n.cross_entropy(n.node("reshape", {logits}, {{"shape", Ints{2 * length, words}}})));
}

Network parted_attention(DataType type, int64_t length, int64_t width) {
  Builder n(type);
  const auto linear = [&](ValueId x, int64_t out) {  // as torch has its weights
    const ValueId weight = n.node("transpose", {n.input({out, width})}, {{"perm", Ints{1, 0}}});
    return n.node("add", {n.node("matmul", {x, weight}), n.input({out})});
  };
  const ValueId x = n.input({2, length, width}), parts = linear(x, 3 * width);
  const auto part = [&](int64_t number, const Ints& perm) {
    return heads(
        n,
        n.node("slice", {parts},
               {{"starts", Ints{0, 0, number * width}}, {"extents", Ints{2, length, width}}, {"steps", Ints{1, 1, 1}}}),
        perm);
  };
  const ValueId q = n.node("mul", {part(0, {0, 2, 1, 3}), n.number(0.5)});
  const ValueId k = n.node("mul", {part(1, {0, 2, 3, 1}), n.number(0.5)});
  const ValueId mixed = n.node("matmul", {n.node("softmax", {n.node("matmul", {q, k})}), part(2, {0, 2, 1, 3})});
  const ValueId joined = n.node("reshape", {n.node("transpose", {mixed}, {{"perm", Ints{0, 2, 1, 3}}})},
                                {{"shape", Ints{2, length, width}}});
  const ValueId y =
      n.node("layer_norm", {n.node("add", {x, linear(joined, width)}), n.input({width}), n.input({width})});
  return n.finish(n.node("reduce_mean", {n.node("mul", {y, y})}, {{"keepdims", int64_t{0}}}));
}

}  // namespace tw::testing
