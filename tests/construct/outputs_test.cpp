// Groups with several outputs: one kernel has all of them, on every target, and computes what the te program says.
#include <gtest/gtest.h>

#include "lower/pass.h"
#include "te/join_outputs.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

constexpr double kRounded = 1e-5;

Expr wide(const Expr& x) { return cast(DataType::f32(), x); }

te::Program as_driver(const te::Program& program) { return merged(te::join_outputs(program)); }

size_t kernels_of(const te::Program& program, const Construction& built) {
  return schedule::apply(te::apply_layouts(program, built.constant_layouts), built.schedule).kernels.size();
}

void expect_kernels(const te::Program& program, const std::string& target, const std::string& family, size_t kernels,
                    double tolerance = kRounded) {
  SCOPED_TRACE(target + "\n" + te::to_string(program));
  const targets::Target t = targets::find_target(target);
  const GroupTask task{program, {"w"}};
  const Candidates candidates = construct(t.families, task, t.info, nullptr);
  ASSERT_FALSE(candidates.empty());
  EXPECT_EQ(kernels_of(program, candidates.front()), kernels) << schedule::to_string(candidates.front().schedule);
  check(task, target, family, tolerance);
}

// A product with bias, and its ReLU or GELU; the product or the sum leaves, too.
struct Activation {
  int64_t m, n, k;
  DataType type = DataType::f32();
  bool with_bias = true;
  bool costly = false;
};

te::Program activation(const Activation& in) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", in.type, {in.m, in.k});
  const te::Tensor w = b.placeholder("w", in.type, {in.k, in.n});
  const te::Tensor bias = b.placeholder("bias", in.type, {in.n});
  const te::Tensor sum =
      b.reduce("sum", {in.m, in.n}, {in.k}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return wide(x({i[0], r[0]})) * wide(w({r[0], i[1]}));
      });
  const te::Tensor pre = b.compute("pre", sum.shape, [&](const auto& i) {
    return cast(in.type, in.with_bias ? sum(i) + wide(bias({i[1]})) : sum(i));
  });
  const te::Tensor y = b.compute("y", sum.shape, [&](const auto& i) {
    const Expr value = wide(pre(i));
    return cast(in.type, in.costly ? value * call("tanh", {value}) : max(value, imm(DataType::f32(), 0)));
  });
  return as_driver(b.finish("activation", {pre, y}));
}

TEST(Outputs, PreActivationsLeaveTheirTilesOnCpus) {
  for (const Activation& in :
       {Activation{7, 20, 5}, Activation{33, 48, 16}, Activation{33, 48, 16, DataType::f32(), false},
        Activation{8, 32, 9, DataType::f32(), true, true}}) {
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"})
      expect_kernels(activation(in), target, "contraction", 1);
  }
}

TEST(Outputs, PreActivationsLeaveTheirTilesOnGpus) {
  for (const Activation& in : {Activation{40, 48, 32}, Activation{33, 31, 17}})
    expect_kernels(activation(in), "cuda:sm_80", "contraction", 1);
  expect_kernels(activation({32, 48, 32, DataType::bf16(), true, true}), "cuda:sm_80", "contraction", 1, 1e-2);
  expect_kernels(activation({32, 64, 64, DataType::f16()}), "cuda:sm_90a", "contraction", 1, 1e-2);
}

// Rows of which the mean and the inverse deviation leave, too.
te::Program layer_norm(int64_t rows, int64_t n, bool keeps_data) {
  te::Builder b;
  const te::Tensor a = b.placeholder("a", DataType::f32(), {rows, n});
  const te::Tensor c = b.placeholder("c", DataType::f32(), {rows, n});
  const te::Tensor scale = b.placeholder("scale", DataType::f32(), {n});
  const te::Tensor x = b.compute("x", a.shape, [&](const auto& i) { return a(i) + c(i); });
  const Expr count = float_imm(static_cast<double>(n));
  const te::Tensor sum = b.reduce("sum", {rows, 1}, {n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]});
  });
  const te::Tensor mean = b.compute("mean", {rows, 1}, [&](const auto& i) { return sum(i) / count; });
  const te::Tensor squares =
      b.reduce("squares", {rows, 1}, {n}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        const Expr centred = x({i[0], r[0]}) - mean(i);
        return centred * centred;
      });
  const te::Tensor inverse = b.compute("inverse", {rows, 1}, [&](const auto& i) {
    return float_imm(1) / call("sqrt", {squares(i) / count + float_imm(1e-3)});
  });
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) {
    return (x(i) - mean({i[0], int_imm(0)})) * inverse({i[0], int_imm(0)}) * scale({i[1]});
  });
  const std::vector<te::Tensor> statistics = {y, mean, inverse};
  const std::vector<te::Tensor> with_data = {x, y, mean, inverse};
  return as_driver(b.finish("layer_norm", keeps_data ? with_data : statistics));
}

TEST(Outputs, StatisticsLeaveBesideTheirRows) {
  for (const bool keeps_data : {false, true}) {
    for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
      for (const auto& [rows, n] : {std::pair{6, 40}, {8, 64}, {5, 33}})
        expect_kernels(layer_norm(rows, n, keeps_data), target, "rows", 1);
    }
    for (const auto& [rows, n] : {std::pair{6, 64}, {5, 100}, {3, 2048}})
      expect_kernels(layer_norm(rows, n, keeps_data), "cuda:sm_80", "rows", 1);
  }
}

// A statistic that nothing else reads, and one of data that leaves as it is.
TEST(Outputs, SumsOfRowsBesideTheRows) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {8, 64});
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return max(x(i), float_imm(0)); });
  const te::Tensor s = b.reduce("s", {8}, {64}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return y({i[0], r[0]});
  });
  const te::Program p = as_driver(b.finish("p", {y, s}));
  expect_kernels(p, "cpu:x86-64-v3", "rows", 1);
  expect_kernels(p, "cuda:sm_80", "rows", 1);
}

// Places of a pooling, which own the rows, beside fewer elements of the same rows: as many outputs as the pooling has.
TEST(Outputs, PlacesOfAPoolingBesideFewerElements) {
  te::Builder b;
  const te::Tensor a = b.placeholder("a", DataType::f32(), {5, 3, 11});
  const te::Tensor sum = b.reduce("sum", {5}, {3, 11}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return a({i[0], r[0], r[1]});
  });
  const te::Tensor off = b.compute("off", a.shape, [&](const auto& i) { return a(i) - sum({i[0]}); });
  te::Combiner largest{te::CombinerKind::kTuple, {float_imm(-1e9), int_imm(99)}, {"v", "k"}, {"w", "l"}, {}};
  const Expr v = var("v", DataType::f32()), w = var("w", DataType::f32()), k = var("k"), l = var("l");
  const Expr keep = w < v || (w == v && k <= l);
  largest.result = {select(keep, v, w), select(keep, k, l)};
  const auto pool = b.reduce_tuple({"value", "place"}, a.shape, {1}, largest, [&](const auto& i, const auto& r) {
    return std::vector<Expr>{off({i[0], i[1], i[2] + r[0]}), i[2] + r[0]};
  });
  const te::Tensor few = b.compute("few", {5, 3, 5}, [&](const auto& i) {
    return off({i[0], i[1], i[2] * int_imm(2)});
  });
  const te::Program p = as_driver(b.finish("places", {few, pool[1]}));
  for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) check({p, {}}, target, "generic");
  check({p, {}}, "cuda:sm_80", "point");
}

te::Program column_sums(int64_t rows, int64_t n, DataType type, bool mean) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", type, {rows, n});
  const te::Tensor g = b.placeholder("g", type, {rows, n});
  const te::Tensor v = b.compute(
      "v", x.shape, [&](const auto& i) { return cast(type, max(wide(x(i)), imm(DataType::f32(), 0)) * wide(g(i))); });
  const te::Tensor s = b.reduce("s", {n}, {rows}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return wide(v({r[0], i[0]}));
  });
  const te::Tensor z = b.compute("z", s.shape, [&](const auto& i) { return s(i) * float_imm(0.125); });
  return as_driver(b.finish("column_sums", {v, mean ? z : s}));
}

TEST(Outputs, ColumnSumsBesideTheirValueInParts) {
  for (const bool mean : {false, true}) {
    for (const auto& [rows, n] : {std::pair{64, 48}, {48, 33}, {24, 130}}) {
      expect_kernels(column_sums(rows, n, DataType::f32(), mean), "cpu:x86-64-v3", "sums", 1);
      expect_kernels(column_sums(rows, n, DataType::f32(), mean), "cpu:x86-64-v4", "sums", 1);
    }
    expect_kernels(column_sums(1 << 10, 96, DataType::f32(), mean), "cpu:x86-64-v3", "sums", 2);
    expect_kernels(column_sums(256, 48, DataType::f32(), mean), "cuda:sm_80", "sums", 2);
    expect_kernels(column_sums(64, 40, DataType::f16(), mean), "cuda:sm_80", "sums", 2, 1e-2);
  }
  expect_kernels(column_sums(7, 36, DataType::f32(), false), "cuda:sm_80", "sums", 1);
  for (const int64_t width : {7, 33, 77}) {
    expect_kernels(column_sums(40, width, DataType::f32(), width == 33), "cuda:sm_80", "sums", 2);
    expect_kernels(column_sums(40, width, DataType::f16(), width == 33), "cuda:sm_90a", "sums", 2, 1e-2);
  }
}

TEST(Outputs, SiblingsAreOneKernel) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {9, 44});
  const te::Tensor y = b.compute("y", x.shape, [&](const auto& i) { return max(x(i), float_imm(0)); });
  const te::Tensor z = b.compute("z", x.shape, [&](const auto& i) { return call("tanh", {x(i)}); });
  const te::Tensor t = b.compute("t", x.shape, [&](const auto& i) { return y(i) * y(i) + z(i); });
  const te::Program p = as_driver(b.finish("siblings", {y, z, t}));
  expect_kernels(p, "cpu:x86-64-v3", "generic", 1);
  expect_kernels(p, "cuda:sm_80", "point", 1);
}

// Pooling over channels that lie last, with what follows it point by point.
TEST(Outputs, PoolsAndTheirActivation) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {8, 8, 32});
  const te::Tensor p = b.reduce("pool", {4, 4, 32}, {2, 2}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return x({i[0] * Expr(2) + r[0], i[1] * Expr(2) + r[1], i[2]});
  });
  const te::Tensor y = b.compute("y", p.shape, [&](const auto& i) { return call("tanh", {p(i)}); });
  const te::Program program = as_driver(b.finish("pool", {p, y}));
  expect_kernels(program, "cpu:x86-64-v3", "columns", 1);
  expect_kernels(program, "cuda:sm_80", "columns", 1);
}

// Rows of a product that a reduction combines, and that leave.
TEST(Outputs, RowsOfProductsLeaveBesideTheirMean) {
  for (const int64_t rows : {32, 256}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), {3, rows, 32});
    const te::Tensor w = b.placeholder("w", DataType::f16(), {32, 48});
    const te::Tensor sum =
        b.reduce("sum", {3, rows, 48}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return wide(x({i[0], i[1], r[0]})) * wide(w({r[0], i[2]}));
        });
    const te::Tensor y = b.compute(
        "y", sum.shape, [&](const auto& i) { return cast(DataType::f16(), max(sum(i), imm(DataType::f32(), 0))); });
    const te::Tensor r = b.reduce("r", {3, 48}, {rows}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return wide(y({i[0], r[0], i[1]}));
    });
    const te::Tensor m =
        b.compute("m", r.shape, [&](const auto& i) { return r(i) / imm(DataType::f32(), double(rows)); });
    const te::Program p = as_driver(b.finish("means", {y, m}));
    expect_kernels(p, "cuda:sm_80", "reduced", rows > 128 ? 2 : 1, 1e-2);
  }
}

// The gradient of a bias beside what it is added to.
struct Combined {
  int64_t m, n, k;
  bool leaves = true, mean = false;
  te::CombinerKind kind = te::CombinerKind::kSum;
  bool of_itself = false;  // x times x
};

te::Program combined_rows(const Combined& in) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {in.m, in.k});
  const te::Tensor w = in.of_itself ? x : b.placeholder("w", DataType::f32(), {in.k, in.n});
  const te::Tensor bias = b.placeholder("bias", DataType::f32(), {in.n});
  const te::Tensor sum =
      b.reduce("sum", {in.m, in.n}, {in.k}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return x({i[0], r[0]}) * w({r[0], i[1]});
      });
  const te::Tensor y = b.compute("y", sum.shape, [&](const auto& i) { return sum(i) + bias({i[1]}); });
  const te::Tensor r = b.reduce("r", {in.n}, {in.m}, in.kind, [&](const auto& i, const auto& r) {
    return y({r[0], i[0]});
  });
  const te::Tensor z = b.compute("z", r.shape, [&](const auto& i) { return r(i) * float_imm(0.125); });
  const te::Tensor& last = in.mean ? z : r;
  const std::vector<te::Tensor> with_rows = {y, last}, alone = {last};
  return as_driver(b.finish("combined", in.leaves ? with_rows : alone));
}

TEST(Outputs, ColumnSumsBesideAProductOnCpus) {
  for (const char* target : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
    for (const bool leaves : {true, false}) {
      for (const Combined& in :
           {Combined{24, 48, 16, leaves}, Combined{35, 33, 7, leaves, true},
            Combined{64, 40, 9, leaves, false, te::CombinerKind::kMax}, Combined{13, 70, 5, leaves},
            Combined{32, 32, 32, leaves, false, te::CombinerKind::kSum, true}}) {
        SCOPED_TRACE(te::to_string(combined_rows(in)));
        check({combined_rows(in), {"w"}}, target, "reduced", kRounded);
        check({combined_rows(in), {}}, target, "reduced", kRounded);
      }
    }
    check({combined_rows({24, 48, 16}), {"w"}}, target, "reduced", kRounded, Values::kSpecial);
  }
}

}  // namespace
}  // namespace tw::construct
