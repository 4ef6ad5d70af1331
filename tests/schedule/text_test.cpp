// Schedules as text: what prints parses back, and errors name the line and the word.
#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::schedule {
namespace {

// One of each primitive.
Schedule all_primitives() {
  Schedule s;
  s.cache_read("w", {"conv", "conv.1"}).layout("w.cache", Layout().split(0, {2, 8}).reorder({0, 2, 1}).pad(2, 0, 3));
  s.matrices("dense", {"i0$i2", "i1", "r0$r1"}, {64, 128, 32});
  s.cache_read("x", {}).cache_read("y", {"conv"}, {2});
  s.cache_write("conv").rfactor("sum", "r0", 16).inline_stage("pad");
  s.split("conv", "i3", {16}).split("conv", "i2", {3, 5}).reorder("conv", {"i3.0", "i2.0", "r0"});
  s.fuse("conv", {"i0", "i1"}).vectorize("conv", "i3.1").unroll("conv", "i2.2").parallel("conv", {"i0$i1", "i3.0"});
  s.compute_at("conv.acc", "conv", "i2.0", loop::Scope::kRegister);
  s.compute_at("pad", "conv", "i2.0", loop::Scope::kStack);
  s.compute_at("x.cache", "conv", "i2.0", loop::Scope::kScratch);
  s.pipeline("dense.acc", "r0.0", 3);
  s.tensorize("conv.acc", "r0", "fma_tile", {6, 2});
  s.implement("dense", loop::parse_implementation("cublaslt 130100 0 gemm batch=1 m=8 n=4 k=2 a=x0:f16:2:0 "
                                                  "b=x1:f16:4:0 out=dense:f16:4:0"));
  s.prefetch("conv.acc", {"r0", "conv", "i2.0"}, "w", {64, 2, 16});
  return s;
}

TEST(ScheduleText, EveryPrimitiveSurvives) {
  const Schedule s = all_primitives();
  const Schedule parsed = parse_schedule(to_string(s));
  EXPECT_EQ(parsed, s) << to_string(s) << "became\n" << to_string(parsed);
}

TEST(ScheduleText, OneLineEach) {
  Schedule s;
  s.split("conv", "i3", {16, 2})
      .reorder("conv", {"i3.0", "r0"})
      .compute_at("conv.acc", "conv", "i2", loop::Scope::kRegister);
  EXPECT_EQ(to_string(s), "split conv i3 [16,2]\nreorder conv i3.0 r0\ncompute_at conv.acc conv i2 \"register\"\n");
}

TEST(ScheduleText, CommentsAndEmptyLinesDoNotCount) {
  Schedule wanted;
  wanted.split("y", "i0", {4}).inline_stage("pad");
  EXPECT_EQ(parse_schedule("# made by hand\n\n  split y i0 [4]\n \n  # and\ninline pad"), wanted);
  EXPECT_EQ(parse_schedule(""), Schedule());
}

TEST(ScheduleText, ErrorsNameTheLine) {
  const auto message = [](const char* text) {
    try {
      parse_schedule(text);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("split y i0 [4]\nsplitt y i0 [4]"), "schedule line 2: unknown primitive 'splitt'");
  EXPECT_EQ(message("\n\nvectorize"), "schedule line 3: 'vectorize' names no stage");
  EXPECT_EQ(message("split y i0 [4,x]"), "schedule line 1: 'x' is no list of numbers");
  EXPECT_EQ(message("split y i0 [four]"), "schedule line 1: 'four' is no list of numbers");
}

// What a person may write into a plan file must end in a UserError, never in a crash.
TEST(ScheduleText, HalfLinesAreRefused) {
  const char* const lines[] = {"split y",
                               "split y i0",
                               "split y i0 []",
                               "split y i0 [0]",
                               "split y i0 [-4]",
                               "reorder y i0 i0",
                               "fuse y",
                               "fuse y i0 i9",
                               "vectorize y",
                               "unroll y",
                               "parallel y i9",
                               "compute_at p",
                               "compute_at p y",
                               "compute_at p y i0",
                               "cache_read nothing",
                               "cache_read x \"reorder(0)\"",
                               "cache_write none",
                               "rfactor y r0",
                               "rfactor y r0 [0]",
                               "rfactor y",
                               "tensorize y",
                               "tensorize y r0 [1]",
                               "inline y",
                               "split y i0 [99999999999999999999]",
                               "inline none",
                               "split y i0 [4000000000,4000000000,4000000000]"};
  te::Builder b;
  const te::Tensor x = b.placeholder("x", DataType::f32(), {3, 4});
  const te::Tensor p = b.compute("p", {3, 4}, [&](const auto& i) { return x(i) + float_imm(1); });
  const te::Tensor y = b.reduce("y", {3}, {4}, te::CombinerKind::kSum, [&](const auto& i, const auto& r) {
    return p({i[0], r[0]});
  });
  const te::Program program = b.finish("program", {y});
  for (const char* line : lines) EXPECT_THROW(apply(program, parse_schedule(line)), UserError) << line;
}

}  // namespace
}  // namespace tw::schedule
