#include "construct/cpu/winograd_match.h"

#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Contraction;

// The only compute that reads `tensor`, or null.
const te::Compute* only_reader(const te::Program& program, const std::string& tensor) {
  const te::Compute* reader = nullptr;
  for (const te::Compute& c : program.computes) {
    if (te::count_reads(c, tensor) == 0) continue;
    if (reader != nullptr) return nullptr;
    reader = &c;
  }
  return reader;
}

// The only tensor that `compute` reads; empty when there are several.
std::string only_read(const te::Compute& compute) {
  std::string name;
  bool one = true;
  te::visit_reads(compute, [&](const Expr& load) {
    one = one && (name.empty() || name == load->name);
    name = load->name;
  });
  return one ? name : "";
}

// An element-wise stage whose first two axes are rows x columns points.
bool has_points(const te::Compute* c, int64_t rows, int64_t columns) {
  return c != nullptr && !c->is_reduction() && c->axes.size() >= 4 && c->axes[0].extent == rows &&
         c->axes[1].extent == columns;
}

// The select of `first` between the direct sums and what is transformed back; null when there is none.
Expr way_round(const te::Program& program, const te::Compute& first) {
  Expr found;
  const auto is_read = [&](const Expr& e) { return e.op() == Op::kLoad && program.find_compute(e->name) != nullptr; };
  for (const Expr& body : first.body) {
    visit(body, [&](const Expr& e) {
      if (!found && e.op() == Op::kSelect && is_read(e.arg(0)) && is_read(e.arg(1))) found = e;
    });
  }
  return found;
}

// Adds the stages of the way round; whether they are there.
bool add_way_round(const te::Program& program, WinogradStages& stages) {
  const Expr select = way_round(program, *program.find_compute(stages.first));
  if (!select) return false;
  const te::Compute& direct = *program.find_compute(select.arg(1)->name);
  const Result<Contraction> sums = schedule::match_contraction(direct);
  if (!sums.ok()) return false;
  stages.uneven = select.arg(0)->name;
  stages.energies = only_read(*program.find_compute(stages.uneven));
  stages.direct = direct.name();
  stages.patches = sums->a->name;
  const te::Compute* energies = program.find_compute(stages.energies);
  return energies != nullptr && energies->is_reduction() && program.find_compute(stages.patches) != nullptr;
}

const te::Axis* plain_axis(const te::Compute& c, const Expr& index) {
  if (!index.is_var()) return nullptr;
  const auto found = std::ranges::find(c.axes, index->name, &te::Axis::name);
  return found == c.axes.end() ? nullptr : &*found;
}

std::vector<te::Axis> axes_in(const te::Compute& c, const Expr& e) {
  return filtered(c.axes, [&](const te::Axis& axis) { return uses_var(e, axis.name); });
}

}  // namespace

bool WinogradStages::contains(const std::string& name) const {
  return name == pad || name == rows || name == tiles || name == products || name == columns || name == energies ||
         name == uneven || name == patches || name == direct;
}

Result<WinogradStages> match_winograd(const te::Program& program) {
  for (const te::Compute& products : program.computes) {
    const Result<Contraction> match = schedule::match_contraction(products);
    if (!match.ok() || products.axes.size() < 4) continue;
    const int64_t points = products.axes[0].extent;
    const te::Compute* tiles = program.find_compute(match->a->name);
    if (!has_points(tiles, points, points) || only_reader(program, tiles->name()) != &products) continue;
    const te::Compute* rows = program.find_compute(only_read(*tiles));
    const te::Compute* columns = only_reader(program, products.name());
    if (!has_points(rows, points, points) || !has_points(columns, points - 2, points)) continue;
    const te::Compute* first = only_reader(program, columns->name());
    if (first == nullptr || first->is_reduction()) continue;
    const te::Compute* pad = program.find_compute(only_read(*rows));
    WinogradStages stages;
    stages.pad = pad == nullptr ? "" : pad->name();
    stages.rows = rows->name();
    stages.tiles = tiles->name();
    stages.products = products.name();
    stages.columns = columns->name();
    stages.first = first->name();
    if (add_way_round(program, stages)) return stages;
  }
  return declined("no Winograd convolution");
}

// Of a read of columns [point of the tile's row, point, rows.., tile, channel].
Result<WinogradAxes> match_winograd_axes(const te::Program& program, const WinogradStages& stages) {
  const te::Compute& first = *program.find_compute(stages.first);
  const Expr read = te::reads_of(first, {program.tensor(stages.columns)}).front();
  const size_t rank = read->args.size();
  const std::vector<te::Axis> high = axes_in(first, read.arg(0));
  const std::vector<te::Axis> plane = axes_in(first, read.arg(rank - 2));
  if (high.size() != 1 || plane.size() != 2) return declined("tiles of one row or one column");
  WinogradAxes out;
  out.high = high[0];
  out.wide = plane[plane[0].name == high[0].name ? 1 : 0];
  std::vector<te::Axis> plain;
  for (size_t d = 2; d < rank; ++d) {
    const te::Axis* axis = plain_axis(first, read.arg(d));
    if (axis != nullptr) plain.push_back(*axis);
  }
  const bool complete = plain.size() + 3 == rank && first.axes.size() + 1 == rank &&
                        program.tensor(stages.tiles).shape.size() == program.tensor(stages.products).shape.size();
  if (!complete) return declined("images, depths or channels of one element");
  out.channel = plain.back();
  plain.pop_back();
  out.rows = std::move(plain);
  return out;
}

WinogradProblem winograd_problem(const te::Program& program, const WinogradStages& stages, const WinogradAxes& axes,
                                 int64_t lanes) {
  const Shape& tiles = program.tensor(stages.tiles).shape;
  const Shape& products = program.tensor(stages.products).shape;
  WinogradProblem problem;
  problem.m = products[0] - 2;
  for (size_t d = 0; d < axes.rows.size(); ++d) problem.rows.push_back({products[2 + d], tiles[2 + d]});
  problem.tiles_high = ceil_div(axes.high.extent, problem.m);
  problem.tiles_wide = ceil_div(axes.wide.extent, problem.m);
  problem.channels = tiles.back();
  problem.out_channels = products.back();
  problem.lanes = lanes;
  problem.kernel_depth = te::num_points(program.find_compute(stages.products)->reduce_axes) / problem.channels;
  return problem;
}

int channel_dim(const te::Compute& stage) {
  int dim = -1;
  te::visit_reads(stage, [&](const Expr& load) { dim = te::dim_of_axis(load, stage.axes.back().name); });
  return dim;
}

}  // namespace tw::construct
