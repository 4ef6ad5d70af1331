// Winograd convolution: transform tiles of the input, one product of matrices for each of their points, transform back
// (ops/winograd_conv.cpp). Recognised by its five stages:
//   rows, tiles      V = B^T d B: two element-wise steps, the first of which reads x through its padding
//   products         M = V * U for each point: the contraction
//   columns, output  A^T M A and what follows it
// The output stage owns the loops: blocks of neighbouring tiles by blocks of output channels. In a block the products
// are computed point by point with the register tile of a contraction, then transformed back from the cache. V of a
// block of tiles is computed there too when a block has all output channels, else before, by a kernel of its own.
#include <algorithm>
#include <optional>

#include "schedule/contraction.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"
#include "tune/construct/epilogue.h"
#include "tune/construct/tile.h"

namespace tw::tune {
namespace {

using schedule::Contraction;
using schedule::Schedule;

constexpr int64_t kReductionUnroll = 4;

// Names of the stages; `pad` is empty when rows read x itself.
struct Stages {
  std::string pad, rows, tiles, products, columns, first;
};

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

// A square transform: the first two axes of `c` have extents rows and columns.
bool has_points(const te::Compute* c, int64_t rows, int64_t columns) {
  return c != nullptr && !c->is_reduction() && c->axes.size() >= 4 && c->axes[0].extent == rows &&
         c->axes[1].extent == columns;
}

Result<Stages> match_stages(const te::Program& program) {
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
    return Stages{pad == nullptr ? "" : pad->name(),
                  rows->name(),
                  tiles->name(),
                  products.name(),
                  columns->name(),
                  first->name()};
  }
  return declined("no Winograd convolution");
}

// Axes of the output stage by what they are.
struct OutputAxes {
  std::vector<te::Axis> rows;  // that are axes of the products too: images, depths
  te::Axis high, wide;         // image rows and columns, in tiles of m x m
  te::Axis channel;
};

// A way to cut the work.
struct Blocking {
  std::vector<int64_t> rows;  // images and depths of a block
  int64_t high = 1;           // tiles of a block along the image's rows and columns
  int64_t wide = 1;
  int64_t channels = 1;       // output channels of a block
  bool tiles_before = false;  // V is computed before, by a kernel of its own
  int64_t tile_rows = 1;      // register tile
  int64_t tile_vectors = 1;
};

struct Plan {
  Stages stages;
  std::string output;
  te::Program logical;  // after inlining
  te::Program program;  // with the layouts
  std::map<std::string, Layout> layouts;
  OutputAxes axes;
  int64_t m = 2;
  int64_t channels = 1;  // of the input
  int64_t tiles_high = 1, tiles_wide = 1;
  int64_t lanes = 1;
  int64_t channel_block = 1;  // input channels that lie together in V
  Blocking block;
  int64_t points() const { return m + 2; }
  int64_t panel() const { return block.tile_vectors * lanes; }
  const te::Compute& stage(const std::string& name) const { return *program.find_compute(name); }
};

const te::Axis* axis_named(const te::Compute& c, const std::string& name) {
  const auto found = std::ranges::find(c.axes, name, &te::Axis::name);
  return found == c.axes.end() ? nullptr : &*found;
}

// The axes of `c` that occur in `e`.
std::vector<te::Axis> axes_in(const te::Compute& c, const Expr& e) {
  std::vector<te::Axis> found;
  for (const te::Axis& axis : c.axes) {
    if (uses_var(e, axis.name)) found.push_back(axis);
  }
  return found;
}

// From a read of `columns` [point of the tile's row, point, rows.., tile, channel].
Result<OutputAxes> match_axes(const te::Compute& first, const std::string& columns) {
  OutputAxes out;
  for (const Expr& read : te::reads_of(first, {te::Tensor{columns, {}, {}}})) {
    const size_t rank = read->args.size();
    const std::vector<te::Axis> high = axes_in(first, read.arg(0));
    const std::vector<te::Axis> both = axes_in(first, read.arg(rank - 2));
    if (high.size() != 1 || both.size() != 2) return declined("tiles of one row or one column");
    out.high = high[0];
    out.wide = both[0].name == high[0].name ? both[1] : both[0];
    const te::Axis* channel = read.arg(rank - 1).is_var() ? axis_named(first, read.arg(rank - 1)->name) : nullptr;
    if (channel == nullptr) return declined("its channels are no axis");
    out.channel = *channel;
    for (size_t d = 2; d + 2 < rank; ++d) {
      const te::Axis* row = read.arg(d).is_var() ? axis_named(first, read.arg(d)->name) : nullptr;
      if (row == nullptr) return declined("its images are no axis");
      out.rows.push_back(*row);
    }
    if (out.rows.size() + 3 != first.axes.size()) return declined("axes that are no axes of its products");
    return out;
  }
  return declined("nothing reads {}", columns);
}

std::string numbered(size_t d) { return fmt::format("i{}", d); }

// V [p, q, rows.., t, c] in blocks of channels: [c block, rows.., t, p, q, c]. All points of a tile and a block of
// channels lie together, so that the transform writes one contiguous piece.
Layout tiles_layout(const te::Tensor& v, int64_t block) {
  const auto c = static_cast<int>(v.shape.size()) - 1;
  const int64_t blocks = ceil_div(v.shape.back(), block);
  Layout layout;
  if (blocks * block != v.shape.back()) layout = layout.pad(c, 0, blocks * block - v.shape.back());
  layout = layout.split(c, {blocks, block});
  std::vector<int64_t> order = {c};
  for (int64_t d = 2; d < c; ++d) order.push_back(d);
  order.insert(order.end(), {0, 1, c + 1});
  return layout.reorder(order);
}

// U [p, q, (tap,) c, k] in panels: [p, q, k panel, (tap,) c, k].
Layout panel_layout(const te::Tensor& u, int64_t panel) {
  const auto k = static_cast<int>(u.shape.size()) - 1;
  const int64_t blocks = ceil_div(u.shape.back(), panel);
  Layout layout;
  if (blocks * panel != u.shape.back()) layout = layout.pad(k, 0, blocks * panel - u.shape.back());
  layout = layout.split(k, {blocks, panel});
  std::vector<int64_t> order = {0, 1, k};
  for (int64_t d = 2; d < k; ++d) order.push_back(d);
  order.push_back(k + 1);
  return layout.reorder(order);
}

// ---- The schedule.

class Scheduler {
 public:
  Scheduler(const Plan& plan, Schedule& s, const TargetInfo& target) : plan_(plan), s_(s), target_(target) {}

  void run() {
    s_.cache_write(products());
    output_loops();
    columns_loops();
    s_.compute_at(products(), plan_.output, plan_.axes.channel.name + ".0", loop::Scope::kScratch);
    product_loops();
    s_.compute_at(accumulator(), products(), tile_axis() + ".0", loop::Scope::kRegister);
    if (!plan_.block.tiles_before) {
      s_.compute_at(plan_.stages.tiles, plan_.output, plan_.axes.wide.name + ".0", loop::Scope::kScratch);
    }
    accumulator_loops();
    tiles_loops();
    rows_loops();
    pad_loops();
  }

 private:
  const std::string& products() const { return plan_.stages.products; }
  std::string accumulator() const { return products() + ".acc"; }
  size_t rank() const { return plan_.axes.rows.size() + 4; }  // of V and M as the operator defines them
  // Axes of V and M as stored: block of channels, rows.., tile, p, q, channel.
  std::string tile_axis() const { return numbered(rank() - 3); }
  std::string p_axis() const { return numbered(rank() - 2); }
  std::string q_axis() const { return numbered(rank() - 1); }
  std::string inner_axis() const { return numbered(rank()); }

  void output_loops() {
    const std::string& out = plan_.output;
    const OutputAxes& axes = plan_.axes;
    std::vector<std::string> blocks, tiles;
    for (size_t d = 0; d < axes.rows.size(); ++d) {
      s_.split(out, axes.rows[d].name, {plan_.block.rows[d]});
      blocks.push_back(axes.rows[d].name + ".0");
      tiles.push_back(axes.rows[d].name + ".1");
    }
    s_.split(out, axes.high.name, {plan_.block.high, plan_.m});
    s_.split(out, axes.wide.name, {plan_.block.wide, plan_.m});
    s_.split(out, axes.channel.name, {plan_.block.channels / plan_.panel(), plan_.block.tile_vectors, plan_.lanes});
    for (const te::Axis* axis : {&axes.high, &axes.wide, &axes.channel}) {
      blocks.push_back(axis->name + ".0");
      tiles.push_back(axis->name + ".1");
    }
    std::vector<std::string> order = blocks;
    order.insert(order.end(), tiles.begin(), tiles.end());
    order.push_back(axes.channel.name + ".2");
    order.push_back(axes.high.name + ".2");
    order.push_back(axes.wide.name + ".2");
    order.push_back(axes.channel.name + ".3");
    s_.reorder(out, order);
    s_.unroll(out, axes.wide.name + ".2");
    s_.vectorize(out, axes.channel.name + ".3");
    if (!plan_.block.tiles_before) blocks.pop_back();
    s_.parallel(out, blocks);
  }

  // A^T M for one tile and one vector of channels.
  void columns_loops() {
    const std::string& columns = plan_.stages.columns;
    s_.compute_at(columns, plan_.output, plan_.axes.channel.name + ".2", loop::Scope::kStack);
    const std::string channel = numbered(rank() - 1);
    std::vector<std::string> order = {"i1", "i0", channel};
    s_.reorder(columns, order);
    s_.unroll(columns, "i0");
    s_.vectorize(columns, channel);
  }

  void product_loops() {
    s_.split(products(), tile_axis(), {plan_.block.tile_rows});
    s_.split(products(), inner_axis(), {plan_.lanes});
    std::vector<std::string> order = {p_axis(), q_axis(), "i0"};
    for (size_t d = 0; d < plan_.axes.rows.size(); ++d) order.push_back(numbered(d + 1));
    order.insert(order.end(), {tile_axis() + ".0", tile_axis() + ".1", inner_axis() + ".0", inner_axis() + ".1"});
    s_.reorder(products(), order);
    s_.unroll(products(), tile_axis() + ".1");
    s_.unroll(products(), inner_axis() + ".0");
    s_.vectorize(products(), inner_axis() + ".1");
  }

  void accumulator_loops() {
    const std::string acc = accumulator();
    s_.split(acc, inner_axis(), {plan_.lanes});
    const int64_t unroll = std::min(plan_.channel_block, kReductionUnroll);
    s_.split(acc, "r0", {plan_.channel_block / unroll, unroll});
    std::vector<std::string> order;
    if (plan_.stage(products()).reduce_axes.size() > 1) order.push_back("r1");
    order.insert(order.end(), {"r0.0", "r0.1", "r0.2", tile_axis(), inner_axis() + ".0", inner_axis() + ".1"});
    s_.reorder(acc, order);
    s_.unroll(acc, "r0.2");
    s_.unroll(acc, tile_axis());
    s_.unroll(acc, inner_axis() + ".0");
    s_.vectorize(acc, inner_axis() + ".1");
    s_.tensorize(acc, order.front(), "fma_tile", {});
  }

  void tiles_loops() {
    const std::string& tiles = plan_.stages.tiles;
    s_.split(tiles, inner_axis(), {plan_.lanes});
    std::vector<std::string> order;
    for (size_t d = 0; d < plan_.axes.rows.size(); ++d) order.push_back(numbered(d + 1));
    // Rows and columns of tiles as loops of their own: then no index is divided, and edges leave the loops.
    const bool whole_rows = plan_.block.wide == plan_.tiles_wide && (plan_.block.tiles_before || plan_.block.high > 1);
    if (whole_rows && plan_.tiles_wide > 1) {
      s_.split(tiles, tile_axis(), {plan_.tiles_wide});
      order.insert(order.end(), {tile_axis() + ".0", tile_axis() + ".1"});
    } else {
      order.push_back(tile_axis());
    }
    order.push_back("i0");
    const std::vector<std::string> outer = order;
    order.insert(order.end(), {inner_axis() + ".0", p_axis(), q_axis(), inner_axis() + ".1"});
    s_.reorder(tiles, order);
    s_.unroll(tiles, q_axis());
    s_.vectorize(tiles, inner_axis() + ".1");
    if (plan_.block.tiles_before) s_.parallel(tiles, outer);
  }

  // B^T d for one tile and one vector of channels, one column of the tile after the other.
  void rows_loops() {
    const std::string& rows = plan_.stages.rows;
    s_.compute_at(rows, plan_.stages.tiles, inner_axis() + ".0", loop::Scope::kStack);
    const std::string channel = numbered(rank() - 1);
    s_.reorder(rows, {"i1", "i0", channel});
    s_.unroll(rows, "i0");
    s_.vectorize(rows, channel);
  }

  // The inputs of one column of a tile, in registers; when their channels are not stored last, the whole padded input
  // is brought into that order before.
  void pad_loops() {
    if (plan_.stages.pad.empty()) return;
    const te::Compute& pad = plan_.stage(plan_.stages.pad);
    if (!reads_channels_last(pad)) return schedule_elementwise(s_, plan_.program, pad, target_);
    s_.compute_at(pad.name(), plan_.stages.rows, "i1", loop::Scope::kRegister);
    for (size_t d = 0; d + 1 < pad.axes.size(); ++d) s_.unroll(pad.name(), pad.axes[d].name);
    s_.vectorize(pad.name(), pad.axes.back().name);
  }

  static bool reads_channels_last(const te::Compute& c) {
    bool last = true;
    te::visit_reads(c, [&](const Expr& load) {
      last = last && schedule::dim_of_axis(load, c.axes.back().name) + 1 == static_cast<int>(load->args.size());
    });
    return last;
  }

  const Plan& plan_;
  Schedule& s_;
  const TargetInfo& target_;
};

bool is_stage(const Stages& s, const std::string& name) {
  return name == s.pad || name == s.rows || name == s.tiles || name == s.products || name == s.columns;
}

// Rows of tiles in a block: so many that a block has enough tiles for each panel of weights that it loads, and so few
// that every unit has a block. Blocks are near-equal.
int64_t block_height(const Plan& plan, const TargetInfo& target) {
  constexpr int64_t kBlockTiles = 24;
  int64_t planes = 1;
  for (const te::Axis& row : plan.axes.rows) planes *= row.extent;
  const int64_t blocks = ceil_div(std::max(1, target.units), std::max<int64_t>(1, planes));
  const int64_t most = std::max<int64_t>(1, plan.tiles_high / blocks);
  const int64_t high = std::clamp<int64_t>(ceil_div(kBlockTiles, plan.tiles_wide), 1, most);
  return ceil_div(plan.tiles_high, ceil_div(plan.tiles_high, high));
}

}  // namespace

Result<Candidates> construct_winograd(const GroupTask& task, const TargetInfo& target) {
  Result<Stages> stages = match_stages(task.program);
  if (!stages.ok()) return Reason{stages.reason()};
  Plan plan;
  plan.stages = *stages;
  Construction out;
  plan.logical =
      inline_stages(out.schedule, task.program, [&](const te::Compute& c) { return is_stage(plan.stages, c.name()); });
  stages = match_stages(plan.logical);
  TW_CHECK(stages.ok(), "inlining hides the Winograd convolution of {}", task.program.name);
  plan.stages = *stages;
  const te::Compute& first = *plan.logical.find_compute(plan.stages.first);
  const Result<std::string> output = epilogue_output(plan.logical, first);
  if (!output.ok()) return Reason{output.reason()};
  plan.output = *output;
  if (plan.output != plan.stages.first) return declined("an epilogue that reads the convolution twice");
  const Result<OutputAxes> axes = match_axes(first, plan.stages.columns);
  if (!axes.ok()) return Reason{axes.reason()};
  plan.axes = *axes;
  const te::Compute& products = *plan.logical.find_compute(plan.stages.products);
  const Contraction match = *schedule::match_contraction(products);
  if (task.constants.count(match.b->name) == 0) return declined("its weights are no constant");
  plan.m = products.axes[0].extent - 2;
  plan.lanes = target.lanes(DataType::f32());
  plan.channels = plan.logical.tensor(plan.stages.tiles).shape.back();
  plan.channel_block = 16;
  plan.tiles_high = ceil_div(plan.axes.high.extent, plan.m);
  plan.tiles_wide = ceil_div(plan.axes.wide.extent, plan.m);
  plan.block.rows.assign(plan.axes.rows.size(), 1);
  plan.block.high = block_height(plan, target);
  plan.block.wide = plan.tiles_wide;
  plan.block.tile_rows = 6;
  plan.block.tile_vectors = 2;
  plan.block.channels = round_up(plan.axes.channel.extent, plan.panel());

  plan.layouts[plan.stages.tiles] = tiles_layout(plan.logical.tensor(plan.stages.tiles), plan.channel_block);
  plan.layouts[plan.stages.products] = tiles_layout(products.outputs[0], plan.panel());
  plan.layouts[match.b->name] = panel_layout(plan.logical.tensor(match.b->name), plan.panel());
  plan.program = te::apply_layouts(plan.logical, plan.layouts);
  out.constant_layouts = plan.layouts;
  for (const te::Compute& c : plan.program.computes) {
    if (c.name() == plan.output || is_stage(plan.stages, c.name())) continue;
    c.is_reduction() ? schedule_reduction(out.schedule, c, target)
                     : schedule_elementwise(out.schedule, plan.program, c, target);
  }
  Scheduler(plan, out.schedule, target).run();
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
