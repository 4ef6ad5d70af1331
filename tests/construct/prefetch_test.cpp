// What contractions prefetch: while one panel of B is used, every line of the next one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/shape.h"
#include "expr/analyzer.h"
#include "schedule/schedule.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

// Row-major offsets that a kernel prefetches, with how often it does.
class Prefetches {
 public:
  explicit Prefetches(const loop::Kernel& kernel) : kernel_(kernel) {
    for (int64_t tile = 0; tile < kernel.tiles; ++tile) {
      if (!kernel.tile_var.empty()) values_.insert_or_assign(kernel.tile_var, int_imm(tile));
      walk(kernel.body);
    }
  }
  const std::map<int64_t, int>& counts() const { return counts_; }

 private:
  int64_t value_of(const Expr& e) const { return analyzer_.simplify(substitute(e, values_))->value; }

  void walk(const std::vector<loop::Stmt>& stmts) {
    for (const loop::Stmt& s : stmts) {
      if (s->kind == loop::StmtKind::kPrefetch) note(*s);
      if (s->kind == loop::StmtKind::kLet) values_.insert_or_assign(s->var, int_imm(value_of(s->value)));
      for (int64_t i = 0; i < (s->kind == loop::StmtKind::kFor ? s->extent : 1); ++i) {
        if (s->kind == loop::StmtKind::kFor) values_.insert_or_assign(s->var, int_imm(i));
        walk(s->body);
      }
    }
  }

  void note(const loop::StmtNode& s) {
    const auto buffer = std::ranges::find(kernel_.params, s.buffer, &loop::Buffer::name);
    const Shape strides = row_major_strides(buffer->shape);
    int64_t offset = 0;
    for (size_t d = 0; d < strides.size(); ++d) offset += value_of(s.indices[d]) * strides[d];
    ++counts_[offset];
  }

  const loop::Kernel& kernel_;
  Analyzer analyzer_;
  VarMap values_;
  std::map<int64_t, int> counts_;
};

TEST(Prefetch, EveryLineOfTheNextPanel) {
  constexpr int64_t kRows = 12, kColumns = 64, kSteps = 64, kLine = 16;
  const te::Program p = testing::matmul_relu(kRows, kColumns, kSteps);
  const targets::Target t = with_tiny_caches("cpu:x86-64-v3");
  size_t found = 0;
  for (const Construction& built : construct(t.families, {p, {"w"}}, t.info, nullptr)) {
    const te::Program stored = te::apply_layouts(p, built.constant_layouts);
    const loop::Program loops = schedule::apply(stored, built.schedule);
    const Shape& panels = stored.tensor("w").shape;  // [columns / panel, steps, panel]
    ASSERT_EQ(panels.size(), 3u);
    const std::map<int64_t, int> counts = Prefetches(loops.kernels.back()).counts();
    if (counts.empty()) continue;
    ++found;
    SCOPED_TRACE(schedule::to_string(built.schedule));
    const int64_t panel = panels[1] * panels[2];
    for (int64_t line = panel; line < num_elements(panels); line += kLine) EXPECT_TRUE(counts.contains(line)) << line;
    int64_t all = 0;  // lines of one iteration are a whole number: some are asked for twice
    for (const auto& [offset, count] : counts) all += count;
    EXPECT_LE(all * kLine, 2 * num_elements(panels));
  }
  EXPECT_GT(found, 0u);
}

TEST(Prefetch, NothingThatStaysInTheSecondCache) {
  const te::Program p = testing::matmul_relu(12, 64, 64);
  const targets::Target t = targets::find_target("cpu:x86-64-v3");
  for (const Construction& built : construct(t.families, {p, {"w"}}, t.info, nullptr))
    EXPECT_EQ(schedule::to_string(built.schedule).find("prefetch"), std::string::npos);
}

}  // namespace
}  // namespace tw::construct
