// Winograd convolutions at odd shapes: every candidate computes what the te program says, and the model's choices.
#include <gtest/gtest.h>

#include "construct/cpu/winograd_blocks.h"
#include "graph/op.h"
#include "ops/list.h"
#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/graph/sample.h"

namespace tw::construct {
namespace {

using graph::test::add;

constexpr double kTolerance = 4e-3;  // whole numbers; an ulp of the largest partial sums, some 10,000, is 1e-3

struct Shapes {
  Shape x;  // [N, C, (D,) H, W]
  int64_t out_channels = 8;
  int64_t kernel_depth = 0;  // depths of the kernel; 0 without a depth axis
  int64_t pad = 1;
  int64_t m = 4;
};

enum class Follow : uint8_t { kNothing, kBiasReluResidual, kHardSwish };

graph::Graph convolution(const Shapes& s, Follow follow) {
  graph::Graph g;
  const auto input = [&](const char* name, Shape shape) {
    return g.add_input(name, {DataType::f32(), std::move(shape)});
  };
  Shape u{s.m + 2, s.m + 2};
  if (s.kernel_depth > 0) u.push_back(s.kernel_depth);
  u.push_back(s.x[1]);
  u.push_back(s.out_channels);
  Shape w{s.out_channels, s.x[1], 3, 3};
  if (s.kernel_depth > 0) w.insert(w.begin() + 2, s.kernel_depth);
  std::vector<graph::ValueId> operands = {input("x", s.x), input("u", u), input("w", w), input("scales", {s.x[1]})};
  if (follow == Follow::kBiasReluResidual) operands.push_back(input("bias", {s.out_channels}));
  const std::vector<int64_t> pads(2 * (s.x.size() - 2), s.pad);
  graph::ValueId y = add(g, "winograd_conv", operands, {{"m", s.m}, {"pads", pads}});
  if (follow == Follow::kBiasReluResidual)
    y = add(g, "relu", {add(g, "add", {y, input("other", g.value(y).type.shape)})});
  if (follow == Follow::kHardSwish) y = add(g, "mul", {y, add(g, "hard_sigmoid", {y})});
  g.outputs = {y};
  return g;
}

enum class Stored : uint8_t { kChannelsLast, kInputRowMajor };

// The te program of the group, all tensors of the image's rank channels last.
te::Program program_of(const graph::Graph& g, Stored stored) {
  te::Program p = te::drop_unit_reductions(graph::to_te(g, ops::all_ops()).program);
  const size_t rank = g.value(g.inputs[0]).type.shape.size();
  std::map<std::string, Layout> layouts;
  const auto add = [&](const te::Tensor& t) {
    if (t.shape.size() == rank && t.name != "x1" && t.name != "x2")
      layouts[t.name] = channels_last(static_cast<int>(rank));
  };
  for (const te::Tensor& t : p.inputs) add(t);
  for (const te::Compute& c : p.computes) add(c.outputs[0]);
  if (stored == Stored::kInputRowMajor) layouts.erase("x0");
  p = te::apply_layouts(p, layouts);
  return te::apply_layouts(p, te::mergeable_axes(p));
}

const std::set<std::string> kConstants = {"x1", "x2", "x3"};

void check_shapes(const Shapes& s, Follow follow = Follow::kNothing, Stored stored = Stored::kChannelsLast) {
  SCOPED_TRACE(fmt::format("{} to {} channels, kernel depth {}, pad {}, m {}", to_string(s.x), s.out_channels,
                           s.kernel_depth, s.pad, s.m));
  const te::Program p = program_of(convolution(s, follow), stored);
  for (const Values values : {Values::kWhole, Values::kSpecial})
    check({p, kConstants}, "cpu:x86-64-v3", "winograd", kTolerance, values);
}

TEST(Winograd, PlanesOfWholeTilesAndTails) {
  for (const int64_t m : {2, 4}) {
    check_shapes({.x = {1, 8, 2 * m, 3 * m}, .m = m});
    check_shapes({.x = {1, 11, 13, 11}, .out_channels = 19, .m = m});
    check_shapes({.x = {1, 24, 7, 7}, .out_channels = 8, .m = m});
    check_shapes({.x = {1, 8, 9, 10}, .out_channels = 17, .pad = 0, .m = m});
  }
}

TEST(Winograd, Batches) {
  check_shapes({.x = {3, 8, 7, 7}, .out_channels = 9});
  check_shapes({.x = {4, 9, 5, 6}, .out_channels = 16, .m = 2});
}

TEST(Winograd, ThreeAxes) {
  check_shapes({.x = {1, 8, 3, 6, 5}, .kernel_depth = 3});
  check_shapes({.x = {2, 8, 2, 5, 5}, .out_channels = 12, .kernel_depth = 2, .m = 2});
  check_shapes({.x = {1, 8, 3, 8, 9}, .kernel_depth = 1, .pad = 0});
}

TEST(Winograd, Epilogues) {
  for (const Follow follow : {Follow::kBiasReluResidual, Follow::kHardSwish}) {
    check_shapes({.x = {1, 9, 7, 10}, .out_channels = 12}, follow);
    check_shapes({.x = {2, 8, 6, 5}, .out_channels = 10, .m = 2}, follow);
  }
}

TEST(Winograd, InputsThatAreNotStoredChannelsLast) {
  check_shapes({.x = {1, 9, 8, 8}}, Follow::kNothing, Stored::kInputRowMajor);
  check_shapes({.x = {1, 9, 10, 10}, .pad = 0}, Follow::kNothing, Stored::kInputRowMajor);
}

TEST(Winograd, WeightsThatAreComputedInEachRun) {
  const auto run = [](const Shapes& s, const std::set<std::string>& kept) {
    const te::Program p = program_of(convolution(s, Follow::kBiasReluResidual), Stored::kChannelsLast);
    for (const Values values : {Values::kWhole, Values::kSpecial})
      check({p, kept}, "cpu:x86-64-v3", "winograd", kTolerance, values);
  };
  run({.x = {2, 9, 7, 6}, .out_channels = 11}, {});
  run({.x = {2, 8, 6, 5}, .m = 2}, {"x2"});
  run({.x = {1, 8, 3, 5, 5}, .kernel_depth = 2}, {});
}

TEST(Winograd, WideVectors) {
  const te::Program p = program_of(convolution({.x = {1, 17, 9, 9}, .out_channels = 33}, Follow::kBiasReluResidual),
                                   Stored::kChannelsLast);
  check({p, kConstants}, "cpu:x86-64-v4", "winograd", kTolerance);
}

TEST(Winograd, TinyCachesGiveOtherBlocks) {
  const targets::Target t = with_tiny_caches("cpu:x86-64-v3");
  const te::Program p =
      program_of(convolution({.x = {1, 16, 16, 24}, .out_channels = 24}, Follow::kNothing), Stored::kChannelsLast);
  for (const Construction& built : construct(t.families, {p, kConstants}, t.info, nullptr)) {
    check_candidate({p, kConstants}, t, built, kTolerance);
    check_candidate({p, kConstants}, t, built, kTolerance, Passes::kSome, Values::kSpecial);
  }
}

// Direct sums stand in one branch of the loops of a tile: nothing of them is computed elsewhere.
TEST(Winograd, DirectSumsAreComputedWhereATileIsUneven) {
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  for (const Follow follow : {Follow::kBiasReluResidual, Follow::kHardSwish}) {
    const te::Program p =
        program_of(convolution({.x = {1, 16, 12, 12}, .out_channels = 16}, follow), Stored::kChannelsLast);
    for (const Construction& built : construct(t.families, {p, kConstants}, t.info, nullptr)) {
      const loop::Program loops = schedule::apply(te::apply_layouts(p, built.constant_layouts), built.schedule);
      int tests = 0;
      loop::visit(loops.kernels.back().body, [&](const loop::Stmt& s) {
        if (s->kind != loop::StmtKind::kIf || s->predicate.op() != Op::kLoad) return;
        ++tests;
        const auto stores = [](const std::vector<loop::Stmt>& stmts, const std::string& part) {
          bool found = false;
          loop::visit(stmts, [&](const loop::Stmt& inner) {
            found = found || (inner->kind == loop::StmtKind::kStore && inner->buffer.find(part) != std::string::npos);
          });
          return found;
        };
        EXPECT_TRUE(stores(s->body, "direct") && stores(s->body, "patches") && !stores(s->body, "columns"));
        EXPECT_TRUE(!stores(s->otherwise, "direct") && stores(s->otherwise, "columns"));
      });
      EXPECT_EQ(tests, 1) << loop::to_string(loops);
    }
  }
}

// What the family leaves to others, which compute it stage by stage.
TEST(Winograd, Declines) {
  const auto family = [](const Shapes& s, std::set<std::string> constants) {
    const te::Program p = program_of(convolution(s, Follow::kNothing), Stored::kChannelsLast);
    const targets::Target t = targets::find_target("cpu:x86-64-v3");
    std::vector<Decline> declines;
    const Construction built = construct(t.families, {p, std::move(constants)}, t.info, &declines).front();
    return built.family + ": " + (declines.empty() ? "" : declines.front().reason);
  };
  EXPECT_EQ(family({.x = {1, 3, 8, 8}}, kConstants), "generic: fewer channels than a vector has lanes");
  EXPECT_EQ(family({.x = {1, 8, 3, 9}}, kConstants), "generic: tiles of one row or one column");
  EXPECT_EQ(family({.x = {1, 8, 1, 6, 5}, .kernel_depth = 3}, kConstants),
            "generic: images, depths or channels of one element");
}

// ---- The model.

WinogradProblem problem(int64_t tiles, int64_t channels) {
  WinogradProblem p;
  p.m = 4;
  p.tiles_high = p.tiles_wide = tiles;
  p.channels = p.out_channels = channels;
  p.lanes = 8;
  return p;
}

TargetInfo two_cores() {
  TargetInfo info = targets::find_target("cpu:x86-64-v3").info;
  info.compute_units = 2;
  info.flop_per_ns = 100;
  info.levels = {
      {.name = "L1", .capacity_bytes = 32 << 10, .latency_ns = 1.5, .read_per_ns = 180},
      {.name = "L2", .capacity_bytes = 512 << 10, .latency_ns = 4, .read_per_ns = 100},
      {.name = "L3", .capacity_bytes = 32 << 20, .shared = true, .latency_ns = 16, .read_per_ns = 60, .all_per_ns = 65},
      {.name = "DRAM",
       .capacity_bytes = int64_t{16} << 30,
       .shared = true,
       .latency_ns = 120,
       .read_per_ns = 25,
       .all_per_ns = 25}};
  return info;
}

int64_t tiles_of(const WinogradBlocks& b) { return b.high * b.wide; }

TEST(WinogradBlocks, ManyTilesAreCutSoThatTheyStayNear) {
  const WinogradBlocks best = block_winograd(problem(56, 64), two_cores(), 1)[0];
  EXPECT_LT(36 * 4 * tiles_of(best) * 64, 2 << 20);
  EXPECT_GE(tiles_of(best), 14);
}

// Four tiles and a megabyte of weights for each point: both cores read their own weights, once.
TEST(WinogradBlocks, FewTilesShareTheChannels) {
  const WinogradBlocks best = block_winograd(problem(2, 512), two_cores(), 1)[0];
  EXPECT_EQ(tiles_of(best), 4);
  EXPECT_TRUE(best.tiles_before);
  EXPECT_LE(best.channels, 256);
}

// The matrix of a point and a panel of weights: 11 KB stay in the first cache wherever their lines are, 64 KB do not.
TEST(WinogradBlocks, PointsOutsideWhereMatricesLeaveTheFirstCache) {
  EXPECT_EQ(block_winograd(problem(28, 32), two_cores(), 1)[0].order, WinogradOrder::kTiles);
  EXPECT_EQ(block_winograd(problem(4, 512), two_cores(), 1)[0].order, WinogradOrder::kPoints);
}

// Tiles that are transformed before go through the third cache: not worth it where a block reads all channels at once.
TEST(WinogradBlocks, TransformsInsideWhereCoresHaveBlocksOfTheirOwn) {
  const WinogradBlocks best = block_winograd(problem(14, 64), two_cores(), 1)[0];
  EXPECT_FALSE(best.tiles_before);
  EXPECT_EQ(best.wide, 14);
}

TEST(WinogradBlocks, BestFirstAndNoMoreThanAskedFor) {
  const std::vector<WinogradBlocks> all = block_winograd(problem(7, 128), two_cores(), 10);
  ASSERT_EQ(all.size(), 10u);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].predicted_ns, all[i].predicted_ns);
}

}  // namespace
}  // namespace tw::construct
