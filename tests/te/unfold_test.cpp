// Overlapping tiles of windows, and tensors stored as slices of others: what accesses become, and what is refused.
#include <gtest/gtest.h>

#include <cstring>

#include "support/error.h"
#include "te/layout_templates.h"
#include "te/materialize.h"
#include "te/reads.h"
#include "tests/te/layout_check.h"

namespace tw::te {
namespace {

using samples::Random;

// y[i] = sum over r in 0 .. size - 1 of x[step * i + r] w[r].
Program windows(int64_t count, int64_t step, int64_t size) {
  Builder b;
  const Tensor x = b.placeholder("X", DataType::f32(), {step * (count - 1) + size});
  const Tensor w = b.placeholder("W", DataType::f32(), {size});
  const Tensor y = b.reduce("Y", {count}, {size}, CombinerKind::kSum,
                            [&](const auto& i, const auto& r) { return x({i[0] * step + r[0]}) * w({r[0]}); });
  return b.finish("windows", {y});
}

std::string refusal(const Program& program, const Layout& layout) {
  try {
    apply_layouts(program, {{"X", layout}});
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Unfold, WindowsShareATile) {
  // ALT's example: windows of 3 every 1, two in a tile.
  const Program program = windows(6, 1, 3);
  const samples::Layouts layouts = {{"X", Layout().unfold(0, 4, 2)}, {"Y", Layout().split(0, {3, 2})}};
  const Program stored = apply_layouts(program, layouts);
  EXPECT_EQ(to_string(stored.computes[0].body[0]), "(X[i0, (i1 + r0)] * W[r0])");
  EXPECT_EQ(stored.tensor("X").shape, (Shape{3, 4}));
  // Along an axis that is not cut the tile is counted by division.
  const Program whole = apply_layouts(program, {{"X", Layout().unfold(0, 4, 2)}});
  EXPECT_EQ(to_string(whole.computes[0].body[0]), "(X[floordiv(i0, 2), (r0 + floormod(i0, 2))] * W[r0])");
}

TEST(Unfold, AnyWindowsComputeTheSame) {
  Random random(1);
  for (int64_t count : {1, 2, 5, 7, 12}) {
    for (int64_t step : {1, 2, 3}) {
      for (int64_t size : {1, 2, 3, 5}) {
        const Program program = windows(count, step, size);
        const Expr read = distinct_reads(program.computes[0], "X").front();
        for (const std::vector<int64_t>& tiles : {std::vector<int64_t>{1}, {3}, {4}, {count}, {2, 2}, {3, 2}}) {
          const auto layout = unfold_windows(program.computes[0], read, 0, program.tensor("X").shape[0], tiles);
          ASSERT_TRUE(layout.has_value());
          EXPECT_TRUE(samples::check(program, {{"X", *layout}}, {}, random)) << to_string(*layout);
        }
      }
    }
  }
}

TEST(Unfold, OtherStepsAreRefusedByName) {
  const Program program = windows(8, 1, 3);  // 10 elements
  EXPECT_EQ(refusal(program, Layout().unfold(0, 6, 4)), "accepted");
  EXPECT_EQ(
      refusal(program, Layout().unfold(0, 6, 3)),
      "'Y' reads 'X': unfold(0, 6, 3) of 10 elements: windows of 3 every 1, from 0 to 9: 4 in a tile need 6 every "
      "4, all inside");
  EXPECT_EQ(
      refusal(program, Layout().unfold(0, 2, 2)),
      "'Y' reads 'X': unfold(0, 2, 2) of 10 elements: windows of 3 every 1, from 0 to 9: 1 in a tile need 3 every "
      "1, all inside");
  const Layout cropped = Layout().then({LayoutOp::kUnpad, 0, {0, 1}});
  EXPECT_EQ(refusal(program, cropped.unfold(0, 6, 4)),
            "'Y' reads 'X': unfold(0, 6, 4) of 9 elements: windows of 3 every 1, from 0 to 9: 4 in a tile need 6 every "
            "4, all inside");
  EXPECT_NE(refusal(program, Layout().unfold(0, 4, 6)).find("unfold(0, 4, 6): tiles of 4 elements every 6"),
            std::string::npos);
  // Windows with gaps: 1 x 1 at step 2.
  const Program gaps = windows(8, 2, 1);
  EXPECT_EQ(refusal(gaps, Layout().unfold(0, 6, 6)), "accepted");
  EXPECT_EQ(refusal(gaps, Layout().unfold(0, 5, 4)),
            "'Y' reads 'X': unfold(0, 5, 4) of 15 elements: windows of 1 every 2, from 0 to 14: 3 in a tile need 6 "
            "every 6, all inside");
  // More than the windows are padding, or cropped.
  EXPECT_EQ(refusal(gaps, Layout().pad(0, 0, 3).unfold(0, 4, 4)), "accepted");
}

TEST(Unfold, BehindTheLastTileAreZeros) {
  const std::vector<int16_t> data = {1, 2, 3, 4, 5, 6, 7};
  const Layout layout = Layout().unfold(0, 4, 2);
  const auto bytes = materialize(std::as_bytes(std::span(data)), 2, {7}, layout);
  std::vector<int16_t> out(bytes.size() / 2);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  EXPECT_EQ(out, (std::vector<int16_t>{1, 2, 3, 4, 3, 4, 5, 6, 5, 6, 7, 0}));
  EXPECT_EQ(to_string(layout.inverse({7})), "fold(0, 7, 2)");
  // Written in tiles, elements are computed once for each tile.
  Builder b;
  const Tensor x = b.placeholder("X", DataType::f32(), {7});
  const Program program = b.finish("copy", {b.compute("Y", {7}, [&](const auto& i) { return x(i); })});
  Random random(2);
  EXPECT_TRUE(samples::check(program, {{"Y", layout}}, {}, random));
  EXPECT_TRUE(samples::check(program, {{"X", layout}}, {}, random));
}

TEST(StoreAt, TheBiasIsReadFromTheWeights) {
  const Program program = samples::matmul_bias_relu(5, 32, 7);
  // One more row of the weights, whose columns are then blocks of 16.
  const samples::Layouts layouts = {{"B", Layout().store_at(0, "bias").split(1, {2, 16}).reorder({1, 0, 2})}};
  const Program stored = apply_layouts(program, layouts);
  EXPECT_EQ(to_string(layouts.at("B")), "store_at(0, bias) split(1, 2, 16) reorder(1, 0, 2)");
  EXPECT_EQ(parse_layout(to_string(layouts.at("B"))), layouts.at("B"));
  EXPECT_EQ(to_string(layouts.at("B").inverse({7, 32})), "reorder(1, 0, 2) fuse(1, 2) decouple_at(0, bias)");
  EXPECT_EQ(stored.inputs.size(), 2U);
  EXPECT_EQ(stored.tensor("B").shape, (Shape{2, 8, 16}));
  EXPECT_EQ(to_string(stored.computes[1].body[0]),
            "max((C[i0, i1] + B[floordiv(i1, 16), 7, floormod(i1, 16)]), 0:f32)");
  Random random(3);
  EXPECT_TRUE(samples::check(program, layouts, {}, random));
  // The bias in blocks of its own, behind weights in blocks.
  EXPECT_TRUE(samples::check(
      program, {{"B", Layout().split(1, {2, 16}).store_at(0, "bias").fuse(0, 2)}, {"bias", Layout().split(0, {2, 16})}},
      {}, random));
}

TEST(StoreAt, RefusesWhatIsNoSlice) {
  const Program program = samples::matmul_bias_relu(5, 32, 7);
  const auto refused = [&](const std::string& tensor, const Layout& layout) {
    try {
      apply_layouts(program, {{tensor, layout}});
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refused("B", Layout().store_at(1, "bias")).find("the slice is f32 [32], the tensor f32 [7,32]"),
            std::string::npos);
  EXPECT_NE(refused("B", Layout().store_at(0, "C")).find("store_at(0, C) of 'B': both must be inputs"),
            std::string::npos);
  EXPECT_NE(refused("C", Layout().store_at(0, "bias")).find("both must be inputs"), std::string::npos);
  EXPECT_NE(refused("B", Layout().store_at(0, "bias").store_at(0, "bias")).find("attached already"), std::string::npos);
  const std::vector<std::byte> weights(7 * 32 * 4), bias(4);
  EXPECT_THROW(materialize(weights, 4, {7, 32}, Layout().store_at(0, "bias")), InternalError);
  EXPECT_THROW(materialize(weights, 4, {7, 32}, Layout().store_at(0, "bias"), {.slices = {{"bias", bias}}}),
               InternalError);
}

TEST(LayoutText, NamesAndNumbersThatAreMissing) {
  EXPECT_EQ(parse_layout("store_at(1, \"a/b\")"), Layout().store_at(1, "a/b"));
  EXPECT_EQ(to_string(Layout().store_at(1, "a/b")), "store_at(1, \"a/b\")");
  for (const char* bad : {"unfold(0, 4)", "pad(1)", "store_at(0)", "store_at(0, 3)", "fold(0, 1, 2, 3)"})
    EXPECT_THROW(parse_layout(bad), UserError) << bad;
}

}  // namespace
}  // namespace tw::te
