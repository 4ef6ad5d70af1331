// Products whose rows between them are computed block by block: gradients of attention, wide hidden layers.
#include <gtest/gtest.h>

#include "codegen/cuda/emit.h"
#include "lower/pass.h"
#include "schedule/match/tile_chain.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"

namespace tw::construct {
namespace {

struct Heads {
  int64_t count, queries, keys, depth, values;
};

// Scores of queries and keys, and the gradients of the weights that they give. No factor keeps more than single digits
// of a binary number, so that sums are exact in any order.
std::string scores(const Heads& h) {
  return fmt::format(R"(input q: f16[{0}, {1}, {3}]
input k: f16[{0}, {2}, {3}]
input v: f16[{0}, {2}, {4}]
input g: f16[{0}, {1}, {4}]
input most: f32[{0}, {1}]
input dots: f32[{0}, {1}]
s: f32[{0}, {1}, {2}] = sum(r0 in {3}) over (i0, i1, i2) of (cast<f32>(q[i0, i1, r0]) * cast<f32>(k[i0, i2, r0]))
p: f32[{0}, {1}, {2}] (i0, i1, i2) = min(max(((s[i0, i1, i2] * 0.5:f32) - most[i0, i1]), -2:f32), 2:f32)
)",
                     h.count, h.queries, h.keys, h.depth, h.values);
}

std::string slopes(const Heads& h) {
  return fmt::format(
      R"(d: f32[{0}, {1}, {2}] = sum(r0 in {4}) over (i0, i1, i2) of (cast<f32>(g[i0, i1, r0]) * cast<f32>(v[i0, i2, r0]))
h: f16[{0}, {1}, {2}] (i0, i1, i2) = cast<f16>((p[i0, i1, i2] * min(max((d[i0, i1, i2] - dots[i0, i1]), -4:f32), 4:f32)))
)",
      h.count, h.queries, h.keys, h.depth, h.values);
}

te::Program of_queries(const Heads& h) {
  return te::parse_program(
      "te of_queries\n" + scores(h) + slopes(h) +
      fmt::format(
          R"(o: f32[{0}, {1}, {3}] = sum(r0 in {2}) over (i0, i1, i2) of (cast<f32>(h[i0, i1, r0]) * cast<f32>(k[i0, r0, i2]))
y: f16[{0}, {1}, {3}] (i0, i1, i2) = cast<f16>(o[i0, i1, i2])
output y
)",
          h.count, h.queries, h.keys, h.depth, h.values));
}

te::Program of_keys(const Heads& h) {
  return te::parse_program(
      "te of_keys\n" + scores(h) + slopes(h) +
      fmt::format(
          R"(o: f32[{0}, {2}, {3}] = sum(r0 in {1}) over (i0, i1, i2) of (cast<f32>(h[i0, r0, i1]) * cast<f32>(q[i0, r0, i2]))
output o
)",
          h.count, h.queries, h.keys, h.depth, h.values));
}

te::Program of_values(const Heads& h) {
  te::Program p = te::parse_program("te of_values\n" + scores(h) +
                                    fmt::format(R"(h: f16[{0}, {1}, {2}] (i0, i1, i2) = cast<f16>(p[i0, i1, i2])
o: f32[{0}, {2}, {4}] = sum(r0 in {1}) over (i0, i1, i2) of (cast<f32>(h[i0, r0, i1]) * cast<f32>(g[i0, r0, i2]))
output o
)",
                                                h.count, h.queries, h.keys, h.depth, h.values));
  std::erase_if(p.inputs, [](const te::Tensor& t) { return t.name == "v" || t.name == "dots"; });
  return p;
}

// Weights that a mask leaves none of: the keys behind each query, of which `before` come before the first query.
te::Program masked(const te::Program& whole, int64_t before) {
  std::string text = te::to_string(whole);
  const size_t at = text.find("p: f32"), body = text.find(" = ", at) + 3, end = text.find('\n', at);
  const std::string kept = fmt::format("select((i2 <= (i1 + {})), {}, 0:f32)", before, text.substr(body, end - body));
  return te::parse_program(text.replace(body, end - body, kept));
}

// A layer of more columns than a tile holds between two of few.
te::Program hidden_layer(int64_t rows, int64_t width, int64_t hidden) {
  return te::parse_program(fmt::format(R"(te hidden_layer
input x: bf16[{0}, {1}]
input u: bf16[{2}, {1}]
input b: f32[{2}]
input w: bf16[{1}, {2}]
s: f32[{0}, {2}] = sum(r0 in {1}) over (i0, i1) of (cast<f32>(x[i0, r0]) * cast<f32>(u[i1, r0]))
h: bf16[{0}, {2}] (i0, i1) = cast<bf16>(min(max((s[i0, i1] + b[i1]), 0:f32), 8:f32))
y: f32[{0}, {1}] = sum(r0 in {2}) over (i0, i1) of (cast<f32>(h[i0, r0]) * cast<f32>(w[i1, r0]))
output y
)",
                                       rows, width, hidden));
}

// Tries at most `most` schedules by warps, and as many by warp groups: the interpreter takes seconds for one.
void check_blocks(const te::Program& whole, size_t products, size_t most = 2) {
  SCOPED_TRACE(whole.name);
  const te::Program program = merged(whole);
  const GroupTask task{program, {}};
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
    const targets::Target t = targets::find_target(target);
    const std::string does = fmt::format("steps of {} products at a time", products);
    size_t tried = 0;
    for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
      if (c.trace.at(0).find(does) == std::string::npos || ++tried > most) continue;
      SCOPED_TRACE(fmt::format("{}: {}", target, c.trace[0]));
      check_candidate(task, t, c, 1e-2);
      EXPECT_EQ(schedule::apply(te::apply_layouts(program, c.constant_layouts), c.schedule).kernels.size(), 1U);
    }
    schedule::Schedule inlined;
    const Result<schedule::Chain> chain = schedule::match_chain(schedule::inline_chain(inlined, program));
    EXPECT_GT(tried, 0U) << (chain.ok() ? schedule::why_tile_declined(*chain, t.info) : chain.reason());
  }
}

TEST(BlockwiseChain, GradientsOfAttention) {
  for (const Heads& h : {Heads{2, 64, 128, 16, 16}, Heads{2, 70, 75, 24, 40}, Heads{2, 130, 66, 64, 64}}) {
    SCOPED_TRACE(
        fmt::format("{} heads, {} queries, {} keys, {} deep, {} wide", h.count, h.queries, h.keys, h.depth, h.values));
    check_blocks(of_queries(h), 3);
    check_blocks(of_keys(h), 3);
    check_blocks(of_values(h), 2);
  }
}

// Blocks of which a mask leaves nothing are left out: the last ones of a query, the first ones of a key.
TEST(BlockwiseChain, BlocksOfZerosAreLeftOut) {
  for (const Heads& h : {Heads{2, 130, 130, 16, 16}, Heads{2, 70, 75, 24, 40}}) {
    const int64_t before = h.keys - h.queries;
    for (const auto& [whole, products] :
         {std::pair(of_queries(h), 3), std::pair(of_keys(h), 3), std::pair(of_values(h), 2)}) {
      const te::Program program = masked(whole, before);
      check_blocks(program, static_cast<size_t>(products));
      const targets::Target t = targets::find_target("cuda:sm_90a");
      bool skips = false;
      for (const Construction& c : construct(t.families, {merged(program), {}}, t.info, nullptr))
        skips = skips || schedule::to_string(c.schedule).find("skip_zeros") != std::string::npos;
      EXPECT_TRUE(skips) << whole.name;
    }
  }
}

// What instructions read as lines of 128 bytes has columns beside each other in one line, or lines of steps: every
// candidate is code.
TEST(BlockwiseChain, KeysBesideEachOtherFillLines) {
  const Heads h{2, 128, 256, 64, 64};
  std::string text = te::to_string(of_queries(h));
  const auto put = [&](const std::string& old, const std::string& now) {
    text.replace(text.find(old), old.size(), now);
  };
  put("input v: f16[2, 256, 64]", "input v: f16[2, 64, 256]");
  put("v[i0, i2, r0]", "v[i0, r0, i2]");
  const GroupTask task{merged(te::parse_program(text)), {}};
  const targets::Target t = targets::find_target("cuda:sm_90a");
  lower::RunOptions run;
  run.lower.vector_bytes = t.info.vector_bytes;
  run.lower.has.halves = true;
  size_t found = 0;
  for (const Construction& c : construct(t.families, task, t.info, nullptr)) {
    if (c.family != "chain") continue;
    SCOPED_TRACE(c.trace.front());
    const te::Program stored = te::apply_layouts(task.program, c.constant_layouts);
    EXPECT_NO_THROW(codegen::emit_cuda(lower::lower(schedule::apply(stored, c.schedule), run)));
    ++found;
  }
  EXPECT_GT(found, 0U);
}

TEST(BlockwiseChain, HiddenLayersOfManyColumns) {
  check_blocks(hidden_layer(130, 32, 300), 2);
  check_blocks(hidden_layer(64, 40, 515), 2);
}

}  // namespace
}  // namespace tw::construct
