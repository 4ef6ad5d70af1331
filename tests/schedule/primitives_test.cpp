// Every primitive: what it does to the loops, and what it refuses, with its message.
#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "support/error.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_programs.h"

namespace tw::schedule {
namespace {

using testing::refusal;

using testing::matmul_relu;

// The loops of the program, after a check that they compute it.
std::string loops_of(const te::Program& program, const Schedule& schedule) {
  const loop::Program loops = apply(program, schedule);
  loop::verify(loops);
  const te::ValueMap inputs = testing::whole_inputs(program);
  EXPECT_EQ(testing::first_difference(program, te::evaluate(program, inputs), testing::run_loops(loops, inputs), 0),
            "");
  return loop::to_string(loops);
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in\n" << text;
}

// y[i, j] = 2 x[i, j], one stage.
te::Program doubled(int64_t rows, int64_t n) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {rows, n});
  return b.finish("doubled", {b.compute("y", {rows, n}, [&](const auto& i) { return x(i) * float_imm(2); })});
}

TEST(Primitives, WithoutAnyTheLoopsAreTheAxes) {
  EXPECT_EQ(loops_of(doubled(3, 5), {}),
            "program doubled\n\nkernel y(x: f32[3, 5] param, y: f32[3, 5] param written) {\n"
            "  for y.i0 in 3 {\n    for y.i1 in 5 {\n      y[y.i0, y.i1] = (x[y.i0, y.i1] * 2:f32)\n    }\n  }\n}\n");
}

TEST(Primitives, ReductionsStartFromTheirIdentityOutsideTheirLoops) {
  const std::string text = loops_of(matmul_relu(3, 5, 2), {});
  expect_part(text,
              "    for y.i1 in 5 {\n      y[y.i0, y.i1] = 0:f32\n      for y.r0 in 2 {\n        y[y.i0, y.i1] = fma(");
  Schedule outer;
  outer.reorder("y", {"r0", "i1"});
  expect_part(loops_of(matmul_relu(3, 5, 2), outer), "for y.i1.init in 5 {\n      y[y.i0, y.i1.init] = 0:f32");
}

TEST(Primitives, SplitThatDividesNeedsNoGuard) {
  Schedule s;
  s.split("y", "i1", {3});
  const std::string text = loops_of(doubled(2, 6), s);
  expect_part(text, "for y.i1.0 in 2 {\n      for y.i1.1 in 3 {");
  EXPECT_EQ(text.find("if"), std::string::npos) << text;
}

TEST(Primitives, SplitThatDoesNotDivideGuards) {
  Schedule s;
  s.split("y", "i1", {4});
  expect_part(loops_of(doubled(2, 6), s), "if (((y.i1.0 * 4) + y.i1.1) < 6)");
}

TEST(Primitives, SplitIntoSeveral) {
  Schedule s;
  s.split("y", "i1", {2, 3});
  const std::string text = loops_of(doubled(1, 12), s);
  expect_part(text, "for y.i1.0 in 2");
  expect_part(text, "for y.i1.1 in 2");
  expect_part(text, "for y.i1.2 in 3");
}

TEST(Primitives, SplitRefuses) {
  const te::Program p = doubled(2, 6);
  EXPECT_EQ(refusal(p, Schedule().split("z", "i0", {2})), "schedule primitive 'split z i0 [2]': no stage z");
  EXPECT_EQ(refusal(p, Schedule().split("y", "r0", {2})),
            "schedule primitive 'split y r0 [2]': stage y has no loop r0; its loops are i0 i1");
  EXPECT_EQ(refusal(p, Schedule().split("y", "i0", {0})),
            "schedule primitive 'split y i0 [0]': factors are at least 1 and not that large");
  EXPECT_EQ(refusal(p, Schedule().split("y", "i0", {-1, -2})),
            "schedule primitive 'split y i0 [-1,-2]': factors are at least 1 and not that large");
  EXPECT_EQ(refusal(p, Schedule().vectorize("y", "i1").split("y", "i1", {2})),
            "schedule primitive 'split y i1 [2]': loop i1 of y is vectorised or unrolled already");
}

TEST(Primitives, ReorderTakesThePlacesTogether) {
  Schedule s;
  s.split("y", "i0", {2}).reorder("y", {"i1", "i0.0"});
  const std::string text = loops_of(doubled(4, 3), s);
  expect_part(text, "for y.i1 in 3 {\n    for y.i0.1 in 2 {\n      for y.i0.0 in 2 {");
}

TEST(Primitives, ReorderRefuses) {
  EXPECT_EQ(refusal(doubled(2, 6), Schedule().reorder("y", {"i0", "i0"})),
            "schedule primitive 'reorder y i0 i0': reorder names a loop twice");
  EXPECT_EQ(refusal(doubled(2, 6), Schedule().reorder("y", {"i0", "i2"})),
            "schedule primitive 'reorder y i0 i2': stage y has no loop i2; its loops are i0 i1");
}

TEST(Primitives, FuseDividesTheLoopAgain) {
  Schedule s;
  s.fuse("y", {"i0", "i1"});
  const std::string text = loops_of(doubled(2, 5), s);
  expect_part(text, "for y.i0$i1 in 10 {");
  expect_part(text, "y[floordiv(y.i0$i1, 5), floormod(y.i0$i1, 5)]");
}

TEST(Primitives, FuseRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  EXPECT_EQ(refusal(p, Schedule().fuse("y", {"i1", "i0"})),
            "schedule primitive 'fuse y i1 i0': fuse: loop i0 is not next in order");
  EXPECT_EQ(refusal(p, Schedule().fuse("y", {"i1", "r0"})),
            "schedule primitive 'fuse y i1 r0': fuse: reduction and spatial loops");
  EXPECT_EQ(refusal(p, Schedule().unroll("y", "i1").fuse("y", {"i0", "i1"})),
            "schedule primitive 'fuse y i0 i1': loop i1 of y is vectorised or unrolled already");
}

TEST(Primitives, MarksShowInTheLoops) {
  Schedule s;
  s.vectorize("y", "i1").unroll("y", "i0");
  expect_part(loops_of(doubled(2, 5), s), "for y.i0 in 2 unrolled {\n    for y.i1 in 5 vectorized {");
}

TEST(Primitives, MarksRefuse) {
  const te::Program p = doubled(2, 6);
  EXPECT_EQ(refusal(p, Schedule().unroll("y", "i0").unroll("y", "i0")),
            "schedule primitive 'unroll y i0': loop i0 of y is marked twice");
  EXPECT_EQ(refusal(p, Schedule().vectorize("y", "i0").vectorize("y", "i1")),
            "schedule primitive 'vectorize y i1': loop i0 of y is vectorised already");
  EXPECT_EQ(refusal(testing::arg_max(3, 4), Schedule().vectorize("value", "r0")),
            "schedule primitive 'vectorize value r0': loop r0 reduces tuples");
  EXPECT_EQ(
      refusal(matmul_relu(2, 3, 4), Schedule().compute_at("y", "z", "i1", loop::Scope::kStack).vectorize("z", "i0")),
      "schedule primitive 'vectorize z i0': stage y is attached inside loop i0");
}

TEST(Primitives, ParallelLoopsAreTiles) {
  Schedule s;
  s.parallel("y", {"i0"});
  expect_part(loops_of(doubled(3, 5), s), "kernel y(x: f32[3, 5] param, y: f32[3, 5] param written) tiles y.i0 in 3 {");
  Schedule both;
  both.parallel("y", {"i0", "i1"});
  const std::string text = loops_of(doubled(3, 5), both);
  expect_part(text, "tiles y.tile in 15 {");
  expect_part(text, "let y.i0 = floordiv(y.tile, 5)");
  expect_part(text, "let y.i1 = floormod(y.tile, 5)");
  expect_part(loops_of(doubled(3, 5), Schedule().parallel("y", {"i0"}, {1, 2, 3})), "in 3 units 2 together 3 {");
}

TEST(Primitives, TilesFromTheLastOne) {
  expect_part(loops_of(doubled(3, 5), Schedule().parallel("y", {"i0"}, {}, kLastFirst)), "let y.i0 = (2 - y.tile)");
  const std::string both = loops_of(doubled(3, 5), Schedule().parallel("y", {"i0", "i1"}, {}, kLastFirst));
  expect_part(both, "let y.i0 = floordiv((14 - y.tile), 5)");
  expect_part(both, "let y.i1 = floormod((14 - y.tile), 5)");
}

TEST(Primitives, ParallelRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  EXPECT_EQ(refusal(p, Schedule().parallel("y", {"i0"}, {}, "backwards")),
            "schedule primitive 'parallel y i0 \"backwards\"': parallel: the option is \"last first\" or none");
  EXPECT_EQ(refusal(p, Schedule().parallel("y", {"i0"}, {2}, kLastFirst)),
            "schedule primitive 'parallel y i0 [2] \"last first\"': parallel: tiles of clusters have their order");
  EXPECT_EQ(refusal(p, Schedule().parallel("y", {"i1"})),
            "schedule primitive 'parallel y i1': parallel: loop i1 is not spatial loop 0 of y");
  EXPECT_EQ(refusal(p, Schedule().reorder("y", {"r0", "i0"}).parallel("y", {"r0"})),
            "schedule primitive 'parallel y r0': parallel: loop r0 is not spatial loop 0 of y");
  EXPECT_EQ(refusal(p, Schedule().compute_at("y", "z", "i0", loop::Scope::kStack).parallel("y", {"i0"})),
            "schedule primitive 'parallel y i0': parallel: stage y is not a root");
  for (const std::vector<int64_t>& factors : {std::vector<int64_t>{1, 2}, {2, 3, 1}}) {
    EXPECT_NE(refusal(p, Schedule().parallel("y", {"i0"}, factors)).find("of which clusters take whole numbers"),
              std::string::npos);
  }
}

TEST(Primitives, InlinePutsTheBodyInItsReaders) {
  Schedule s;
  s.inline_stage("shifted");
  const std::string text = loops_of(testing::broadcast_chain(2, 3, 5), s);
  EXPECT_EQ(text.find("kernel shifted"), std::string::npos) << text;
  expect_part(text, "(x[y.i0, y.i1, y.i2] + s[y.i1, 0])");
}

TEST(Primitives, InlineRefuses) {
  EXPECT_EQ(refusal(matmul_relu(2, 3, 4), Schedule().inline_stage("y")),
            "schedule primitive 'inline y': inline: stage y is a reduction or an output");
  EXPECT_EQ(refusal(matmul_relu(2, 3, 4), Schedule().inline_stage("z")),
            "schedule primitive 'inline z': inline: stage z is a reduction or an output");
}

TEST(Primitives, ComputeAtKeepsOnlyWhatIsRead) {
  Schedule s;
  s.compute_at("y", "z", "i0", loop::Scope::kScratch);
  const std::string text = loops_of(matmul_relu(3, 5, 2), s);
  expect_part(text, "alloc y: f32[1, 5] scratch");
  EXPECT_EQ(text.find("kernel y"), std::string::npos) << text;
}

TEST(Primitives, ComputeAtOfAWindowHoldsTheWindow) {
  Schedule s;
  s.compute_at("pad", "conv", "i1", loop::Scope::kStack);
  expect_part(loops_of(testing::conv_2d({5, 3, 7, 3, 1}), s), "alloc pad: f32[3, 3, 3] stack");
  Schedule row;
  row.split("conv", "i1", {2}).compute_at("pad", "conv", "i1.0", loop::Scope::kStack);
  expect_part(loops_of(testing::conv_2d({5, 3, 7, 3, 2}), row), "alloc pad: f32[3, 5, 3] stack");
}

// Where a fused loop tells the place of the window, the place is no sum of loops, but what moves inside is.
TEST(Primitives, ComputeAtOfAWindowUnderAFusedLoopHoldsTheWindow) {
  Schedule s;
  s.split("conv", "i1", {2}).fuse("conv", {"i0", "i1.0"}).compute_at("pad", "conv", "i0$i1.0", loop::Scope::kStack);
  expect_part(loops_of(testing::conv_2d({6, 3, 7, 3, 1}), s), "alloc pad: f32[3, 4, 3] stack");
}

// Blocks of 6 rows in tiles of 4: the second tile of a block has 2 rows, for the sums and for the rows of x they read.
TEST(Primitives, ComputeAtInsideAnAttachedStageStopsAtItsTail) {
  Schedule s;
  s.cache_write("y").cache_read("x", {"y.acc"});
  s.split("z", "i0", {6}).compute_at("y", "z", "i0.0", loop::Scope::kScratch);
  s.split("y", "i0", {4}).compute_at("y.acc", "y", "i0.0", loop::Scope::kRegister);
  s.compute_at("x.cache", "z", "i0.0", loop::Scope::kStack);
  const std::string text = loops_of(matmul_relu(12, 5, 3), s);
  expect_part(text, "alloc y: f32[6, 5] scratch");
  expect_part(text, "alloc x.cache: f32[6, 3] stack");
  expect_part(text, "if (((y.i0.0 * 4) + y.acc.i0) < 6)");
}

TEST(Primitives, ComputeAtRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  const auto at = [](const char* stage, const char* consumer, const char* loop) {
    return Schedule().compute_at(stage, consumer, loop, loop::Scope::kStack);
  };
  EXPECT_EQ(refusal(p, at("z", "y", "i0")),
            "schedule primitive 'compute_at z y i0 \"stack\"': compute_at: z leaves the group");
  EXPECT_EQ(refusal(p, at("y", "z", "r0")),
            "schedule primitive 'compute_at y z r0 \"stack\"': stage z has no loop r0; its loops are i0 i1");
  EXPECT_EQ(refusal(p, Schedule().split("y", "i0", {2}).compute_at("y", "z", "i0", loop::Scope::kStack)),
            "schedule primitive 'compute_at y z i0 \"stack\"': compute_at: y comes before its loop primitives");
  EXPECT_EQ(refusal(p, parse_schedule("compute_at y z i0 \"heap\"")),
            "schedule primitive 'compute_at y z i0 \"heap\"': compute_at: unknown scope 'heap'");
  EXPECT_EQ(refusal(testing::softmax(3, 5), at("exp", "y", "i0")),
            "schedule primitive 'compute_at exp y i0 \"stack\"': compute_at exp y: stage sum reads it outside");
  EXPECT_EQ(refusal(p, Schedule().vectorize("z", "i1").compute_at("y", "z", "i1", loop::Scope::kStack)),
            "schedule primitive 'compute_at y z i1 \"stack\"': compute_at: loop i1 of z is vectorised");
}

TEST(Primitives, AttachedStagesHoldTheirLoops) {
  const te::Program p = matmul_relu(4, 6, 4);
  const Schedule attached = Schedule().compute_at("y", "z", "i0", loop::Scope::kStack);
  EXPECT_EQ(refusal(p, Schedule(attached).split("z", "i0", {2})),
            "schedule primitive 'split z i0 [2]': stage y is attached at loop i0 already");
  EXPECT_EQ(refusal(p, Schedule(attached).split("z", "i1", {2})), "accepted");
  EXPECT_EQ(refusal(p, Schedule(attached).cache_write("z")),
            "schedule primitive 'cache_write z': stage y is attached at z i0 already; compute_at comes after this");
  EXPECT_EQ(refusal(p, Schedule(attached).cache_read("y", {})),
            "schedule primitive 'cache_read y': stage y is attached at z i0 already; compute_at comes after this");
  const Schedule inner = Schedule().cache_write("z").compute_at("y", "z.acc", "i0", loop::Scope::kStack);
  EXPECT_EQ(refusal(p, Schedule(inner).compute_at("z.acc", "z", "i0", loop::Scope::kStack)),
            "schedule primitive 'compute_at z.acc z i0 \"stack\"': compute_at: y is attached to z.acc already");
}

TEST(Primitives, CacheReadCopiesForItsReaders) {
  Schedule s;
  s.cache_read("w", {"y"})
      .layout("w.cache", Layout().reorder({1, 0}))
      .compute_at("w.cache", "y", "i0", loop::Scope::kStack);
  expect_part(loops_of(matmul_relu(3, 5, 2), s), "alloc w.cache: f32[5, 2] stack");
}

// Of x + x^T only the transposed read, and that of one row.
TEST(Primitives, CacheReadCopiesForOneOfSeveralReads) {
  Schedule s;
  s.cache_read("x", {"y"}, {2}).compute_at("x.cache", "y", "i0", loop::Scope::kStack);
  const std::string text = loops_of(testing::plus_transposed(7), s);
  expect_part(text, "alloc x.cache: f32[7, 1] stack");
  expect_part(text, "y[y.i0, y.i1] = (x[y.i0, y.i1] + x.cache[y.i1, 0])");
}

TEST(Primitives, ATensorHasACopyForEachOfItsReads) {
  Schedule s;
  s.cache_read("x", {"y"}, {1});
  EXPECT_EQ(s.next_cache("x"), "x.cache2");
  s.cache_read("x", {"y"}, {1});  // of those that are left
  expect_part(loops_of(testing::plus_transposed(7), s), "(x.cache[y.i0, y.i1] + x.cache2[y.i1, y.i0])");
}

// What three rows of the result read of the padded image lies together.
TEST(Primitives, LayoutsUnfoldWindows) {
  const te::Program p = testing::conv_2d({9, 4, 6, 3, 1});
  Schedule s;
  s.layout("pad", Layout().unfold(0, 5, 3)).split("conv", "i0", {3});
  expect_part(loops_of(p, s), "pad: f32[3, 5, 11, 4]");
  expect_part(loops_of(p, s), "pad[conv.i0.0, (conv.i0.1 + conv.r1)");
  const te::ValueMap inputs = testing::whole_inputs(p);
  EXPECT_EQ(testing::first_difference(p, te::evaluate(p, inputs), testing::run_loops(apply(p, s), inputs), 0), "");
  EXPECT_EQ(
      refusal(p, Schedule().layout("pad", Layout().unfold(0, 5, 2))),
      "schedule primitive 'layout pad \"unfold(0, 5, 2)\"': the layout does not fit: 'conv' reads 'pad': unfold(0, "
      "5, 2) of 11 elements: windows of 3 every 1, from 0 to 10: 3 in a tile need 5 every 3, all inside");
}

TEST(Primitives, LayoutsAreOfTensorsBetweenStages) {
  const te::Program p = matmul_relu(2, 3, 4);
  const Layout exchanged = Layout().reorder({1, 0});
  expect_part(loops_of(p, Schedule().layout("y", exchanged)), "y: f32[3, 2] param written");
  EXPECT_EQ(refusal(p, Schedule().layout("z", exchanged)),
            "schedule primitive 'layout z \"reorder(1, 0)\"': layout: z is no tensor between two stages");
  EXPECT_EQ(refusal(p, Schedule().layout("x", exchanged)),
            "schedule primitive 'layout x \"reorder(1, 0)\"': layout: x is no tensor between two stages");
  EXPECT_EQ(refusal(p, Schedule().split("y", "r0", {2}).layout("y", exchanged)),
            "schedule primitive 'layout y \"reorder(1, 0)\"': stage y has loop primitives before one that changes its "
            "body");
  EXPECT_EQ(loops_of(p, Schedule().split("z", "i0", {2}).layout("y", exchanged)),
            loops_of(p, Schedule().layout("y", exchanged).split("z", "i0", {2})))
      << "what reads it keeps its loops";
  EXPECT_EQ(refusal(p, parse_schedule("split z i0 [2] \"fast\"")),
            "schedule primitive 'split z i0 [2] \"fast\"': it takes no option");
}

TEST(Primitives, CacheReadRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  EXPECT_EQ(refusal(p, Schedule().cache_read("z", {})),
            "schedule primitive 'cache_read z': cache_read: nothing reads z");
  EXPECT_EQ(refusal(p, Schedule().cache_read("bias", {"y"})),
            "schedule primitive 'cache_read bias y': cache_read: nothing reads bias");
  EXPECT_EQ(refusal(p, Schedule().split("y", "i0", {2}).cache_read("w", {})),
            "schedule primitive 'cache_read w': stage y has loop primitives before one that changes its body");
  EXPECT_EQ(refusal(p, Schedule().cache_read("w", {"y"}, {2})),
            "schedule primitive 'cache_read w y [2]': cache_read: y reads w 1 times");
  EXPECT_EQ(refusal(p, Schedule().cache_read("w", {}, {1})),
            "schedule primitive 'cache_read w [1]': cache_read: one read is that of one stage");
}

TEST(Primitives, CacheWriteAccumulatesApart) {
  Schedule s;
  s.cache_write("y").compute_at("y.acc", "y", "i1", loop::Scope::kRegister);
  const std::string text = loops_of(matmul_relu(3, 5, 2), s);
  expect_part(text, "alloc y.acc: f32[1, 1] register");
  expect_part(text, "y[y.i0, y.i1] = y.acc[0, 0]");
}

TEST(Primitives, CacheWriteRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  EXPECT_EQ(refusal(p, Schedule().cache_write("x")),
            "schedule primitive 'cache_write x': cache_write: no stage x with one output");
  EXPECT_EQ(refusal(testing::arg_max(3, 4), Schedule().cache_write("value")),
            "schedule primitive 'cache_write value': cache_write: no stage value with one output");
  EXPECT_EQ(refusal(p, Schedule().compute_at("y", "z", "i0", loop::Scope::kStack).cache_write("y")),
            "schedule primitive 'cache_write y': stage y has loop primitives before one that changes its body");
}

TEST(Primitives, RfactorKeepsPartialSums) {
  for (const int64_t k : {1, 7, 8}) {
    Schedule s;
    s.rfactor("y", "r0", 4);
    const std::string text = loops_of(matmul_relu(3, 5, k), s);
    expect_part(text, "y.rf: f32[3, 5, 4] param written");
    EXPECT_EQ(text.find("if (") != std::string::npos, k % 4 != 0) << text;
  }
}

TEST(Primitives, RfactorRefuses) {
  EXPECT_EQ(refusal(matmul_relu(2, 3, 4), Schedule().rfactor("y", "r1", 2)),
            "schedule primitive 'rfactor y r1 [2]': rfactor: y has no reduction axis r1");
  EXPECT_EQ(refusal(matmul_relu(2, 3, 4), Schedule().rfactor("z", "i0", 2)),
            "schedule primitive 'rfactor z i0 [2]': rfactor: z has no reduction axis i0");
  EXPECT_EQ(refusal(testing::arg_max(3, 4), Schedule().rfactor("value", "r0", 2)),
            "schedule primitive 'rfactor value r0 [2]': rfactor: no stage value with one output");
}

TEST(Primitives, TensorizeRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  EXPECT_EQ(refusal(p, Schedule().tensorize("y", "r0", "dot", {})),
            "schedule primitive 'tensorize y r0 \"dot\"': tensorize: unknown body 'dot'");
  EXPECT_EQ(
      refusal(p, Schedule().tensorize("z", "i0", "fma_tile", {})),
      "schedule primitive 'tensorize z i0 \"fma_tile\"': tensorize fma_tile: stage z is no sum of float products");
  EXPECT_EQ(refusal(p, Schedule().tensorize("y", "r0", "fma_tile", {})), "accepted");
}

TEST(Primitives, PrefetchGoesThroughTheNextBlockInEqualSteps) {
  Schedule s;
  s.cache_write("y").compute_at("y.acc", "y", "i0", loop::Scope::kRegister);
  s.reorder("y.acc", {"r0", "i0", "i1"}).prefetch("y.acc", {"r0", "y", "i0"}, "w", {20, 2, 16});
  // 3 rows by 4 steps of the sum, each 2 lines of 16 elements, beginning 20 elements after w[0, 0].
  const std::string text = loops_of(matmul_relu(3, 5, 4), s);
  expect_part(text, "prefetch(2) w[0, (((y.i0 * 128) + (y.acc.r0 * 32)) + 20)]");
  expect_part(text, "prefetch(2) w[0, (((y.i0 * 128) + (y.acc.r0 * 32)) + 36)]");
  EXPECT_EQ(text.find("+ 52"), std::string::npos) << text;
}

TEST(Primitives, PrefetchRefuses) {
  const te::Program p = matmul_relu(2, 3, 4);
  const auto accumulated = [] {
    return Schedule().cache_write("y").compute_at("y.acc", "y", "i0", loop::Scope::kRegister);
  };
  EXPECT_EQ(refusal(p, accumulated().prefetch("y.acc", {"r0", "y"}, "w", {20, 1, 16})),
            "schedule primitive 'prefetch y.acc r0 y [20,1,16] \"w\"': a loop of the consumer is missing");
  EXPECT_EQ(refusal(p, accumulated().prefetch("y.acc", {"r0", "z", "i0"}, "w", {20, 1, 16})),
            "schedule primitive 'prefetch y.acc r0 z i0 [20,1,16] \"w\"': stage y.acc is not attached in z");
  EXPECT_EQ(refusal(p, accumulated().prefetch("y.acc", {"r0"}, "bias", {20, 1, 16})),
            "schedule primitive 'prefetch y.acc r0 [20,1,16] \"bias\"': stage y.acc reads bias 0 times");
  EXPECT_EQ(refusal(p, accumulated().prefetch("y", {"i0"}, "y.acc", {20, 1, 16})),
            "schedule primitive 'prefetch y i0 [20,1,16] \"y.acc\"': y.acc is a local buffer");
}

// A loop that prefetches count stays as it is: cut or moved, it would take them along to nowhere.
TEST(Primitives, LoopsOfPrefetchesStay) {
  const te::Program p = matmul_relu(3, 5, 4);
  const auto prefetched = [] {
    Schedule s;
    s.cache_write("y").compute_at("y.acc", "y", "i0", loop::Scope::kRegister);
    s.reorder("y.acc", {"r0", "i0", "i1"}).prefetch("y.acc", {"r0", "y", "i0"}, "w", {20, 2, 16});
    return s;
  };
  EXPECT_EQ(refusal(p, prefetched().split("y.acc", "r0", {2})),
            "schedule primitive 'split y.acc r0 [2]': stage y.acc prefetches w by loop r0 already");
  EXPECT_EQ(refusal(p, prefetched().reorder("y.acc", {"i0", "r0"})),
            "schedule primitive 'reorder y.acc i0 r0': stage y.acc prefetches w by loop r0 already");
  EXPECT_EQ(refusal(p, prefetched().split("y.acc", "i1", {2})), "accepted");
  // Of the consumer, whose loop the iterations are counted over too, attachment forbids the same.
  EXPECT_EQ(refusal(p, prefetched().split("y", "i0", {2})),
            "schedule primitive 'split y i0 [2]': stage y.acc is attached at loop i0 already");
}

}  // namespace
}  // namespace tw::schedule
