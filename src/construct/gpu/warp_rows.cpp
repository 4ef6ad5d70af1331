#include "construct/gpu/warp_rows.h"

#include "support/join.h"
#include "support/math.h"

namespace tw::construct {

void WarpLoops::add(const std::vector<Factor>& factors, size_t& dim) {
  std::vector<std::string> names;
  while (names.size() < factors.size()) names.push_back(fmt::format("i{}", dim++));
  add(factors, names);
}

void WarpLoops::add(const std::vector<Factor>& factors, const std::vector<std::string>& names) {
  size_t threads = 0;
  for (const Factor& f : factors) threads += f.kind == FactorKind::kThreads ? 1 : 0;
  for (size_t k = 0; k < factors.size(); ++k) {
    const FactorKind kind = factors[k].kind;
    if (kind == FactorKind::kVector || kind == FactorKind::kMatrixVector) vector = names[k];
    if (kind != FactorKind::kThreads) {
      inner.push_back(names[k]);
    } else {
      (--threads == 0 ? lanes : warps).push_back(names[k]);
    }
  }
}

void WarpLoops::add_outer(size_t count, size_t& dim) {
  for (size_t i = 0; i < count; ++i) outer.push_back(fmt::format("i{}", dim++));
}

void WarpLoops::order(schedule::Schedule& s, const std::string& stage) const {
  s.reorder(stage, joined(joined(outer, warps), lanes, inner));
  for (const std::string& l : joined(warps, lanes)) s.threads(stage, l);
  for (const std::string& l : inner) l == vector ? s.vectorize(stage, l) : s.unroll(stage, l);
}

Layout tiled(Layout layout, size_t dim, int64_t extent, const std::vector<Factor>& factors) {
  const int64_t tile = ThreadBlockTile::extent(factors), tiles = ceil_div(extent, tile);
  const auto d = static_cast<int>(dim);
  if (tiles * tile != extent) layout = layout.pad(d, 0, tiles * tile - extent);
  std::vector<int64_t> extents = {tiles};
  for (const Factor& f : factors) extents.push_back(f.extent);
  return layout.split(d, std::move(extents));
}

Layout split(const Layout& layout, size_t dim, const std::vector<Factor>& factors) {
  return layout.split(static_cast<int>(dim), mapped(factors, &Factor::extent));
}

std::vector<Factor> step_factors(int64_t steps) {
  return {{steps / kMatrixSteps, FactorKind::kUnrolled},
          {kMatrixSteps / kInstructionColumns, FactorKind::kUnrolled},
          {kPairs, FactorKind::kThreads},
          {kPair, FactorKind::kVector}};
}

}  // namespace tw::construct
