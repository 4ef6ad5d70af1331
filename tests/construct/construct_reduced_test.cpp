// Contractions whose rows a reduction combines, in the tiles that compute them: every candidate computes what the te
// program says, whatever fills its tiles up.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

struct Images {
  int64_t count, height, width, channels, filters;
  DataType type = DataType::f16();
};

Expr wide(const Expr& x) { return cast(DataType::f32(), x); }

// What follows the rows: their mean or greatest element, scaled. `dims` of `y` from 1 on are rows, the last is columns.
te::Program finish(te::Builder& b, const te::Tensor& y, te::CombinerKind kind) {
  const auto rank = y.shape.size();
  const Shape rows(y.shape.begin() + 1, y.shape.end() - 1);
  const te::Tensor r = b.reduce("r", {y.shape[0], y.shape[rank - 1]}, rows, kind, [&](const auto& i, const auto& r) {
    std::vector<Expr> at = {i[0]};
    at.insert(at.end(), r.begin(), r.end());
    at.push_back(i[1]);
    return wide(y(at));
  });
  const te::Tensor z = b.compute("z", r.shape, [&](const auto& i) {
    const auto count = static_cast<double>(num_elements(rows));
    return cast(y.type, kind == te::CombinerKind::kSum ? r(i) / imm(DataType::f32(), count) : r(i));
  });
  return b.finish("reduced", {z});
}

// Zeros around the images would be positive after the bias: none may reach the mean.
te::Program pooled(const Images& in, te::CombinerKind kind) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", in.type, {in.count, in.height, in.width, in.channels});
  const te::Tensor w = b.placeholder("w", in.type, {in.filters, 3, 3, in.channels});
  const te::Tensor bias = b.placeholder("bias", in.type, {in.filters});
  const te::Tensor residual = b.placeholder("residual", in.type, {in.count, in.height, in.width, in.filters});
  const Shape padded{in.count, in.height + 2, in.width + 2, in.channels};
  const auto inside = [](const Expr& i, int64_t extent) { return i >= Expr(1) && i < Expr(extent + 1); };
  const te::Tensor p = b.compute("pad", padded, [&](const auto& i) {
    return select(inside(i[1], in.height) && inside(i[2], in.width), x({i[0], i[1] - Expr(1), i[2] - Expr(1), i[3]}),
                  imm(in.type, 0));
  });
  const te::Tensor acc =
      b.reduce("acc", {in.count, in.height, in.width, in.filters}, {in.channels, 3, 3}, te::CombinerKind::kSum,
               [&](const auto& i, const auto& r) {
                 return wide(p({i[0], i[1] + r[1], i[2] + r[2], r[0]})) * wide(w({i[3], r[1], r[2], r[0]}));
               });
  const te::Tensor y = b.compute("y", acc.shape, [&](const auto& i) {
    return cast(in.type, max(acc(i) + wide(bias({i[3]})) + wide(residual(i)), imm(DataType::f32(), 0)));
  });
  return finish(b, y, kind);
}

// Tokens; `y` is read twice by what follows the bias, as in a GELU.
te::Program tokens(const Shape& x_shape, int64_t columns, DataType type, te::CombinerKind kind) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", type, x_shape);
  const te::Tensor w = b.placeholder("w", type, {columns, x_shape[2]});
  const te::Tensor bias = b.placeholder("bias", type, {columns});
  const te::Tensor acc = b.reduce("acc", {x_shape[0], x_shape[1], columns}, {x_shape[2]}, te::CombinerKind::kSum,
                                  [&](const auto& i, const auto& r) {
                                    return wide(x({i[0], i[1], r[0]})) * wide(w({i[2], r[0]}));
                                  });
  const te::Tensor a = b.compute("a", acc.shape, [&](const auto& i) { return acc(i) + wide(bias({i[2]})); });
  const te::Tensor y =
      b.compute("y", acc.shape, [&](const auto& i) { return cast(type, a(i) * call("sigmoid", {a(i)})); });
  return finish(b, y, kind);
}

// Checks all candidates; returns their first lines of trace.
std::vector<std::string> check_reduced(const te::Program& program, const std::string& target, double tolerance) {
  const targets::Target t = targets::find_target(target);
  const GroupTask task{merged(program), {"w"}};
  std::vector<Decline> declines;
  std::vector<std::string> traces;
  for (const Construction& candidate : construct(t.families, task, t.info, &declines)) {
    EXPECT_EQ(candidate.family, "reduced") << (declines.empty() ? "" : declines.back().reason);
    traces.push_back(candidate.trace.front());
    SCOPED_TRACE(traces.back());
    check_candidate(task, t, candidate, tolerance);
  }
  return traces;
}

bool any_with(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(texts, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST(ConstructReduced, MeansOverThePixelsOfAConvolution) {
  const std::vector<std::string> whole =
      check_reduced(pooled({3, 7, 7, 16, 40}, te::CombinerKind::kSum), "cuda:sm_90a", 2e-2);
  EXPECT_TRUE(any_with(whole, "parts: 1")) << whole.front();
  EXPECT_TRUE(any_with(whole, "matrix instructions"));
  EXPECT_TRUE(
      any_with(check_reduced(pooled({1, 14, 14, 16, 24}, te::CombinerKind::kSum), "cuda:sm_80", 2e-2), "parts: 7"));
  check_reduced(pooled({2, 4, 50, 16, 24}, te::CombinerKind::kSum), "cuda:sm_90a", 2e-2);  // parts of one line
  check_reduced(pooled({2, 9, 13, 16, 24, DataType::bf16()}, te::CombinerKind::kMax), "cuda:sm_90a", 5e-2);
}

TEST(ConstructReduced, MeansOverTokens) {
  const std::vector<std::string> whole =
      check_reduced(tokens({2, 128, 64}, 64, DataType::f16(), te::CombinerKind::kSum), "cuda:sm_90a", 2e-2);
  EXPECT_TRUE(any_with(whole, "parts: 1"));
  EXPECT_TRUE(any_with(whole, "TMA"));
  const std::vector<std::string> parts =
      check_reduced(tokens({1, 256, 64}, 64, DataType::f16(), te::CombinerKind::kMax), "cuda:sm_90a", 2e-2);
  EXPECT_TRUE(any_with(parts, "parts: 4"));
  check_reduced(tokens({2, 30, 24}, 17, DataType::f16(), te::CombinerKind::kSum), "cuda:sm_90a", 2e-2);
  check_reduced(tokens({2, 100, 48}, 70, DataType::bf16(), te::CombinerKind::kSum), "cuda:sm_80", 5e-2);
}

// Of each token: its columns are the rows of the transposed product. Heads are a batch of products, each with weights.
TEST(ConstructReduced, RowsOfOtherProducts) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {40, 32});
  const te::Tensor v = b.placeholder("v", DataType::f16(), {4, 64, 32});
  const te::Tensor y = b.reduce("y", {4, 40, 64}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return wide(x({i[1], r[0]})) * wide(v({i[0], i[2], r[0]}));
  });
  const te::Tensor heads = b.reduce("heads", {4, 40}, {64}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return y({i[0], i[1], r[0]});
  });
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const te::Program program = merged(b.finish("heads", {heads}));
  for (const Construction& built : construct(t.families, {program, {}}, t.info, nullptr)) {
    SCOPED_TRACE(built.trace.empty() ? built.family : built.trace.front());
    check_candidate({program, {}}, t, built, 2e-2);
  }
  te::Builder c;
  const te::Tensor q = c.placeholder("q", DataType::f16(), {3, 64, 32});
  const te::Tensor k = c.placeholder("k", DataType::f16(), {3, 24, 32});
  const te::Tensor s = c.reduce("s", {3, 64, 24}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return wide(q({i[0], i[1], r[0]})) * wide(k({i[0], i[2], r[0]}));
  });
  check_reduced(finish(c, s, te::CombinerKind::kSum), "cuda:sm_90a", 1e-4);
}

TEST(ConstructReduced, NoBlocksWalkAndALastColumnIsCombinedByAllThreads) {
  const targets::Target t = targets::find_target("cuda:sm_90a");
  const GroupTask many{merged(tokens({150, 64, 64}, 128, DataType::f16(), te::CombinerKind::kMax)), {"w"}};
  for (const Construction& built : construct(t.families, many, t.info, nullptr))
    EXPECT_FALSE(any_with(built.trace, "walking over them")) << "its rows would not be kept";
  const std::vector<std::string> odd =
      check_reduced(tokens({1, 64, 64}, 33, DataType::f16(), te::CombinerKind::kMax), "cuda:sm_90a", 2e-2);
  EXPECT_FALSE(any_with(odd, "TMA")) << "whose kernels have no memory to combine by";
}

// As the gradient of a GELU: what is made for the epilogue alone is computed there, however often it is read.
TEST(ConstructReduced, WhatStandsBesideAProductIsPartOfItsEpilogue) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f16(), {256, 32}),
                   h = b.placeholder("h", DataType::f16(), {256, 64});
  const te::Tensor w = b.placeholder("w", DataType::f16(), {64, 32});
  const te::Tensor u =
      b.compute("u", h.shape, [&](const auto& i) { return cast(DataType::f16(), wide(h(i)) / float_imm(1.5)); });
  const te::Tensor acc = b.reduce("acc", {256, 64}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return wide(x({i[0], r[0]})) * wide(w({i[1], r[0]}));
  });
  const te::Tensor d = b.compute("d", h.shape, [&](const auto& i) { return cast(DataType::f16(), acc(i)); });
  const te::Tensor y = b.compute("y", h.shape, [&](const auto& i) {
    return cast(DataType::f16(), wide(d(i)) * call("sigmoid", {wide(u(i))}) * wide(u(i)) * wide(u(i)));
  });
  const te::Tensor sums = b.reduce("sums", {64}, {256}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return wide(y({r[0], i[0]}));
  });
  const te::Program program = b.finish("gradient", {y, sums});
  EXPECT_TRUE(any_with(check_reduced(program, "cuda:sm_90a", 2e-2), "rows combined in parts"));
  const targets::Target t = targets::find_target("cuda:sm_90a");
  for (const Construction& candidate : construct(t.families, {merged(program), {"w"}}, t.info, nullptr)) {
    std::set<schedule::PrimitiveKind> all, of_u;
    for (const schedule::Primitive& p : candidate.schedule.primitives()) {
      all.insert(p.kind);
      if (p.stage == "u") of_u.insert(p.kind);
    }
    EXPECT_TRUE(of_u.contains(schedule::PrimitiveKind::kInline)) << "a kernel before, of one thread";
    EXPECT_TRUE(all.contains(schedule::PrimitiveKind::kWhole)) << "rounds u and d on their way";
  }
}

// The kernel that adds the parts takes single columns.
// As a gradient behind a ReLU, which leaves beside the sums of its columns: in parts whose rows fill no tile.
TEST(ConstructReduced, RowsLeaveFromPartsThatFillNoTile) {
  for (const int64_t tokens : {300, 150, 120}) {
    te::Builder b;
    const te::Tensor x = b.placeholder("x", DataType::f16(), {tokens, 32});
    const te::Tensor w = b.placeholder("w", DataType::f16(), {64, 32});
    const te::Tensor z = b.placeholder("z", DataType::f16(), {tokens, 64});
    const te::Tensor acc =
        b.reduce("acc", {tokens, 64}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
          return wide(x({i[0], r[0]})) * wide(w({i[1], r[0]}));
        });
    const te::Tensor y = b.compute("y", acc.shape, [&](const auto& i) {
      return select(wide(z(i)) > float_imm(0), cast(DataType::f16(), acc(i)), imm(DataType::f16(), 0));
    });
    const te::Tensor sums = b.reduce("sums", {64}, {tokens}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
      return wide(y({r[0], i[0]}));
    });
    SCOPED_TRACE(fmt::format("{} tokens", tokens));
    const std::vector<std::string> traces = check_reduced(b.finish("gradient", {y, sums}), "cuda:sm_90a", 2e-2);
    EXPECT_TRUE(any_with(traces, "rows combined in parts"));
  }
}

// As behind a concatenation, which a family may compute where the product reads it, or not take.
TEST(ConstructReduced, RowsOfTwoTensorsBesideEachOther) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {169, 16}),
                   v = b.placeholder("v", DataType::f32(), {169, 16});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {40, 32});
  const te::Tensor both = b.compute("both", {169, 32}, [&](const auto& i) {
    return select(i[1] < Expr(16), x({i[0], i[1]}), v({i[0], i[1] - Expr(16)}));
  });
  const te::Tensor acc = b.reduce("acc", {169, 40}, {32}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return both({i[0], r[0]}) * w({i[1], r[0]});
  });
  const te::Tensor y = b.compute("y", acc.shape, [&](const auto& i) { return max(acc(i), float_imm(0)); });
  const te::Tensor mean = b.reduce("mean", {40}, {169}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return y({r[0], i[0]});
  });
  const GroupTask task{merged(b.finish("beside", {mean})), {"w"}};
  for (const char* name : {"cpu:x86-64-v3", "cuda:sm_90a"}) {
    const targets::Target t = targets::find_target(name);
    std::vector<Decline> declines;
    const Candidates all = construct(t.families, task, t.info, &declines);
    EXPECT_FALSE(all.empty()) << name;
    for (const Construction& candidate : all) {
      SCOPED_TRACE(candidate.family);
      check_candidate(task, t, candidate, 1e-5);
    }
  }
}

TEST(ConstructReduced, OddColumnsInParts) {
  check_reduced(tokens({1, 256, 16}, 17, DataType::f16(), te::CombinerKind::kSum), "cuda:sm_80", 2e-2);
  check_reduced(tokens({2, 192, 16}, 21, DataType::f32(), te::CombinerKind::kMax), "cuda:sm_90a", 1e-5);
}

TEST(ConstructReduced, SumsOfF32ByThreads) {
  const std::vector<std::string> traces =
      check_reduced(tokens({2, 50, 24}, 40, DataType::f32(), te::CombinerKind::kSum), "cuda:sm_90a", 1e-5);
  EXPECT_FALSE(any_with(traces, "matrix instructions"));
}

}  // namespace
}  // namespace tw::construct
