// Tiles of products on GPUs are constructed: at least as good as those of known_tiles.txt, legal, all different.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>

#include "codegen/cuda/emit.h"
#include "construct/gpu/thread_block_tile.h"
#include "lower/pass.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tests/construct/construct_check.h"
#include "tests/construct/products.h"
#include "tests/harness/te_programs.h"

namespace tw::construct {
namespace {

std::vector<Factor> factors(const std::string& text) {
  std::vector<Factor> all;
  std::istringstream in(text == "-" ? "" : text);
  int64_t extent = 0;
  for (char kind = 0; in >> extent >> kind;)
    all.push_back({extent, static_cast<FactorKind>(std::string("tuvmM").find(kind))});
  return all;
}

struct Known {
  std::string target;
  GemmProblem problem;
  ThreadBlockTile tile;
};

Known parse(const std::string& line) {
  Known k;
  std::istringstream in(line);
  GemmProblem& p = k.problem;
  ThreadBlockTile& t = k.tile;
  char multiplier = 0;
  std::string batch, rows, columns;
  in >> k.target >> p.batch >> p.m >> p.n >> p.k >> p.bytes >> p.result_bytes >> p.by_matrix >> p.neighbours >> p.tma >>
      p.rows_beside >> p.columns_beside >> p.filter_positions >> p.halo >> p.pixels >> p.max_lines >> p.kept_bytes >>
      p.packs >> multiplier >> batch >> rows >> columns >> t.tile_k >> t.stages >> t.tma >> t.row_cluster >>
      t.column_cluster >> t.persistent_blocks >> t.together >> t.columns_stay >> t.kept_bytes;
  EXPECT_TRUE(in) << line;
  p.operand_bytes = p.batch * (p.m + p.n) * p.k * p.bytes;
  t.multiplier = static_cast<Multiplier>(std::string("TWG").find(multiplier));
  t.batch = factors(batch), t.rows = factors(rows), t.columns = factors(columns);
  t.filter_positions = p.filter_positions, t.halo = p.halo;
  return k;
}

std::vector<Known> known_tiles() {
  std::ifstream in(TW_SOURCE_DIR "/tests/construct/known_tiles.txt");
  std::vector<Known> all;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#")) all.push_back(parse(line));
  }
  return all;
}

TEST(ProductTiles, AreNotPredictedWorseThanThoseOfTables) {
  const std::vector<Known> all = known_tiles();
  ASSERT_GT(all.size(), 400U);
  for (const Known& k : all) {
    const TargetInfo target = targets::find_target("cuda:" + k.target).info;
    const std::vector<ThreadBlockTile> tiles = thread_block_tiles(k.problem, target);
    const GemmProblem& p = k.problem;
    SCOPED_TRACE(fmt::format("{}: {} x {} x {} x {}", k.target, p.batch, p.m, p.n, p.k));
    ASSERT_FALSE(tiles.empty());
    constexpr double kRounding = 1 + 1e-9;
    EXPECT_LE(predicted_cycles(tiles.front(), p, target), kRounding * predicted_cycles(k.tile, p, target));
  }
}

TEST(ProductTiles, ThereAreSomeOfTheSmallestProducts) {
  for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
    for (const int64_t m : {2, 8, 9, 300}) {
      for (const int64_t n : {8, 9, 300}) {
        GemmProblem problem{.batch = 3, .m = m, .n = n, .k = 8, .bytes = 2, .by_matrix = true};
        EXPECT_FALSE(thread_block_tiles(problem, targets::find_target(name).info).empty()) << m << " x " << n;
        problem.bytes = 4, problem.by_matrix = false, problem.m = std::max<int64_t>(m, 8);
        EXPECT_FALSE(thread_block_tiles(problem, targets::find_target(name).info).empty()) << m << " x " << n;
      }
    }
  }
}

TEST(ProductTiles, FitTheirDevice) {
  for (const Known& k : known_tiles()) {
    const TargetInfo target = targets::find_target("cuda:" + k.target).info;
    for (const ThreadBlockTile& t : thread_block_tiles(k.problem, target, {100, 5})) {
      EXPECT_LE(t.threads() * t.together, 1024);
      EXPECT_EQ(t.threads() % kWarpThreads, 0);
      EXPECT_LE(cost::sums_of_thread(t), t.by_matrix() ? 128 : 64);
      EXPECT_LE(t.threads() * cost::sums_of_thread(t), target.sm.registers);
      EXPECT_LE(t.stages * t.shared_bytes(k.problem.bytes) + t.kept_shared_bytes() + target.sm.reserved_bytes,
                target.levels.front().capacity_bytes);
      EXPECT_TRUE(t.row_cluster == 1 || t.column_cluster == 1);
      EXPECT_TRUE(!t.tma || ThreadBlockTile::extent(t.rows) + t.halo <= k.problem.max_lines) << "a box of TMA";
      EXPECT_TRUE(k.problem.kept_bytes == 0 || ThreadBlockTile::extent(t.rows) >= k.problem.m);
    }
  }
}

// All candidates become kernels, and what some of them compute is right.
void check_all(const GroupTask& task, const char* name, bool interpret) {
  const targets::Target t = targets::find_target(name);
  lower::RunOptions run;
  run.lower.vector_bytes = t.info.vector_bytes;
  run.lower.has.halves = true;
  for (const Construction& candidate : construct(t.families, task, t.info, nullptr)) {
    const te::Program program = te::apply_layouts(task.program, candidate.constant_layouts);
    run.lower.inner_divisor = te::common_divisor(program);
    EXPECT_NO_THROW(codegen::emit_cuda(lower::lower(schedule::apply(program, candidate.schedule), run)))
        << candidate.trace.front() << schedule::to_string(candidate.schedule);
  }
  if (interpret) check(task, name, "contraction", 1e-2);
}

TEST(ProductTiles, OfOddProducts) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {17, 33, 65}, {50, 200, 72}, {77, 40, 24}, {100, 104, 48}, {129, 257, 31}, {8, 1000, 64}, {520, 24, 20}}) {
    for (const DataType type : {DataType::f16(), DataType::f32()}) {
      for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
        SCOPED_TRACE(fmt::format("{} x {}, {} steps of {} on {}", m, n, k, to_string(type), name));
        const bool small = m * n * k < 100'000;
        check_all({merged(halves({1, m, k}, {1, n, k}, type)), {"w"}}, name, small);
        check_all({merged(halves({3, m, k}, {3, k, n}, type)), {}}, name, small);
        check_all({merged(testing::matmul_relu(m, n, k)), {}}, name, small);
      }
    }
  }
}

// Tiles at random: any that are aligned, the same of one seed.
TEST(ProductTiles, AtRandomComputeTheSame) {
  const GroupTask task{merged(halves({1, 100, 96}, {1, 72, 96}, DataType::f16())), {"w"}};
  for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
    const targets::Target t = targets::find_target(name);
    const auto drawn = [&](uint64_t seed) { return *sample_gpu_contraction(task, t.info, {8, seed}); };
    const Candidates first = drawn(7);
    EXPECT_EQ(first.size(), 8U);
    for (const Construction& candidate : first) check_candidate(task, t, candidate, 1e-2);
    EXPECT_TRUE(std::ranges::equal(drawn(7), first, is_same));
    EXPECT_FALSE(std::ranges::equal(drawn(8), first, is_same));
  }
}

}  // namespace
}  // namespace tw::construct
