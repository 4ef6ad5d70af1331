// Iteration spaces and the classes that follow from them.
#include "dataflow/iteration_space.h"

#include <gtest/gtest.h>

#include "tests/dataflow/one_operator.h"

namespace tw::dataflow::test {
namespace {

struct Classified {
  const char* op;
  std::vector<TensorType> inputs;
  Attrs attrs;
  OperatorClass wanted;
  const char* space;
};

constexpr OperatorClass kContraction = OperatorClass::kContraction, kNormalization = OperatorClass::kNormalization,
                        kElementwise = OperatorClass::kElementwise;
const TensorType kImage = f32({2, 6, 9, 9});

const Classified kOperators[] = {
    {"matmul", {f32({5, 7}), f32({7, 11})}, {}, kContraction, "5 x 11 special, 7 reduction"},
    {"matmul", {f32({3, 5, 7}), f32({3, 7, 11})}, {}, kContraction, "3 independent, 5 x 11 special, 7 reduction"},
    {"matmul", {f32({3, 5, 7}), f32({7, 11})}, {}, kContraction, "3 x 5 x 11 special, 7 reduction"},
    {"matmul", {f32({1, 7}), f32({7, 1})}, {}, kContraction, "1 x 1 special, 7 reduction"},
    {"matmul", {f32({7}), f32({7})}, {}, kNormalization, "7 reduction"},
    {"matmul_integer",
     {of_type(DataType(ScalarType::kU8), {5, 7}), of_type(DataType(ScalarType::kI8), {7, 11})},
     {},
     kContraction,
     "5 x 11 special, 7 reduction"},
    {"conv",
     {kImage, f32({8, 6, 3, 3}), f32({8})},
     {{"pads", Ints{1, 1, 1, 1}}},
     kContraction,
     "2 x 8 x 9 x 9 special, 6 x 3 x 3 reduction"},
    {"conv",
     {kImage, f32({6, 1, 3, 3})},
     {{"group", int64_t{6}}},
     kContraction,
     "6 independent, 2 x 7 x 7 special, 3 x 3 reduction"},
    {"conv_transpose",
     {kImage, f32({6, 4, 2, 2})},
     {{"strides", Ints{2, 2}}},
     kContraction,
     "2 x 4 x 18 x 18 special, 6 x 2 x 2 reduction"},
    {"softmax", {f32({3, 8, 10})}, {}, kNormalization, "3 x 8 independent, 10 reduction"},
    {"log_softmax", {f32({8, 10})}, {{"axis", int64_t{0}}}, kNormalization, "10 independent, 8 reduction"},
    {"layer_norm", {f32({8, 10}), f32({10}), f32({10})}, {}, kNormalization, "8 independent, 10 reduction"},
    {"rms_norm", {f32({8, 10}), f32({10})}, {}, kNormalization, "8 independent, 10 reduction"},
    {"reduce_sum", {f32({8, 10})}, {{"axes", Ints{0}}}, kNormalization, "10 independent, 8 reduction"},
    {"arg_max", {f32({8, 10})}, {{"axis", int64_t{1}}}, kNormalization, "8 independent, 10 reduction"},
    {"global_avg_pool", {kImage}, {}, kNormalization, "2 x 6 independent, 9 x 9 reduction"},
    {"max_pool",
     {kImage},
     {{"kernel_shape", Ints{3, 3}}},
     kNormalization,
     "2 x 6 x 7 x 7 independent, 3 x 3 reduction"},
    {"batch_norm", {kImage, f32({6}), f32({6}), f32({6}), f32({6})}, {}, kElementwise, "2 x 6 x 9 x 9 independent"},
    {"add", {f32({8, 10}), f32({10})}, {}, kElementwise, "8 x 10 independent"},
    {"relu", {f32({8, 10})}, {}, kElementwise, "8 x 10 independent"},
    {"gelu", {f32({8, 10})}, {}, kElementwise, "8 x 10 independent"},
    {"transpose", {f32({8, 10})}, {{"perm", Ints{1, 0}}}, kElementwise, "10 x 8 independent"},
    {"concat", {f32({8, 10}), f32({8, 2})}, {{"axis", int64_t{1}}}, kElementwise, "8 x 12 independent"},
    {"gather", {f32({50, 10}), of_type(DataType::i64(), {7})}, {}, kElementwise, "7 x 10 independent"},
    {"pad", {f32({8, 10})}, {{"pads", Ints{0, 1, 0, 1}}}, kElementwise, "8 x 12 independent"},
    {"cast", {f32({8, 10})}, {{"to", std::string("f16")}}, kElementwise, "8 x 10 independent"},
};

TEST(IterationSpace, DecidesTheClass) {
  for (const Classified& c : kOperators) {
    const Operator o = operator_of(c.op, c.inputs, c.attrs);
    EXPECT_EQ(name_of(o.operator_class), name_of(c.wanted)) << c.op << ": " << to_string(o.space);
    EXPECT_EQ(to_string(o.space), c.space) << c.op;
  }
}

TEST(IterationSpace, SaysWhetherAReductionIsApplied) {
  const auto reduction = [](const Operator& o) { return o.space.with(AxisRole::kReduction).at(0); };
  const SpaceAxis of_softmax = reduction(operator_of("softmax", {f32({8, 10})}));
  EXPECT_TRUE(of_softmax.is_applied);
  EXPECT_EQ(of_softmax.name, "i1");
  const SpaceAxis of_sum = reduction(operator_of("reduce_sum", {f32({8, 10})}, {{"axes", Ints{1}}}));
  EXPECT_FALSE(of_sum.is_applied);
  EXPECT_EQ(of_sum.name, "r0");
}

// dx = d - mean of (d * gamma) over the row: a sum of products, but a statistic of the rows that it changes.
TEST(IterationSpace, OfAStatisticOfProductsIsANormalization) {
  te::Builder builder;
  const te::Tensor d = builder.placeholder("d", DataType::f32(), {8, 10});
  const te::Tensor gamma = builder.placeholder("gamma", DataType::f32(), {10});
  const te::Tensor sum = builder.reduce("sum", {8}, {10}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return d({i[0], r[0]}) * gamma({r[0]});
  });
  EXPECT_EQ(class_of(space_of(builder.finish("p", {sum}))), kContraction);  // a matrix times a vector
  const te::Tensor dx = builder.compute("dx", {8, 10}, [&](const auto& i) { return d(i) - sum({i[0]}); });
  EXPECT_EQ(class_of(space_of(builder.finish("p", {dx}))), kNormalization);
}

// y = x w + x of a square w, and x is computed before: the axes of the sum are those of y, not the summed ones.
TEST(IterationSpace, KeepsAxesOfOneComputeApart) {
  te::Builder builder;
  const te::Tensor z = builder.placeholder("z", DataType::f32(), {8, 10});
  const te::Tensor w = builder.placeholder("w", DataType::f32(), {10, 10});
  const te::Tensor x = builder.compute("x", {8, 10}, [&](const auto& i) { return z(i) + float_imm(1); });
  const te::Tensor xw = builder.reduce("xw", {8, 10}, {10}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Tensor y = builder.compute("y", {8, 10}, [&](const auto& i) { return xw(i) + x(i); });
  const IterationSpace space = space_of(builder.finish("p", {y}));
  EXPECT_EQ(to_string(space), "8 x 10 special, 10 reduction");
  EXPECT_EQ(class_of(space), kContraction);
}

}  // namespace
}  // namespace tw::dataflow::test
