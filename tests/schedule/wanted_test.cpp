// Zeros behind the last row of a tile: left out where nobody reads them, kept where somebody does.
#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/te_evaluate.h"
#include "tests/harness/te_programs.h"

namespace tw::schedule {
namespace {

// The one line of the loops that stores to `stage`.
std::string store_of(const loop::Program& loops, const std::string& stage) {
  const std::string text = loop::to_string(loops);
  const size_t at = text.find(" " + stage + "[");
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

void expect_same(const te::Program& p, const loop::Program& loops) {
  const te::ValueMap inputs = testing::whole_inputs(p);
  EXPECT_EQ(testing::first_difference(p, te::evaluate(p, inputs), testing::run_loops(loops, inputs), 1e-6), "")
      << loop::to_string(loops);
}

TEST(Wanted, RowsBehindTheLastAreComputedWhereWhatTheyReadIsThere) {
  const te::Program p = te::parse_program(R"(te rows
input x: f32[6, 4]
first: f32[6, 4] (i0, i1) = x[i0, i1] * 2:f32
second: f32[6, 4] (i0, i1) = first[i0, i1] + 1:f32
y: f32[6, 4] (i0, i1) = second[i0, i1] * second[i0, i1]
output y
)");
  const Layout padded = Layout().pad(0, 0, 2).split(0, {2, 4});
  Schedule s;
  s.layout("first", padded).layout("second", padded).split("y", "i0", {4});
  for (const char* stage : {"second", "first"}) s.compute_at(stage, "y", "i0.0", loop::Scope::kRegister);
  const loop::Program loops = apply(p, s);
  EXPECT_NE(store_of(loops, "first").find("select"), std::string::npos) << "x has no such rows";
  EXPECT_NE(store_of(loops, "second"), "");
  EXPECT_EQ(store_of(loops, "second").find("select"), std::string::npos) << store_of(loops, "second");
  expect_same(p, loops);
}

// `all` and `some`, its first six rows, in registers where `term` of them is summed.
te::Program summed(const std::string& term) {
  return te::parse_program(R"(te sums
input x: f32[8, 4]
all: f32[8, 4] (i0, i1) = x[i0, i1] * 2:f32
some: f32[8, 4] (i0, i1) = select((i0 < 6), all[i0, i1], 0:f32)
y: f32[4] = sum(r0 in 8) over (i0) of )" +
                           term + "\noutput y\n");
}
Schedule in_registers() {
  Schedule s;
  for (const char* stage : {"some", "all"}) s.compute_at(stage, "y", "i0", loop::Scope::kRegister);
  return s;
}

void expect_zeros_stay(const te::Program& p) {
  const loop::Program loops = apply(p, in_registers());
  EXPECT_NE(store_of(loops, "some").find("select"), std::string::npos);
  expect_same(p, loops);
}

TEST(Wanted, ZerosThatASumReadsStay) { expect_zeros_stay(summed("some[r0, i0]")); }

// One reader wants less than all, another one all.
TEST(Wanted, WhatOneOfTwoReadersWantsStays) {
  expect_zeros_stay(summed("(some[r0, i0] + select((r0 < 6), some[r0, i0], 0:f32))"));
}

// Where every reader asks first, nobody wants the zeros; a division by what may be 0 there keeps its test.
TEST(Wanted, ReadersThatAskThemselves) {
  const auto program = [](const std::string& type, const std::string& value) {
    return te::parse_program(
        "te asks\ninput x: " + type + "[8, 4]\nall: " + type + "[8, 4] (i0, i1) = x[i0, i1] + 2:" + type +
        "\nsome: " + type + "[8, 4] (i0, i1) = select((i0 < 6), " + value + ", 0:" + type + ")\ny: " + type +
        "[4] = sum(r0 in 8) over (i0) of select((r0 < 6), some[r0, i0], 0:" + type + ")\noutput y\n");
  };
  const Schedule s = in_registers();
  const te::Program floats = program("f32", "all[i0, i1]");
  const loop::Program loops = apply(floats, s);
  EXPECT_EQ(store_of(loops, "some").find("select"), std::string::npos) << store_of(loops, "some");
  expect_same(floats, loops);
  const te::Program integers = program("i32", "(7:i32 / all[i0, i1])");
  EXPECT_NE(store_of(apply(integers, s), "some").find("select"), std::string::npos);
}

}  // namespace
}  // namespace tw::schedule
