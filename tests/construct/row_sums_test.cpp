// Rows that are reduced, beside sums of their columns: one kernel for the rows, one that adds the parts, on every
// target, and what both compute is what the te program says.
#include "schedule/match/row_sums.h"

#include <gtest/gtest.h>

#include "schedule/match/one_kernel.h"
#include "te/join_outputs.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

// The gradient of a norm's input, and those of its scale and bias. What else leaves: the gradient in 16 bits, and the
// sums of it, as of a bias before the norm.
struct Norm {
  int64_t rows, n;
  DataType type = DataType::f32();
  bool leaves_rounded = false;
  bool sums_result = false;
  bool knows_statistics = true;  // else they are computed again
};

Expr wide(const Expr& x) { return cast(DataType::f32(), x); }

class NormGradient {
 public:
  explicit NormGradient(const Norm& in) : in_(in) {}

  te::Program program() {
    const te::Tensor h = b_.compute("h", x_.shape, [&](const auto& i) { return wide(dy_(i)) * scale_({i[1]}); });
    const te::Tensor normal = in_.knows_statistics ? with_known() : with_computed();
    const te::Tensor of_h = row_mean("of_h", [&](const auto& at) { return h(at); });
    const te::Tensor of_both = row_mean("of_both", [&](const auto& at) { return h(at) * normal(at); });
    const te::Tensor dx = b_.compute("dx", x_.shape, [&](const auto& i) {
      return inverse_({i[0]}) * (h(i) - of_h({i[0]}) - normal(i) * of_both({i[0]}));
    });
    std::vector<te::Tensor> out = {dx};
    if (in_.leaves_rounded)
      out.push_back(b_.compute("rounded", x_.shape, [&](const auto& i) { return cast(DataType::bf16(), dx(i)); }));
    const te::Tensor product = b_.compute("product", x_.shape, [&](const auto& i) { return wide(dy_(i)) * normal(i); });
    const te::Tensor known = b_.compute("known", x_.shape, [&](const auto& i) { return wide(dy_(i)); });
    out.push_back(column_sum("dscale", product));
    out.push_back(column_sum("dbias", known));
    if (in_.sums_result) out.push_back(column_sum("dbefore", dx));
    return merged(te::join_outputs(te::join_sums(b_.finish("norm", out))));
  }

 private:
  template <typename Value>
  te::Tensor row_mean(const std::string& name, const Value& value) {
    const te::Tensor sum =
        b_.reduce(name + "_sum", {in_.rows}, {in_.n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return value(std::vector<Expr>{i[0], r[0]});
        });
    return b_.compute(name, {in_.rows}, [&](const auto& i) { return sum(i) * float_imm(1.0 / 64); });
  }

  te::Tensor column_sum(const std::string& name, const te::Tensor& of) {
    return b_.reduce(name, {in_.n}, {in_.rows}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return of({r[0], i[0]});
    });
  }

  te::Tensor with_known() {
    const te::Tensor mean = b_.placeholder("mean", DataType::f32(), {in_.rows});
    inverse_ = b_.placeholder("inverse", DataType::f32(), {in_.rows});
    return b_.compute("normal", x_.shape,
                      [&](const auto& i) { return (wide(x_(i)) - mean({i[0]})) * inverse_({i[0]}); });
  }

  te::Tensor with_computed() {
    const te::Tensor mean = row_mean("mean", [&](const auto& at) { return wide(x_(at)); });
    const te::Tensor centred =
        b_.compute("centred", x_.shape, [&](const auto& i) { return wide(x_(i)) - mean({i[0]}); });
    const te::Tensor squares = row_mean("squares", [&](const auto& at) { return centred(at) * centred(at); });
    inverse_ = b_.compute("inverse", {in_.rows},
                          [&](const auto& i) { return float_imm(1) / call("sqrt", {squares(i) + float_imm(1)}); });
    return b_.compute("normal", x_.shape, [&](const auto& i) { return centred(i) * inverse_({i[0]}); });
  }

  Norm in_;
  te::Builder b_;
  te::Tensor dy_ = b_.placeholder("dy", in_.type, {in_.rows, in_.n}),
             x_ = b_.placeholder("x", in_.type, {in_.rows, in_.n});
  te::Tensor scale_ = b_.placeholder("scale", DataType::f32(), {in_.n});
  te::Tensor inverse_;
};

te::Program gradient(const Norm& in) { return NormGradient(in).program(); }

std::vector<Norm> norms() {
  const DataType bf16 = DataType::bf16();
  return {{16, 64},
          {16, 64, DataType::f32(), false, true},
          {12, 96, DataType::f32(), true, true, false},
          {32, 128, bf16, true, true},
          {18, 256, bf16, true, false, false}};
}

void expect_two_kernels(const Norm& in, const std::string& target) {
  const te::Program program = gradient(in);
  SCOPED_TRACE(target + "\n" + te::to_string(program));
  const targets::Target t = targets::find_target(target);
  const GroupTask task{program, {}};
  for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
    const te::Program stored = te::apply_layouts(program, c.constant_layouts);
    EXPECT_EQ(schedule::apply(stored, c.schedule).kernels.size(), 2U) << schedule::to_string(c.schedule);
  }
  check(task, target, "row-sums", in.leaves_rounded ? 1e-2 : 1e-3);
}

TEST(RowSums, OfNormsOnCpus) {
  for (const Norm& in : norms()) {
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) expect_two_kernels(in, target);
  }
}

TEST(RowSums, OfNormsOnGpus) {
  for (const Norm& in : norms()) {
    for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) expect_two_kernels(in, target);
  }
}

// One value as both operands.
TEST(RowSums, OfOneValueTwice) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {16, 64});
  const te::Tensor norm = b.reduce("norm", {16}, {64}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * x({i[0], r[0]});
  });
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return x(i) * norm({i[0]}); });
  const te::Tensor product = b.compute("product", x.shape, [&](const auto& i) { return y(i) * x(i); });
  const te::Tensor sum = b.reduce("sum", {64}, {16}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return product({r[0], i[0]});
  });
  const te::Program p = merged(te::join_outputs(te::join_sums(b.finish("p", {y, sum}))));
  for (const char* target : {"cpu:x86-64-v3", "cuda:sm_80"}) check({p, {}}, target, "row-sums", 1e-3);
}

TEST(RowSums, OneKernelForWhatLeaves) {
  const Result<schedule::Beside> beside = schedule::one_kernel(gradient({16, 64, DataType::f32(), true, true}));
  ASSERT_TRUE(beside.ok()) << beside.reason();
  EXPECT_EQ(*beside, schedule::Beside::kRowSums);
}

TEST(RowSums, DeclinesWhatThreadsCannotShare) {
  schedule::Schedule s;
  EXPECT_NE(schedule::match_row_sums(s, gradient({16, 50})).reason().find("no equal shares"), std::string::npos);
  EXPECT_TRUE(s.primitives().empty());
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {16, 64});
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return x(i) + float_imm(1); });
  const te::Tensor sum = b.reduce("sum", {64}, {16}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return y({r[0], i[0]});
  });
  EXPECT_NE(schedule::match_row_sums(s, b.finish("p", {y, sum})).reason().find("no row is reduced"), std::string::npos);
}

// As of a table of positions: the sum over a batch, and the squares of its lines for a norm over all gradients.
TEST(RowSums, SumsOfRowsAndOfTheirElementsAreApartWhereBlocksShareARow) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {4, 6, 64});
  const te::Tensor sum = b.reduce("sum", {6, 64}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({r[0], i[0], i[1]});
  });
  const te::Tensor squares = b.reduce("squares", {6}, {64}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return sum({i[0], r[0]}) * sum({i[0], r[0]});
  });
  const te::Program both = b.finish("positions", {sum, squares});
  EXPECT_TRUE(schedule::one_kernel(both).ok());
  EXPECT_FALSE(schedule::one_kernel(both, schedule::Combines::kRowsAlone).ok());
}

}  // namespace
}  // namespace tw::construct
