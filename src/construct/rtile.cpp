#include "construct/rtile.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cost/calibrated.h"
#include "support/math.h"

namespace tw::construct {
namespace {

constexpr size_t kMaxVisits = 400;  // of the search: levels of real operators end far below

double points(const RTile& tile) {
  double n = 1;
  for (const int64_t size : tile) n *= static_cast<double>(size);
  return n;
}

// Registers beside the sums and a step's vectors of B: an element of A in all lanes. Where one product alone uses it,
// the compiler puts the new sum there, and needs another to turn all sums around without spills.
int64_t temporaries(int64_t vectors, const TileProblem& p) {
  return (vectors == 1 && !p.a_is_vector ? 2 : 1) + p.product.registers;
}

class ScaleUp {
 public:
  ScaleUp(const RTileSpace& space, int64_t capacity, double bytes_per_ns, size_t limit)
      : space_(space), capacity_(capacity), bytes_per_ns_(bytes_per_ns), limit_(limit) {}

  std::vector<ScaledTile> run(const RTile& start) {
    visit(start, 0);
    return std::move(found_);
  }

 private:
  struct Step {
    double score;
    RTile tile;
  };

  // Enlargements that fit, best score first.
  std::vector<Step> steps(const RTile& tile) const {
    std::vector<Step> all;
    for (size_t axis = 0; axis < tile.size(); ++axis) {
      if (!space_.alignment[axis].enlarges) continue;
      const int64_t next = next_aligned_axis_size(space_.nest.axes[axis].extent, space_.alignment[axis], tile[axis]);
      if (next == 0) continue;
      Step step{reuse_score(space_, tile, axis, next), tile};
      step.tile[axis] = next;
      if (cost::footprint_bytes(space_.nest, step.tile, space_.line_bytes) <= capacity_) all.push_back(std::move(step));
    }
    std::ranges::stable_sort(all, [](const Step& a, const Step& b) { return a.score > b.score; });
    return all;
  }

  bool loads_fast(const RTile& tile) const {
    const double load_ns =
        static_cast<double>(cost::footprint_bytes(space_.nest, tile, space_.line_bytes)) / bytes_per_ns_;
    return load_ns * cost::kEnoughArithmetic <= points(tile) * space_.ns_per_point;
  }

  void visit(const RTile& tile, double score) {
    if (found_.size() >= limit_ || visited_.size() >= kMaxVisits || !visited_.insert(tile).second) return;
    if (loads_fast(tile)) {
      found_.push_back({tile, score, "loading takes less than a quarter of the arithmetic"});
      return;
    }
    const std::vector<Step> next = steps(tile);
    if (next.empty()) found_.push_back({tile, score, "the level is full"});
    for (const Step& step : next) visit(step.tile, step.score);
  }

  const RTileSpace& space_;
  int64_t capacity_;
  double bytes_per_ns_;
  size_t limit_;
  std::set<RTile> visited_;
  std::vector<ScaledTile> found_;
};

}  // namespace

std::vector<RegisterTile> best_tiles(const TileProblem& p, const TargetInfo& target, size_t count) {
  std::vector<RegisterTile> all;
  const int64_t max_vectors = std::min<int64_t>(4, ceil_div(p.columns, p.lanes));
  for (int64_t vectors = max_vectors; vectors >= 1; --vectors) {
    const int64_t max_rows =
        std::max<int64_t>(1, (target.vector_registers - temporaries(vectors, p) - vectors) / vectors);
    for (int64_t inner = std::min(p.inner_rows, max_rows); inner >= 1; --inner) {
      for (int64_t outer = std::min(p.outer_rows, max_rows / inner); outer >= 1; --outer) {
        RegisterTile tile{outer, inner, vectors};
        tile.cycles = cost::step_cycles(tile, p, target);
        all.push_back(tile);
      }
    }
  }
  // The larger tile first where the prediction does not tell them apart.
  const double min = std::ranges::min_element(all, {}, &RegisterTile::cycles)->cycles;
  const auto rank = [&](const RegisterTile& t) { return std::floor((t.cycles / min - 1) / cost::kIndistinct); };
  std::ranges::stable_sort(all, {}, rank);
  if (all.size() > count) all.resize(count);
  return all;
}

int64_t next_aligned_axis_size(int64_t extent, const AxisAlignment& alignment, int64_t size) {
  if (size >= extent) return 0;
  const int64_t units = ceil_div(extent, alignment.unit);
  const int64_t parts = ceil_div(units, ceil_div(size, alignment.unit));
  // Fewer parts until their near-equal size grows without more waste than is allowed.
  for (int64_t fewer = parts - 1; fewer >= 1; --fewer) {
    const int64_t part = ceil_div(units, fewer);
    const double waste = static_cast<double>(ceil_div(units, part) * part) / static_cast<double>(units) - 1;
    if (part * alignment.unit > size && waste <= cost::kMaxWaste) return part * alignment.unit;
  }
  return 0;
}

double tile_traffic(const RTileSpace& space, const RTile& tile) {
  double bytes = static_cast<double>(cost::footprint_bytes(space.nest, tile, space.line_bytes));
  for (size_t a = 0; a < tile.size(); ++a)
    bytes *= static_cast<double>(ceil_div(space.nest.axes[a].extent, std::max<int64_t>(1, tile[a])));
  return bytes;
}

double reuse_score(const RTileSpace& space, const RTile& tile, size_t axis, int64_t size) {
  RTile larger = tile;
  larger[axis] = size;
  const double saved = tile_traffic(space, tile) - tile_traffic(space, larger);
  const auto grown = static_cast<double>(cost::footprint_bytes(space.nest, larger, space.line_bytes) -
                                         cost::footprint_bytes(space.nest, tile, space.line_bytes));
  return saved / std::max(1.0, grown);
}

std::vector<ScaledTile> scale_up(const RTileSpace& space, const RTile& start, int64_t capacity, double bytes_per_ns,
                                 size_t limit) {
  return ScaleUp(space, capacity, bytes_per_ns, limit).run(start);
}

}  // namespace tw::construct
