// Counts of operators that were counted by hand, and those of the forward half of the paper's encoder layer.
#include "dataflow/work.h"

#include <gtest/gtest.h>

#include "tests/dataflow/one_operator.h"

namespace tw::dataflow::test {
namespace {

TEST(Work, OfAMatrixProduct) {
  const Operator o = operator_of("matmul", {f32({5, 7}), f32({7, 11})});
  EXPECT_EQ(o.flop, 2 * 5 * 7 * 11);
  EXPECT_EQ(o.words_read, 5 * 7 + 7 * 11);
  EXPECT_EQ(o.words_written, 5 * 11);
  EXPECT_DOUBLE_EQ(o.flop_per_word(), 770.0 / (35 + 77 + 55));
}

// Of each element: the largest is subtracted, exp, a sum, a product; of each row: a division.
TEST(Work, OfASoftmax) {
  const Operator o = operator_of("softmax", {f32({6, 10})});
  EXPECT_EQ(o.flop, 4 * 60 + 6);
  EXPECT_EQ(o.words_read, 60);
  EXPECT_EQ(o.words_written, 60);
}

// Of each element: a sum; x - mean, its square, a sum; three operations on x - mean, which is there already. Of each
// row: two divisions by the count; epsilon, root and reciprocal.
TEST(Work, OfALayerNorm) {
  const Operator o = operator_of("layer_norm", {f32({6, 10}), f32({10}), f32({10})});
  EXPECT_EQ(o.flop, 7 * 60 + 5 * 6);
  EXPECT_EQ(o.words_read, 60 + 10 + 10);
  EXPECT_EQ(o.words_written, 60);
}

TEST(Work, OfAConvolutionOfStride2) {
  const Operator o = operator_of("conv", {f32({2, 3, 9, 9}), f32({8, 3, 3, 3}), f32({8})},
                                 {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  const int64_t outputs = 2 * 8 * 5 * 5;
  EXPECT_EQ(o.flop, outputs * (2 * 27 + 1));  // and the bias
  EXPECT_EQ(o.words_read, 2 * 3 * 81 + 8 * 27 + 8);
  EXPECT_EQ(o.words_written, outputs);
}

// Each element meets each weight of its channel once; products with zeros between elements are none.
TEST(Work, OfATransposedConvolution) {
  const Operator o = operator_of("conv_transpose", {f32({2, 6, 9, 9}), f32({6, 4, 2, 2})}, {{"strides", Ints{2, 2}}});
  EXPECT_EQ(o.flop, 2 * (2 * 6 * 81) * (4 * 2 * 2));
}

TEST(Work, OfATranspose) {
  const Operator o = operator_of("transpose", {f32({4, 5, 6})}, {{"perm", Ints{2, 0, 1}}});
  EXPECT_EQ(o.flop, 0);
  EXPECT_EQ(o.words_read, 120);
  EXPECT_EQ(o.words_written, 120);
  EXPECT_FALSE(o.is_view);
}

TEST(Work, OfAViewIsNone) {
  const Operator o = operator_of("reshape", {f32({4, 6})}, {{"shape", Ints{2, 12}}});
  EXPECT_TRUE(o.is_view);
  EXPECT_EQ(o.words(), 0);
  EXPECT_EQ(o.flop_per_word(), 0);
}

TEST(Work, ReadsOnlyWhatIsUsed) {
  const Operator slice =
      operator_of("slice", {f32({10, 8})}, {{"starts", Ints{2, 0}}, {"steps", Ints{2, 1}}, {"extents", Ints{2, 8}}});
  EXPECT_EQ(slice.words_read, 2 * 8);
  const Operator gather = operator_of("gather", {f32({1000, 8}), of_type(DataType::i64(), {5})});
  EXPECT_EQ(gather.words_read, 5 * 8 + 5);
  EXPECT_EQ(gather.flop, 0);  // what makes an index is none
  const Operator points = operator_of("conv", {f32({1, 4, 8, 8}), f32({6, 4, 1, 1})}, {{"strides", Ints{2, 2}}});
  EXPECT_EQ(points.words_read, 4 * 16 + 24);
}

TEST(Work, OfAValueThatIsSeveralOperandsIsReadOnce) {
  graph::Graph g;
  const graph::ValueId x = g.add_input("x", f32({7, 7}));
  g.outputs = {graph::test::add(g, "matmul", {x, x})};
  const Dataflow flow = analyze(g, graph::test::table());
  EXPECT_EQ(flow.operators[0].words_read, 49);
  EXPECT_EQ(flow.operators[0].operator_class, OperatorClass::kContraction);
  EXPECT_EQ(flow.edges.size(), 2u);
}

// Of y = x > 0 ? exp x : 2 x only the product, which no other tensor holds.
TEST(Work, OfWhatElementsDecideIsNone) {
  te::Builder builder;
  const te::Tensor x = builder.placeholder("x", DataType::f32(), {8});
  const te::Tensor exact = builder.compute("exact", {8}, [&](const auto& i) { return call("exp", {x(i)}); });
  const te::Tensor y = builder.compute(
      "y", {8}, [&](const auto& i) { return select(float_imm(0) < x(i), exact(i), x(i) * float_imm(2)); });
  const te::Program program = builder.finish("p", {y});
  EXPECT_TRUE(is_read_on_demand(program, "exact"));
  EXPECT_FALSE(is_read_on_demand(program, "x"));
  EXPECT_EQ(flop_of(program), 8);
}

// A product with what is kept; the words that say which are drawn, and drawing is no flop.
TEST(Work, OfADropout) {
  const TensorType number = of_type(DataType::i64(), {});
  const Operator o = operator_of("dropout", {f32({6, 10}), number, number}, {{"ratio", 0.1}});
  EXPECT_EQ(o.flop, 60);
  EXPECT_EQ(o.words_read, 60 + 2);
  EXPECT_EQ(o.words_written, 60);
  EXPECT_EQ(o.operator_class, OperatorClass::kElementwise);
}

TEST(Work, ChoicesAndSignsAreNoFlop) {
  for (const char* op : {"relu", "abs", "neg", "sign", "floor"}) EXPECT_EQ(operator_of(op, {f32({12})}).flop, 0) << op;
  EXPECT_EQ(operator_of("less", {f32({12}), f32({12})}).flop, 0);
  EXPECT_EQ(operator_of("reduce_max", {f32({3, 4})}, {{"axes", Ints{1}}}).flop, 0);
  EXPECT_EQ(operator_of("exp", {f32({12})}).flop, 12);
  EXPECT_EQ(operator_of("reduce_sum", {f32({3, 4})}, {{"axes", Ints{1}}}).flop, 12);
}

// 2^30 flop, as table III of the paper has them, and 10^6 words without the digits behind the first.
constexpr double kGflop = 1 << 30;
double mega(int64_t words) { return static_cast<double>(words / 100'000) / 10; }

struct Row {
  const char* what;
  Operator o;
  double gflop, read, written;  // table III
};

// BERT-large: 8 x 512 tokens, 1024 channels, 16 heads of 64.
TEST(Work, OfTheEncoderLayerOfThePaper) {
  const TensorType tokens = f32({4096, 1024}), hidden = f32({4096, 4096});
  const TensorType heads = f32({8, 16, 512, 64}), keys = f32({8, 16, 64, 512}), scores = f32({8, 16, 512, 512});
  const Row rows[] = {
      {"Q, K, V", operator_of("matmul", {tokens, f32({1024, 3072})}), 24, 7.3, 12.5},
      {"input bias", operator_of("add", {f32({4096, 3072}), f32({3072})}), 0.012, 12.5, 12.5},
      {"QKT", operator_of("matmul", {heads, keys}), 4, 8.3, 33.5},
      {"gamma", operator_of("matmul", {scores, heads}), 4, 37.7, 4.1},
      {"out", operator_of("matmul", {tokens, f32({1024, 1024})}), 8, 5.2, 4.1},
      {"output bias", operator_of("add", {tokens, f32({1024})}), 0.004, 4.1, 4.1},
      {"residual", operator_of("add", {tokens, tokens}), 0.004, 8.3, 4.1},
      {"layer norm", operator_of("layer_norm", {tokens, f32({1024}), f32({1024})}), 0.027, 4.1, 4.1},
      {"linear 1", operator_of("matmul", {tokens, f32({1024, 4096})}), 32, 8.3, 16.7},
      {"bias 1", operator_of("add", {hidden, f32({4096})}), 0.016, 16.7, 16.7},
      {"ReLU", operator_of("relu", {hidden}), 0, 16.7, 16.7},
      {"linear 2", operator_of("matmul", {hidden, f32({4096, 1024})}), 32, 20.9, 4.1},
      // Backward: sums over tokens, and products of the two other operands.
      {"bias 1 dW", operator_of("reduce_sum", {hidden}, {{"axes", Ints{0}}}), 0.016, 16.7, 0},
      {"linear 1 dW", operator_of("matmul", {f32({1024, 4096}), hidden}), 32, 20.9, 4.1},
  };
  for (const Row& row : rows) {
    EXPECT_NEAR(row.o.flop / kGflop, row.gflop, 0.0005) << row.what;
    EXPECT_NEAR(mega(row.o.words_read), row.read, 0.01) << row.what;
    EXPECT_NEAR(mega(row.o.words_written), row.written, 0.01) << row.what;
  }
}

// Scaling, softmax and the product with the mask of dropout, which are one operator in the paper: 0.188 Gflop on 33.5 M
// words. Three times as many are written where scaled scores stay, too; in the paper it is the mask.
TEST(Work, OfTheScaledSoftmaxOfThePaper) {
  using graph::test::add;
  graph::Graph body;
  body.name = "scaled_softmax";
  const TensorType scores = f32({8, 16, 512, 512});
  const graph::ValueId x = body.add_input("x", scores), factor = body.add_input("factor", f32({}));
  const graph::ValueId mask = body.add_input("mask", scores);
  const graph::ValueId scaled = add(body, "mul", {x, factor}), softmax = add(body, "softmax", {scaled});
  body.outputs = {scaled, softmax, add(body, "mul", {softmax, mask})};
  graph::Graph g;
  const std::vector<graph::ValueId> inputs = {g.add_input("x", scores), g.add_input("factor", f32({})),
                                              g.add_input("mask", scores)};
  g.outputs =
      g.add_node({.op = "group", .name = "sm", .inputs = inputs, .body = std::make_shared<const graph::Graph>(body)},
                 {scores, scores, scores});
  const Operator o = analyze(g, graph::test::table()).operators.at(0);
  EXPECT_NEAR(o.flop / kGflop, 0.188, 0.0006);
  EXPECT_EQ(mega(o.words_written), 100.6);
  EXPECT_EQ(mega(o.words_read), 67.1);  // 33.5 and the mask, which the paper's operator draws itself
  EXPECT_EQ(o.operator_class, OperatorClass::kNormalization);
}

}  // namespace
}  // namespace tw::dataflow::test
