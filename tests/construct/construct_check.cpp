#include "tests/construct/construct_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "codegen/cuda/emit.h"
#include "lower/pass.h"
#include "support/math.h"
#include "te/merge_axes.h"
#include "te/rewrite.h"
#include "tests/harness/loop_check.h"
#include "tests/harness/takes_all.h"

namespace tw::construct {

te::Program merged(const te::Program& program) {
  const te::Program p = te::drop_unit_reductions(program);
  return te::merge_reductions(te::apply_layouts(p, te::mergeable_axes(p)));
}

namespace {

// How often the running test has been here with `key`, this time in it.
size_t times_with(const std::string& key) {
  static const ::testing::TestInfo* running = nullptr;
  static std::map<std::string, size_t> times;
  const ::testing::TestInfo* now = ::testing::UnitTest::GetInstance()->current_test_info();
  if (now != running) times.clear();
  running = now;
  return ++times[key];
}

bool is_interpreted(const GroupTask& c, const targets::Target& t, Values values) {
  if (testing::takes_all()) return true;
  const size_t n =
      times_with(fmt::format("{} {} {}", t.info.name, values == Values::kSpecial, te::to_string(c.program)));
  const auto root = static_cast<size_t>(std::lround(std::sqrt(n)));
  return root * root == n;
}

// Whether what a program rounds to 16 bits is beyond their largest number: whole products of several matrices may be.
bool is_beyond_halves(const te::Program& program, const te::ValueMap& values) {
  constexpr double kMost = 65504;
  return std::ranges::any_of(program.computes, [&](const te::Compute& c) {
    const auto beyond = [&](double x) { return std::abs(x) > kMost && std::isfinite(x); };
    return c.outputs[0].type == DataType::f16() && std::ranges::any_of(values.at(c.name()).floats, beyond);
  });
}

// Whole numbers, or eighths of them where those of products would leave the range of f16.
te::ValueMap values_within(const te::Program& program) {
  te::ValueMap inputs = testing::whole_inputs(program);
  // What a mask leaves is as low for small inputs.
  for (int tries = 0; tries < 8 && is_beyond_halves(program, te::evaluate(program, inputs)); ++tries) {
    for (auto& [name, values] : inputs) {
      for (double& x : values.floats) x /= 8;
    }
  }
  return inputs;
}

}  // namespace

void check_candidate(const GroupTask& c, const targets::Target& t, const Construction& built, double tolerance,
                     Passes passes, Values values) {
  EXPECT_EQ(schedule::parse_schedule(schedule::to_string(built.schedule)), built.schedule);
  const bool interpreted = passes != Passes::kSome || is_interpreted(c, t, values);
  te::ValueMap inputs, want;
  if (interpreted) {
    inputs = values == Values::kWhole ? values_within(c.program) : testing::special_inputs(c.program, c.kept);
    want = te::evaluate(c.program, inputs);
  }
  te::ValueMap stored_inputs = inputs;
  for (const auto& [name, layout] : built.constant_layouts) {
    if (inputs.count(name) != 0) stored_inputs[name] = testing::stored_in(inputs.at(name), layout);
  }
  const te::Program stored = te::apply_layouts(c.program, built.constant_layouts);
  lower::RunOptions run;
  run.lower.vector_bytes = t.info.vector_bytes;
  if (t.info.kind == DeviceKind::kCuda) run.lower.has.halves = true;
  run.lower.inner_divisor = schedule::gathers(built.schedule) ? 0 : 1;
  run.dump = [&](std::string_view pass, const loop::Program& p) {
    if (!interpreted || (passes != Passes::kEach && pass != lower::pipeline().back().name)) return;
    SCOPED_TRACE(std::string(pass) + "\n" + loop::to_string(p) + schedule::to_string(built.schedule));
    loop::Memory memory;
    ASSERT_NO_THROW(memory = testing::run_loops(p, stored_inputs));
    ASSERT_EQ(testing::first_difference(c.program, want, memory, tolerance), "");
  };
  try {
    const loop::Program lowered = lower::lower(schedule::apply(stored, built.schedule), run);
    if (t.info.kind == DeviceKind::kCuda) codegen::emit_cuda(lowered);
  } catch (const std::exception& e) {
    FAIL() << e.what() << "\n" << te::to_string(stored) << schedule::to_string(built.schedule);
  }
}

void check(const GroupTask& c, const std::string& target, const std::string& family, double tolerance, Values values) {
  const targets::Target t = targets::find_target(target);
  std::vector<Decline> declines;
  const Candidates candidates = construct(t.families, {c.program, c.kept}, t.info, &declines);
  std::string reasons;
  for (const Decline& r : declines) reasons += r.family + ": " + r.reason + "\n";
  Passes passes = times_with("check") == 1 ? Passes::kEach : Passes::kSome;
  for (const Construction& candidate : candidates) {
    EXPECT_EQ(candidate.family, family) << reasons;
    check_candidate(c, t, candidate, tolerance, passes, values);
    passes = Passes::kSome;
  }
}

targets::Target with_tiny_caches(const std::string& name) {
  targets::Target t = targets::find_target(name);
  t.info.levels.clear();
  for (const auto& [level, bytes] : {std::pair<const char*, int64_t>{"L1", 2048}, {"L2", 8192}, {"L3", 1 << 15}}) {
    MemoryLevel memory;
    memory.name = level;
    memory.capacity_bytes = bytes;
    memory.read_per_ns = 1e5 / static_cast<double>(bytes);
    t.info.levels.push_back(memory);
  }
  t.info.levels.push_back(t.info.levels.back());
  t.info.levels.back().capacity_bytes = int64_t{1} << 30;
  t.info.levels.back().read_per_ns = 1;
  return t;
}

}  // namespace tw::construct
