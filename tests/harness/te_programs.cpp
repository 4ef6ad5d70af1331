#include "tests/harness/te_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "te/merge_axes.h"
#include "te/rewrite.h"

namespace tw::testing {

using te::CombinerKind;
using Exprs = std::vector<Expr>;

te::Program matmul_relu(int64_t m, int64_t n, int64_t k) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {m, k});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {k, n});
  const te::Tensor bias = b.placeholder("bias", DataType::f32(), {n});
  const te::Tensor y = b.reduce("y", {m, n}, {k}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const te::Tensor z = b.compute("z", {m, n}, [&](const Exprs& i) {
    return max(y({i[0], i[1]}) + bias({i[1]}), float_imm(0));
  });
  return b.finish("matmul", {z});
}

te::Program conv_2d(const ConvShape& s) {
  te::Builder b;
  const int64_t pad = s.kernel / 2;
  const int64_t padded = s.size + 2 * pad;
  const int64_t out = (padded - s.kernel) / s.stride + 1;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {s.size, s.size, s.channels});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {s.out_channels, s.channels, s.kernel, s.kernel});
  const auto inside = [&](const Expr& i) { return i >= Expr(pad) && i < Expr(s.size + pad); };
  const te::Tensor p = b.compute("pad", {padded, padded, s.channels}, [&](const Exprs& i) {
    return select(inside(i[0]) && inside(i[1]), x({i[0] - Expr(pad), i[1] - Expr(pad), i[2]}), float_imm(0));
  });
  const te::Tensor y = b.reduce(
      "conv", {out, out, s.out_channels}, {s.channels, s.kernel, s.kernel}, CombinerKind::kSum,
      [&](const Exprs& i, const Exprs& r) {
        return p({i[0] * Expr(s.stride) + r[1], i[1] * Expr(s.stride) + r[2], r[0]}) * w({i[2], r[0], r[1], r[2]});
      });
  return b.finish("conv", {y});
}

te::Program depthwise(int64_t size, int64_t channels) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {size, size, channels});
  const te::Tensor w = b.placeholder("w", DataType::f32(), {channels, 3, 3});
  const te::Tensor y =
      b.reduce("conv", {size - 2, size - 2, channels}, {3, 3}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
        return x({i[0] + r[0], i[1] + r[1], i[2]}) * w({i[2], r[0], r[1]});
      });
  return b.finish("depthwise", {y});
}

te::Program broadcast_chain(int64_t a, int64_t b_extent, int64_t c) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {a, b_extent, c});
  const te::Tensor s = b.placeholder("s", DataType::f32(), {b_extent, 1});
  const te::Tensor shifted = b.compute("shifted", {a, b_extent, c}, [&](const Exprs& i) {
    return x(i) + s({i[1], Expr(0)});
  });
  const te::Tensor y =
      b.compute("y", {a, b_extent, c}, [&](const Exprs& i) { return max(shifted(i), -shifted(i)) * float_imm(0.5); });
  return b.finish("chain", {y});
}

te::Program softmax(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  const te::Tensor m = b.reduce("max", {rows, 1}, {n}, CombinerKind::kMax, [&](const Exprs& i, const Exprs& r) {
    return x({i[0], r[0]});
  });
  const te::Tensor e = b.compute("exp", {rows, n}, [&](const Exprs& i) {
    return call("exp", {x(i) - m({i[0], Expr(0)})});
  });
  const te::Tensor s = b.reduce("sum", {rows, 1}, {n}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return e({i[0], r[0]});
  });
  const te::Tensor y = b.compute("y", {rows, n}, [&](const Exprs& i) { return e(i) / s({i[0], Expr(0)}); });
  return b.finish("softmax", {y});
}

te::Program transpose(int64_t rows, int64_t columns, DataType type) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", type, {columns, rows});
  const te::Tensor y = b.compute("y", {rows, columns}, [&](const auto& i) { return x({i[1], i[0]}); });
  return b.finish("transpose", {y});
}

te::Program arg_max(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  te::Combiner c;
  c.kind = CombinerKind::kTuple;
  c.identity = {te::identity_of(CombinerKind::kMax, DataType::f32()), int_imm(0)};
  c.lhs = {"a0", "a1"};
  c.rhs = {"b0", "b1"};
  const Expr a0 = var("a0", DataType::f32()), b0 = var("b0", DataType::f32()), a1 = var("a1"), b1 = var("b1");
  // The smaller index among equal elements: the same in any order, as schedules may reorder reductions.
  const Expr keep = b0 < a0 || (b0 == a0 && a1 <= b1);
  c.result = {select(keep, a0, b0), select(keep, a1, b1)};
  const auto out = b.reduce_tuple({"value", "index"}, {rows}, {n}, c, [&](const Exprs& i, const Exprs& r) {
    return Exprs{x({i[0], r[0]}), r[0]};
  });
  return b.finish("argmax", {out[1]});
}

te::Program sums_and_transpose(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  const te::Tensor square = b.compute("square", {rows, n}, [&](const Exprs& i) { return x(i) * x(i); });
  const te::Tensor sums = b.reduce("sums", {rows}, {n}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return square({i[0], r[0]});
  });
  const te::Tensor turned = b.compute("turned", {n, rows}, [&](const Exprs& i) {
    return x({i[1], i[0]}) + sums({i[1]});
  });
  return b.finish("sums", {sums, turned});
}

te::Program integer_max(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::i64(), {rows, n});
  const te::Tensor y = b.reduce("y", {rows}, {n}, CombinerKind::kMax, [&](const Exprs& i, const Exprs& r) {
    return x({i[0], r[0]}) - i[0] * Expr(2);
  });
  const te::Tensor z = b.compute("z", {rows}, [&](const Exprs& i) { return floor_div(y(i), Expr(3)); });
  return b.finish("integers", {z});
}

te::Program repeated_sum(int64_t rows, int64_t times) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows});
  const te::Tensor y =
      b.reduce("y", {rows}, {times}, CombinerKind::kSum, [&](const Exprs& i, const Exprs&) { return x(i); });
  return b.finish("repeated", {y});
}

te::Program square(int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {n, n});
  const te::Tensor y = b.reduce("y", {n, n}, {n}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return x({i[0], r[0]}) * x({r[0], i[1]});
  });
  return b.finish("square", {y});
}

te::Program gram(int64_t m, int64_t k) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {m, k});
  const te::Tensor turned = b.compute("turned", {k, m}, [&](const Exprs& i) { return x({i[1], i[0]}); });
  const te::Tensor y = b.reduce("y", {m, m}, {k}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return x({i[0], r[0]}) * turned({r[0], i[1]});
  });
  return b.finish("gram", {y});
}

te::Program conv_with_itself(int64_t n, int64_t c) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {n, n, c});
  const auto inside = [&](const Expr& i) { return i >= Expr(1) && i < Expr(n + 1); };
  const te::Tensor p = b.compute("pad", {n + 2, n + 2, c}, [&](const Exprs& i) {
    return select(inside(i[0]) && inside(i[1]), x({i[0] - Expr(1), i[1] - Expr(1), i[2]}), float_imm(0));
  });
  const te::Tensor y = b.reduce("conv", {3, 3, c}, {n, n, c}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return p({i[0] + r[0], i[1] + r[1], r[2]}) * x({r[0], r[1], i[2]});
  });
  return b.finish("conv_with_itself", {y});
}

te::Program attention_of_itself(int64_t n, int64_t k) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {n, k});
  const te::Tensor scores = b.reduce("scores", {n, n}, {k}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return x({i[0], r[0]}) * x({i[1], r[0]});
  });
  const te::Tensor most = b.reduce("most", {n}, {n}, CombinerKind::kMax, [&](const Exprs& i, const Exprs& r) {
    return scores({i[0], r[0]});
  });
  const te::Tensor power =
      b.compute("power", {n, n}, [&](const Exprs& i) { return call("exp", {scores(i) - most({i[0]})}); });
  const te::Tensor sum = b.reduce("sum", {n}, {n}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return power({i[0], r[0]});
  });
  const te::Tensor weights = b.compute("weights", {n, n}, [&](const Exprs& i) { return power(i) / sum({i[0]}); });
  const te::Tensor y = b.reduce("y", {n, k}, {n}, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    return weights({i[0], r[0]}) * x({r[0], i[1]});
  });
  return b.finish("attention", {y});
}

te::Program plus_transposed(int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {n, n});
  const te::Tensor y = b.compute("y", {n, n}, [&](const Exprs& i) { return x(i) + x({i[1], i[0]}); });
  return b.finish("plus_transposed", {y});
}

std::vector<NamedProgram> one_value_programs() {
  std::vector<NamedProgram> all;
  for (const int64_t n : {1, 7, 17}) all.push_back({fmt::format("square {}", n), square(n)});
  for (const auto& [m, k] : {std::array<int64_t, 2>{5, 9}, {17, 6}})
    all.push_back({fmt::format("gram {}x{}", m, k), gram(m, k)});
  all.push_back({"conv 3^2 5 with itself", conv_with_itself(3, 5)});
  all.push_back({"softmax of x 7x5 times itself", attention_of_itself(7, 5)});
  all.push_back({"plus transposed 9", plus_transposed(9)});
  return all;
}

std::vector<NamedProgram> odd_programs() {
  std::vector<NamedProgram> all;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {5, 7, 3}, {4, 17, 9}, {3, 16, 1}, {1, 13, 8}}) {
    all.push_back({fmt::format("matmul {}x{}x{}", m, n, k), matmul_relu(m, n, k)});
  }
  for (const ConvShape& s : {ConvShape{5, 3, 7, 3, 1}, {6, 2, 5, 3, 2}, {4, 3, 8, 1, 1}, {1, 1, 1, 1, 1}}) {
    all.push_back({fmt::format("conv {}^2 {}-{} {}^2 by {}", s.size, s.channels, s.out_channels, s.kernel, s.stride),
                   conv_2d(s)});
  }
  all.push_back({"depthwise 5^2 7", depthwise(5, 7)});
  all.push_back({"chain 3x5x19", broadcast_chain(3, 5, 19)});
  all.push_back({"chain 1x1x1", broadcast_chain(1, 1, 1)});
  all.push_back({"softmax 3x11", softmax(3, 11)});
  all.push_back({"softmax 1x1", softmax(1, 1)});
  all.push_back({"argmax 5x13", arg_max(5, 13)});
  all.push_back({"sums 5x7", sums_and_transpose(5, 7)});
  all.push_back({"integers 7x11", integer_max(7, 11)});
  all.push_back({"repeated 3x7", repeated_sum(3, 7)});
  std::ranges::move(one_value_programs(), std::back_inserter(all));
  return all;
}

te::Program attention(const Attention& a) {
  te::Builder b;
  const te::Tensor q = b.placeholder("q", a.type, {a.shared ? 1 : a.batch, a.queries, a.heads, a.depth});
  const te::Tensor k = b.placeholder("k", a.type, {a.batch, a.keys, a.heads, a.depth});
  const te::Tensor v = b.placeholder("v", a.type, {a.batch, a.keys, a.heads, a.values});
  const te::Tensor mask = b.placeholder("mask", DataType::f32(), {a.batch, 1, 1, a.keys});
  const te::Tensor drop = b.placeholder("drop", DataType::i32(), {a.queries, a.keys});
  const auto wide = [](const Expr& e) { return cast(DataType::f32(), e); };
  const Shape rows = {a.batch, a.heads, a.queries};
  const Shape all = {a.batch, a.heads, a.queries, a.keys};
  const te::Tensor scores =
      b.reduce("scores", all, {a.depth}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
        return wide(q({a.shared ? int_imm(0) : i[0], i[2], i[1], r[0]})) * wide(k({i[0], i[3], i[1], r[0]}));
      });
  const te::Tensor scaled = b.compute("scaled", all, [&](const auto& i) {
    const Expr x = scores(i) * float_imm(0.125);
    const Expr seen = a.mask ? x + mask({i[0], int_imm(0), int_imm(0), i[3]}) : x;
    return a.causal ? select(i[3] <= i[2], seen, float_imm(-3e38)) : seen;
  });
  const te::Tensor most = b.reduce("most", rows, {a.keys}, te::CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return scaled({i[0], i[1], i[2], r[0]});
  });
  const te::Tensor power = b.compute("power", all, [&](const auto& i) {
    return tw::call("exp", {scaled(i) - most({i[0], i[1], i[2]})});
  });
  const te::Tensor sum = b.reduce("sum", rows, {a.keys}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return power({i[0], i[1], i[2], r[0]});
  });
  const te::Tensor scale = b.compute("scale", rows, [&](const auto& i) { return float_imm(1) / sum(i); });
  const te::Tensor shares = b.compute("weights", all, [&](const auto& i) {
    return cast(a.type, power(i) * scale({i[0], i[1], i[2]}));
  });
  const te::Tensor weights = !a.drops ? shares : b.compute("dropped", all, [&](const auto& i) {
    const Expr kept = Expr(0) <= cast(ScalarType::kI64, drop({i[2], i[3]}));
    return cast(a.type, select(kept, wide(shares(i)) * float_imm(1.25), float_imm(0)));
  });
  const te::Tensor out = b.reduce("out", {a.batch, a.heads, a.queries, a.values}, {a.keys}, te::CombinerKind::kSum,
                                  [&](const auto& i, const auto& r) {
                                    return wide(weights({i[0], i[1], i[2], r[0]})) * wide(v({i[0], r[0], i[1], i[3]}));
                                  });
  const te::Program p = a.statistics ? b.finish("attention", {out, most, scale}) : b.finish("attention", {out});
  return te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
}

}  // namespace tw::testing
