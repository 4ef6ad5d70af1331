#include "tests/te/samples.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "te/materialize.h"
#include "tests/harness/te_programs.h"

namespace tw::te::samples {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const DataType kF32 = DataType::f32();

Expr between(const Expr& e, int64_t extent) { return e >= 0 && e < Expr(extent); }

}  // namespace

int64_t pick(Random& random, int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); }

Program matmul_bias_relu(int64_t m, int64_t n, int64_t k) {
  Builder b;
  const Tensor x = b.placeholder("A", kF32, {m, k});
  const Tensor w = b.placeholder("B", kF32, {k, n});
  const Tensor bias = b.placeholder("bias", kF32, {n});
  const Tensor c = b.reduce("C", {m, n}, {k}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]}) * w({r[0], i[1]});
  });
  const Tensor y = b.compute("Y", {m, n}, [&](const auto& i) {
    return max(c({i[0], i[1]}) + bias({i[1]}), float_imm(0));
  });
  return b.finish("matmul_bias_relu", {y});
}

Program conv(int64_t channels, int64_t size, int64_t out_channels, int64_t stride, int64_t dilation, Guard guard) {
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {2, channels, size, size});
  const Tensor w = b.placeholder("W", kF32, {out_channels, channels, 3, 3});
  const Tensor bias = b.placeholder("bias", kF32, {out_channels});
  const int64_t out = (size + 2 - dilation * 2 - 1) / stride + 1;
  const Tensor c = b.reduce(
      "C", {2, out_channels, out, out}, {channels, 3, 3}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
        const Expr h = i[2] * stride + r[1] * dilation - 1;
        const Expr v = i[3] * stride + r[2] * dilation - 1;
        const Expr inside = between(h, size) && between(v, size);
        const Expr read = guard == Guard::kPredicate ? load_if("X", kF32, {i[0], r[0], h, v}, inside)
                                                     : select(inside, x({i[0], r[0], h, v}), float_imm(0));
        return read * w({i[1], r[0], r[1], r[2]});
      });
  const Tensor y = b.compute("Y", c.shape, [&](const auto& i) { return c({i[0], i[1], i[2], i[3]}) + bias({i[1]}); });
  return b.finish("conv", {y, c});
}

Program max_pool(int64_t channels, int64_t size) {
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {1, channels, size, size});
  const int64_t out = (size - 1) / 2 + 1;
  const Tensor y =
      b.reduce("Y", {1, channels, out, out}, {3, 3}, CombinerKind::kMax, [&](const auto& i, const auto& r) {
        const Expr h = i[2] * 2 + r[0] - 1;
        const Expr w = i[3] * 2 + r[1] - 1;
        return select(between(h, size) && between(w, size), x({i[0], i[1], h, w}), float_imm(-kInfinity));
      });
  return b.finish("max_pool", {y});
}

Program transpose_add(int64_t m, int64_t n, int64_t k) {
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {m, n, k});
  const Tensor z = b.placeholder("Z", kF32, {n, m, k});
  const Tensor t = b.compute("T", {k, n, m}, [&](const auto& i) { return x({i[2], i[1], i[0]}); });
  const Tensor y = b.compute("Y", {k, n, m}, [&](const auto& i) {
    return t({i[0], i[1], i[2]}) + z({i[1], i[2], i[0]});
  });
  return b.finish("transpose_add", {y});
}

Program argmax(int64_t rows, int64_t columns) {
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {rows, columns});
  Combiner combiner;
  combiner.kind = CombinerKind::kTuple;
  combiner.identity = {float_imm(-kInfinity), int_imm(-1)};
  combiner.lhs = {"va", "ia"};
  combiner.rhs = {"vb", "ib"};
  const Expr va = var("va", kF32), vb = var("vb", kF32);
  combiner.result = {max(va, vb), select(va < vb, var("ib"), var("ia"))};
  const std::vector<Tensor> out =
      b.reduce_tuple({"value", "place"}, {rows}, {columns}, combiner, [&](const auto& i, const auto& r) {
        return std::vector<Expr>{x({i[0], r[0]}), r[0]};
      });
  return b.finish("argmax", out);
}

Program softmax(int64_t rows, int64_t columns) {
  Builder b;
  const Tensor x = b.placeholder("X", kF32, {rows, columns});
  const Tensor top = b.reduce("top", {rows}, {columns}, CombinerKind::kMax, [&](const auto& i, const auto& r) {
    return x({i[0], r[0]});
  });
  const Tensor e = b.compute("E", x.shape, [&](const auto& i) { return call("exp", {x({i[0], i[1]}) - top({i[0]})}); });
  const Tensor sum = b.reduce("sum", {rows}, {columns}, CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return e({i[0], r[0]});
  });
  const Tensor y = b.compute("Y", x.shape, [&](const auto& i) { return e({i[0], i[1]}) / sum({i[0]}); });
  return b.finish("softmax", {y});
}

Program gather_concat(int64_t rows, int64_t columns) {
  Builder b;
  const DataType i64 = DataType::i64();
  const Tensor x = b.placeholder("X", i64, {rows, columns});
  const Tensor index = b.placeholder("index", i64, {5});
  const Tensor g = b.compute("G", {5, columns}, [&](const auto& i) { return x({index({i[0]}), i[1]}); });
  const Tensor both = b.compute("both", {rows + 5, columns}, [&](const auto& i) {
    return select(i[0] < Expr(rows), x({i[0], i[1]}), g({i[0] - rows, i[1]}));
  });
  const Tensor product = b.reduce("product", {columns}, {5}, CombinerKind::kProd, [&](const auto& i, const auto& r) {
    return g({r[0], i[0]});
  });
  const Tensor least = b.reduce("least", {rows + 5}, {columns}, CombinerKind::kMin, [&](const auto& i, const auto& r) {
    return both({i[0], r[0]});
  });
  return b.finish("gather_concat", {both, product, least});
}

std::vector<Program> all(Random& random) {
  const auto odd = [&](int64_t most) { return pick(random, 1, most); };
  std::vector<Program> programs;
  programs.push_back(matmul_bias_relu(odd(13), odd(12), odd(7)));
  programs.push_back(
      conv(odd(4), 4 + odd(4), odd(6), odd(3), odd(2), pick(random, 0, 1) == 1 ? Guard::kPredicate : Guard::kSelect));
  programs.push_back(max_pool(odd(6), odd(9)));
  programs.push_back(transpose_add(odd(7), odd(6), odd(8)));
  programs.push_back(argmax(odd(12), odd(9)));
  programs.push_back(softmax(odd(8), odd(12)));
  programs.push_back(gather_concat(odd(8), odd(9)));
  programs.push_back(testing::square(odd(9)));
  programs.push_back(testing::gram(odd(9), odd(7)));
  programs.push_back(testing::plus_transposed(odd(9)));
  return programs;
}

ValueMap random_inputs(const Program& program, Random& random, int64_t rows) {
  ValueMap inputs;
  for (const Tensor& input : program.inputs) {
    TensorValues values = zeros(input.type, input.shape);
    for (double& x : values.floats) x = static_cast<double>(pick(random, -4, 4));
    for (int64_t& x : values.ints) x = input.name == "index" ? pick(random, 0, rows - 1) : pick(random, -3, 3);
    inputs.emplace(input.name, std::move(values));
  }
  return inputs;
}

namespace {

std::vector<int64_t> random_factors(int64_t extent, Random& random) {
  std::vector<int64_t> divisors;
  for (int64_t f = 1; f <= extent; ++f) {
    if (extent % f == 0) divisors.push_back(f);
  }
  const int64_t inner = divisors[pick(random, 0, static_cast<int64_t>(divisors.size()) - 1)];
  if (pick(random, 0, 2) > 0) return {extent / inner, inner};
  std::vector<int64_t> factors = random_factors(extent / inner, random);
  factors.push_back(inner);
  return factors;
}

}  // namespace

Layout random_layout(const Shape& shape, Random& random, Padding padding) {
  Layout layout;
  const int64_t steps = pick(random, 0, 5);
  for (int64_t step = 0; step < steps; ++step) {
    const Shape now = layout.storage_shape(shape);
    const auto rank = static_cast<int64_t>(now.size());
    if (rank == 0) return layout;
    const auto dim = static_cast<int>(pick(random, 0, rank - 1));
    switch (pick(random, 0, padding == Padding::kAllowed ? 5 : 2)) {
      case 0:
        layout = layout.split(dim, random_factors(now[dim], random));
        break;
      case 1:
        layout = layout.fuse(dim, static_cast<int>(pick(random, 1, rank - dim)));
        break;
      case 2: {
        std::vector<int64_t> order;
        for (int64_t d = 0; d < rank; ++d) order.insert(order.begin() + pick(random, 0, d), d);
        layout = layout.reorder(order);
        break;
      }
      case 3: {
        const int64_t tile = pick(random, 1, now[dim] + 2), every = pick(random, 1, tile);
        layout = layout.unfold(dim, tile, every);
        if (pick(random, 0, 1) == 0) layout = layout.then({LayoutOp::kFold, dim, {now[dim], every}});
        break;
      }
      default: {
        const int64_t before = pick(random, 0, 2), after = pick(random, 0, 3);
        layout = layout.pad(dim, before, after);
        if (pick(random, 0, 2) == 0)
          layout = layout.then({LayoutOp::kUnpad, dim, {pick(random, 0, before), pick(random, 0, after)}});
      }
    }
  }
  return layout;
}

namespace {

template <typename T>
std::vector<T> moved(std::vector<T> TensorValues::*elements, const TensorValues& values, const Layout& layout, T fill,
                     const ValueMap& slices) {
  const auto fill_bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(fill);
  Added added{.fill = fill_bytes};
  for (const auto& [name, slice] : slices) added.slices[name] = std::as_bytes(std::span(slice.*elements));
  const std::vector<std::byte> bytes =
      materialize(std::as_bytes(std::span(values.*elements)), sizeof(T), values.shape, layout, added);
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

TensorValues in_layout(const TensorValues& values, const Layout& layout, double fill, const ValueMap& slices) {
  TensorValues out{values.type, layout.storage_shape(values.shape), {}, {}};
  if (values.type.is_float())
    out.floats = moved<double>(&TensorValues::floats, values, layout, fill, slices);
  else
    out.ints = moved<int64_t>(&TensorValues::ints, values, layout, static_cast<int64_t>(fill), slices);
  return out;
}

bool same(const TensorValues& a, const TensorValues& b) {
  if (a.type != b.type || a.shape != b.shape || a.ints != b.ints || a.floats.size() != b.floats.size()) return false;
  for (size_t k = 0; k < a.floats.size(); ++k) {
    if (a.floats[k] != b.floats[k] && !(std::isnan(a.floats[k]) && std::isnan(b.floats[k]))) return false;
  }
  return true;
}

}  // namespace tw::te::samples
