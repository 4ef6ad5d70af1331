#include "te/layout_templates.h"

#include <algorithm>
#include <array>

#include "expr/affine.h"
#include "support/join.h"
#include "support/math.h"
#include "te/merge_axes.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::te {
namespace {

constexpr Tiling kImage = {"NOHW", "NHhWwOo", "hwo"}, kImageInput = {"NIHW", "NHhWwIi", "hwi"},
                 kFilters = {"OIRS", "OpIqRS", "qp"}, kVolume = {"NODHW", "NDdHhWwOo", "dhwo"},
                 kVolumeInput = {"NIDHW", "NDdHhWwIi", "dhwi"}, kChannels = {"NCHW", "NHhWwCc", "hwc"};
constexpr std::array<LayoutTemplate, 9> kTemplates = {{
    {"C1D", {"NOW", "NWwOo", "wo"}, {"NIW", "NWwIi", "wi"}, {"OIS", "OpIqS", "qp"}},
    {"C2D", kImage, kImageInput, kFilters},
    {"C3D", kVolume, kVolumeInput, {"OITRS", "OpIqTRS", "qp"}},
    {"DIL", kImage, kImageInput, kFilters},
    {"GRP", {"NGOHW", "NGHhWwOo", "hwo"}, kImageInput, {"GOIRS", "GOpIqRS", "qp"}},
    {"DEP", kChannels, kChannels, {"CIRS", "CcIRS", "c"}},
    {"T2D", kImage, kImageInput, {"IORS", "OpIqRS", "qp"}},
    {"T3D", kVolume, kVolumeInput, {"IOTRS", "OpIqTRS", "qp"}},
    {"GMM", {"MN", "MmNn", "mn"}, {"MK", "MmKk", "mk"}, {"KN", "KkNn", "kn"}},
}};

// One of the three tensors of a contraction.
struct Role {
  Tiling tiling;
  const Tensor* tensor;
  const Compute* sum;
  Expr read;  // null: of the output
};

// Output, input and weights of the first contraction.
Result<std::vector<Role>> roles_of(const Program& program, const LayoutTemplate& row) {
  const auto is_sum = [](const Compute& c) { return c.is_reduction() && c.combiner.kind == CombinerKind::kSum; };
  const auto sum = std::ranges::find_if(program.computes, is_sum);
  if (sum == program.computes.end()) return declined("'{}' sums nothing", program.name);
  std::vector<Expr> reads;
  visit_reads(*sum, [&](const Expr& read) { reads.push_back(read); });
  if (reads.size() != 2 || reads[0]->name == reads[1]->name)
    return declined("'{}' has {} reads, not one of each of two operands", sum->name(), reads.size());
  std::vector<Role> roles = {{row.output, &sum->outputs[0], &*sum, {}},
                             {row.input, &program.tensor(reads[0]->name), &*sum, reads[0]},
                             {row.weights, &program.tensor(reads[1]->name), &*sum, reads[1]}};
  for (const Role& role : roles) {
    if (role.tiling.dims.size() != role.tensor->shape.size())
      return declined("{}: '{}' has the shape {}, not dims {}", row.name, role.tensor->name,
                      tw::to_string(role.tensor->shape), role.tiling.dims);
  }
  return roles;
}

Layout split_dim(int dim, int64_t extent, const std::vector<int64_t>& tiles) {
  const int64_t tile = num_elements(tiles), count = ceil_div(extent, tile);
  const Layout padded = count * tile == extent ? Layout() : Layout().pad(dim, 0, count * tile - extent);
  return padded.split(dim, joined(Shape{count}, tiles));
}

Result<Layout> layout_of(const Role& role, const Tiling& output, const TileFactors& factors) {
  const Tiling& tiling = role.tiling;
  const size_t levels = factors.empty() ? 0 : factors.begin()->second.size();
  Layout layout;
  std::vector<int64_t> outer(tiling.dims.size());  // where the tiles of each dim are counted
  // From the back, so that earlier dims keep their numbers.
  for (size_t d = tiling.dims.size(); d-- > 0;) {
    const char factor = tiling.factor_of(tiling.dims[d]);
    if (factor == '\0') continue;
    const std::vector<int64_t> tiles = value_or(factors, factor, {});
    if (tiles.empty() || tiles.size() != levels || num_elements(tiles) < 1)
      return declined("no tiles of factor {}", factor);
    const int64_t extent = role.tensor->shape[d];
    const bool follows = role.read && output.dim_of(factor) >= 0;
    const std::optional<Layout> cut = follows ? unfold_windows(*role.sum, role.read, d, extent, tiles)
                                              : split_dim(static_cast<int>(d), extent, tiles);
    if (!cut) return declined("'{}' is read at {}, no window", role.tensor->name, to_string(role.read.arg(d)));
    layout = layout.then(*cut);
  }
  for (size_t d = 1; d < outer.size(); ++d)
    outer[d] = outer[d - 1] + 1 + (tiling.factor_of(tiling.dims[d - 1]) == '\0' ? 0 : static_cast<int64_t>(levels));
  std::vector<int64_t> order;
  for (const char dim : tiling.outer) {
    if (const size_t d = tiling.dims.find(dim); d < tiling.dims.size()) order.push_back(outer[d]);
  }
  for (size_t level = 1; level <= levels; ++level) {
    for (const char factor : tiling.inner) order.push_back(outer[tiling.dim_of(factor)] + static_cast<int64_t>(level));
  }
  return layout.reorder(order);
}

// Element-wise computes behind `sum`, of its shape, take its layout (mechanism A4).
void propagate(const Program& program, const Compute& sum, std::map<std::string, Layout>& layouts) {
  const Layout layout = layouts.at(sum.name());
  if (layout.expands()) return;
  for (const Compute& c : program.computes) {
    const bool follows = std::ranges::any_of(program.computes, [&](const Compute& before) {
      return layouts.contains(before.name()) && count_reads(c, before.name()) > 0 && reads_own_point(c, before.name());
    });
    if (!follows || c.is_reduction() || c.outputs[0].shape != sum.outputs[0].shape) continue;
    for (const Tensor& t : c.outputs) layouts[t.name] = layout;
  }
}

// An index that a sum of `program` divides; null: none.
Expr divided_index(const Program& program) {
  Expr found;
  for (const Compute& c : program.computes) {
    for (const Expr& body : c.body) {
      visit(body, [&](const Expr& e) {
        const bool divides = e.op() == Op::kFloorDiv || e.op() == Op::kFloorMod;
        if (c.is_reduction() && divides) found = e;
      });
    }
  }
  return found;
}

}  // namespace

char Tiling::factor_of(char dim) const {
  const size_t behind = outer.find(dim) + 1;
  return behind < outer.size() && dims.find(outer[behind]) == dims.npos ? outer[behind] : '\0';
}

int64_t Tiling::dim_of(char factor) const {
  return index_where(dims, [&](char dim) { return factor_of(dim) == factor; });
}

std::span<const LayoutTemplate> layout_templates() { return kTemplates; }

std::optional<Layout> unfold_windows(const Compute& reader, const Expr& read, size_t dim, int64_t extent,
                                     const std::vector<int64_t>& tiles) {
  const std::optional<LinearForm> index = as_linear(read.arg(dim));
  if (!index) return std::nullopt;
  int64_t windows = 1, step = 0, size = 1;
  for (const auto& [name, factor] : index->terms) {
    const int64_t k = index_of(reader.axes, name, &Axis::name), r = index_of(reader.reduce_axes, name, &Axis::name);
    if (factor <= 0 || (k >= 0 && step != 0)) return std::nullopt;
    if (k >= 0) windows = reader.axes[k].extent, step = factor;
    if (r >= 0) size += factor * (reader.reduce_axes[r].extent - 1);
  }
  step = std::max<int64_t>(step, 1);  // an axis of one window is in no index
  const auto d = static_cast<int>(dim);
  const int64_t before = -index->constant, after = step * (windows - 1) + size - before - extent;
  Layout layout;
  const auto positive = [](int64_t x) { return std::max<int64_t>(x, 0); };
  if (before < 0 || after < 0) layout = layout.then({LayoutOp::kUnpad, d, {positive(-before), positive(-after)}});
  if (before > 0 || after > 0) layout = layout.pad(d, positive(before), positive(after));
  if (step == 1 && size == 1) return layout.then(split_dim(d, windows, tiles));
  int64_t n = num_elements(tiles);
  for (int level = 0; level < std::ssize(tiles); n /= tiles[level++])
    layout = layout.unfold(d + level, std::max(step * (n - 1) + size, step * n), step * n);
  return layout;
}

Result<std::map<std::string, Layout>> template_layouts(const Program& program, const LayoutTemplate& row,
                                                       const TileFactors& factors) {
  const Result<std::vector<Role>> roles = roles_of(program, row);
  if (!roles.ok()) return Reason{roles.reason()};
  std::map<std::string, Layout> layouts;
  for (const Role& role : *roles) {
    const Result<Layout> layout = layout_of(role, roles->front().tiling, factors);
    if (!layout.ok()) return Reason{layout.reason()};
    layouts[role.tensor->name] = *layout;
  }
  propagate(program, *roles->front().sum, layouts);
  Relaid relaid{program, {}};
  relaid.apply(layouts);
  relaid.apply(divided_axes(relaid.program));  // tiles of the output by those of the operands
  if (const Expr index = divided_index(split_reductions(relaid.program)))
    return declined("{}: no axes are {}", row.name, to_string(index));
  std::erase_if(relaid.layouts, [&](const auto& of) {  // of what holds the padding of a sum
    return index_of(all_tensors(program), of.first, &Tensor::name) < 0;
  });
  return relaid.layouts;
}

}  // namespace tw::te
