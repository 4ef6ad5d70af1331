#include "cost/register_tile.h"

#include <array>
#include <cmath>

#include "cost/calibrated.h"
#include "support/math.h"

namespace tw::cost {
namespace {

constexpr int64_t kBusyWays = 2;  // of a set in L1: they hold B and C

// Largest number of tile rows whose lines fall into one L1 set.
int64_t set_conflicts(int64_t rows, int64_t stride, const TargetInfo& target) {
  if (target.levels.empty() || stride == 0) return 1;
  const MemoryLevel& l1 = target.levels.front();
  const int64_t sets = std::max<int64_t>(1, l1.capacity_bytes / (l1.line_bytes * l1.ways));
  std::array<int64_t, 64> lines{};
  int64_t worst = 1;
  for (int64_t i = 0; i < std::min<int64_t>(rows, 64); ++i) {
    const int64_t set = (i * stride / l1.line_bytes) % sets;
    int64_t same = 0;
    for (int64_t j = 0; j <= i; ++j) {
      lines[j] = (j * stride / l1.line_bytes) % sets;
      same += lines[j] == set;
    }
    worst = std::max(worst, same);
  }
  return worst;
}

// Issue cycles of one reduction step of a tile; two loads and two FMAs issue in a clock cycle.
double tile_cycles(int64_t rows, int64_t vectors, const TileProblem& p, const TargetInfo& target) {
  const double loads = static_cast<double>(p.a_is_vector ? rows * vectors + vectors : rows + vectors);
  const double fmas = p.product.cycles * static_cast<double>(rows * vectors) + p.operand_cycles * loads;
  const int64_t free_ways = target.levels.empty() ? rows : target.levels.front().ways - kBusyWays;
  const double conflicts =
      kConflictCycles * std::max<int64_t>(0, set_conflicts(rows, p.row_stride, target) - free_ways);
  return std::max({fmas, loads, kWaitMargin * kLatencyCycles}) + kExtraLoadCycles * loads + kStepLoopCycles +
         conflicts + kVisitCycles / static_cast<double>(p.steps);
}

// Calls f(part, count): full tiles, then the tail.
template <typename F>
void for_parts(int64_t extent, int64_t tile, const F& f) {
  if (extent / tile > 0) f(tile, extent / tile);
  if (extent % tile > 0) f(extent % tile, 1);
}

// Registers beside the sums and a step's vectors of B: an element of A in all lanes. Where one product alone uses it,
// the compiler puts the new sum there, and needs another to turn all sums around without spills.
int64_t temporaries(int64_t vectors, const TileProblem& p) {
  return (vectors == 1 && !p.a_is_vector ? 2 : 1) + p.product.registers;
}

}  // namespace

ProductCost product_cost(std::optional<WordFormat> format, const TargetInfo& target) {
  const bool fused = format ? sums_words(target, *format) : has_feature(target, "fma");
  // Where multiply-adds are fused, two instructions are two of their issue cycles.
  return {fused || !has_feature(target, "fma") ? 1.0 : 2.0, fused ? 0 : 1};
}

double step_cycles(const RegisterTile& t, const TileProblem& p, const TargetInfo& target) {
  double sum = 0;
  for_parts(ceil_div(p.columns, p.lanes), t.vectors, [&](int64_t vectors, int64_t column_tiles) {
    for_parts(p.outer_rows, t.outer, [&](int64_t outer, int64_t outer_tiles) {
      for_parts(p.inner_rows, t.inner, [&](int64_t inner, int64_t inner_tiles) {
        sum += static_cast<double>(column_tiles * outer_tiles * inner_tiles) *
               tile_cycles(outer * inner, vectors, p, target);
      });
    });
  });
  return sum * (t.outer == 1 ? p.outer_share : 1) * (t.inner == 1 ? p.inner_share : 1);
}

std::vector<RegisterTile> best_tiles(const TileProblem& p, const TargetInfo& target, size_t count) {
  std::vector<RegisterTile> all;
  const int64_t max_vectors = std::min<int64_t>(4, ceil_div(p.columns, p.lanes));
  for (int64_t vectors = max_vectors; vectors >= 1; --vectors) {
    const int64_t max_rows =
        std::max<int64_t>(1, (target.vector_registers - temporaries(vectors, p) - vectors) / vectors);
    for (int64_t inner = std::min(p.inner_rows, max_rows); inner >= 1; --inner) {
      for (int64_t outer = std::min(p.outer_rows, max_rows / inner); outer >= 1; --outer) {
        RegisterTile tile{outer, inner, vectors};
        tile.cycles = step_cycles(tile, p, target);
        all.push_back(tile);
      }
    }
  }
  // The larger tile first where the prediction does not tell them apart.
  const double min = std::ranges::min_element(all, {}, &RegisterTile::cycles)->cycles;
  const auto rank = [&](const RegisterTile& t) { return std::floor((t.cycles / min - 1) / kIndistinct); };
  std::ranges::stable_sort(all, {}, rank);
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace tw::cost
