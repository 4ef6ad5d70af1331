#include "construct/cpu/winograd_loops.h"

#include "construct/elementwise.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

using schedule::Schedule;
using Names = std::vector<std::string>;

constexpr int64_t kReductionUnroll = 4;
constexpr int64_t kChannelBlock = 16;  // one line of f32

Layout padded_split(int dim, int64_t extent, int64_t block) {
  const int64_t blocks = ceil_div(extent, block);
  Layout layout;
  if (blocks * block != extent) layout = layout.pad(dim, 0, blocks * block - extent);
  return layout.split(dim, {blocks, block});
}

// [p, q, rows.., t, c] as [p, q, c block, rows.., t, c] or [c block, rows.., t, p, q, c].
Layout tile_layout(const Shape& shape, int64_t block, WinogradOrder stored) {
  const int c = static_cast<int>(shape.size()) - 1;
  std::vector<int64_t> order = {c};
  for (int64_t d = 2; d < c; ++d) order.push_back(d);
  order.insert(stored == WinogradOrder::kPoints ? order.begin() : order.end(), {0, 1});
  order.push_back(c + 1);
  return padded_split(c, shape.back(), block).reorder(order);
}

// [p, q, (position,) c, k] as [k block, p, q, panel, (position,) c, k].
Layout weights_layout(const Shape& shape, int64_t block, int64_t panel) {
  const int k = static_cast<int>(shape.size()) - 1;
  std::vector<int64_t> order = {k, 0, 1, k + 1};
  for (int64_t d = 2; d < k; ++d) order.push_back(d);
  order.push_back(k + 2);
  return padded_split(k, shape.back(), block).split(k + 1, {block / panel, panel}).reorder(order);
}

// [k, c, (position,) r, s] as [k block, (position,) r, s, c, k].
Layout kernels_layout(const Shape& shape, int64_t panel) {
  std::vector<int64_t> order = {0};
  for (size_t d = 2; d < shape.size(); ++d) order.push_back(static_cast<int64_t>(d) + 1);
  order.push_back(2);
  order.push_back(1);
  return padded_split(0, shape[0], panel).reorder(order);
}

class WinogradScheduler {
 public:
  WinogradScheduler(const WinogradPlan& plan, const TargetInfo& target, Schedule& s)
      : plan_(plan), b_(plan.blocks), target_(target), s_(s) {}

  // Readers are attached before what they read, and where their loops are final as far as it reaches.
  void run() {
    s_.cache_write(products());
    prepare_way_round(plan_, s_);
    output_loops();
    epilogue_loops();
    s_.branch(owner(), tile_loop());
    columns_loops();
    s_.compute_at(products(), plan_.output, plan_.axes.channel.name + ".0", loop::Scope::kScratch);
    product_loops();
    s_.compute_at(accumulator(), products(), tile_axis() + ".0", loop::Scope::kRegister);
    if (!b_.tiles_before)
      s_.compute_at(plan_.stages.tiles, plan_.output, plan_.axes.wide.name + ".0", loop::Scope::kScratch);
    accumulator_loops();
    tiles_loops();
    rows_loops();
    pad_loops();
    const std::string block = plan_.axes.wide.name + ".0";
    schedule_way_round(plan_, {plan_.output, block, owner(), panel_loop()}, s_);
  }

 private:
  const std::string& products() const { return plan_.stages.products; }
  std::string accumulator() const { return products() + ".acc"; }
  size_t row_count() const { return plan_.axes.rows.size(); }
  // The stage that reads what is transformed back: the output, or one that it reads more than once.
  const std::string& owner() const { return plan_.stages.first; }
  bool owner_is_output() const { return owner() == plan_.output; }
  // Its loops of one tile, of one panel of channels; where it is no output, both have one turn.
  std::string tile_loop() const {
    return owner_is_output() ? plan_.axes.wide.name + ".1" : plan_.axes.channel.name + ".0";
  }
  std::string panel_loop() const { return plan_.axes.channel.name + ".1"; }
  // Axes of transformed tiles and products as stored (tile_layout).
  size_t before_points() const { return b_.order == WinogradOrder::kPoints ? 0 : row_count() + 2; }
  size_t before_tiles() const { return b_.order == WinogradOrder::kPoints ? 2 : 0; }
  std::string p_axis() const { return numbered_axis(before_points()); }
  std::string q_axis() const { return numbered_axis(before_points() + 1); }
  std::string block_axis() const { return numbered_axis(before_tiles()); }
  std::string row_axis(size_t d) const { return numbered_axis(before_tiles() + 1 + d); }
  std::string tile_axis() const { return numbered_axis(before_tiles() + 1 + row_count()); }
  std::string channel_axis() const { return numbered_axis(row_count() + 4); }
  // Of the stages that keep the operator's order: p, q, rows.., tile, channel.
  std::string logical_channel_axis() const { return numbered_axis(row_count() + 3); }

  void output_loops() {
    const std::string& out = plan_.output;
    const WinogradAxes& axes = plan_.axes;
    Names blocks;
    Names inside;
    const auto tile = [&](const te::Axis& axis, std::vector<int64_t> factors) {
      s_.split(out, axis.name, std::move(factors));
      blocks.push_back(axis.name + ".0");
      inside.push_back(axis.name + ".1");
    };
    for (size_t d = 0; d < row_count(); ++d) tile(axes.rows[d], {b_.rows[d]});
    tile(axes.high, {b_.high, plan_.problem.m});
    tile(axes.wide, {b_.wide, plan_.problem.m});
    tile(axes.channel, {b_.channels / plan_.panel(), b_.tile.vectors, plan_.problem.lanes});
    const Names points = {axes.high.name + ".2", axes.channel.name + ".2", axes.wide.name + ".2",
                          axes.channel.name + ".3"};
    s_.reorder(out, joined(blocks, inside, points));
    s_.unroll(out, axes.wide.name + ".2");
    s_.vectorize(out, axes.channel.name + ".3");
    if (!b_.tiles_before) blocks.pop_back();
    s_.parallel(out, blocks);
  }

  // Stages between the columns and the output that are read more than once: a vector of one row of a tile, in
  // registers. The first one, when it is not the output: a panel of a tile.
  void epilogue_loops() {
    const WinogradAxes& axes = plan_.axes;
    for (auto c = plan_.program.computes.rbegin(); c != plan_.program.computes.rend(); ++c) {
      if (c->name() == plan_.output || !te::depends_on(plan_.program, *c, owner())) continue;
      s_.compute_at(c->name(), plan_.output, axes.channel.name + ".2", loop::Scope::kRegister);
      s_.unroll(c->name(), axes.wide.name);
      s_.vectorize(c->name(), axes.channel.name);
    }
    if (owner_is_output()) return;
    s_.compute_at(owner(), plan_.output, axes.channel.name + ".1", loop::Scope::kStack);
    s_.split(owner(), axes.channel.name, {1, b_.tile.vectors, plan_.problem.lanes});
    s_.reorder(owner(), {tile_loop(), panel_loop(), axes.high.name, axes.channel.name + ".2", axes.wide.name,
                         axes.channel.name + ".3"});
    s_.unroll(owner(), axes.wide.name);
    s_.vectorize(owner(), axes.channel.name + ".3");
  }

  // A^T M for one tile and one panel of channels, column by column.
  void columns_loops() {
    const std::string& columns = plan_.stages.columns;
    s_.compute_at(columns, owner(), panel_loop(), loop::Scope::kStack);
    by_columns(columns);
  }

  // Both vectors of a line of one column before the next column: the lines of all points of a tile may share a set of
  // the cache, those of one column still fit its ways.
  void by_columns(const std::string& stage) {
    const std::string channel = logical_channel_axis();
    s_.split(stage, channel, {plan_.problem.lanes});
    s_.reorder(stage, {"i1", channel + ".0", "i0", channel + ".1"});
    s_.unroll(stage, "i0");
    s_.vectorize(stage, channel + ".1");
  }

  // One product of matrices for each point: register tiles of tiles x channels.
  void product_loops() {
    Names order = {p_axis(), q_axis(), block_axis()};
    Names points;
    for (size_t d = 0; d < row_count(); ++d) {
      if (d + 1 < row_count() || b_.tile.outer == 1) {
        order.push_back(row_axis(d));
        continue;
      }
      s_.split(products(), row_axis(d), {b_.tile.outer});
      order.push_back(row_axis(d) + ".0");
      points.push_back(row_axis(d) + ".1");
    }
    s_.split(products(), tile_axis(), {b_.tile.inner});
    order.push_back(tile_axis() + ".0");
    points.push_back(tile_axis() + ".1");
    s_.split(products(), channel_axis(), {plan_.problem.lanes});
    points.push_back(channel_axis() + ".0");
    s_.reorder(products(), joined(order, points, Names{channel_axis() + ".1"}));
    for (const std::string& point : points) s_.unroll(products(), point);
    s_.vectorize(products(), channel_axis() + ".1");
  }

  void accumulator_loops() {
    const std::string acc = accumulator();
    s_.split(acc, channel_axis(), {plan_.problem.lanes});
    const int64_t unroll = std::min(plan_.channel_block(), kReductionUnroll);
    s_.split(acc, "r0", {plan_.channel_block() / unroll, unroll});
    Names order;
    if (plan_.stage(products()).reduce_axes.size() > 1) order.push_back("r1");
    order.insert(order.end(), {"r0.0", "r0.1", "r0.2"});
    Names points = by_index(row_count(), [&](size_t d) { return row_axis(d); });
    points.insert(points.end(), {tile_axis(), channel_axis() + ".0"});
    s_.reorder(acc, joined(order, points, Names{channel_axis() + ".1"}));
    s_.unroll(acc, "r0.2");
    for (const std::string& point : points) s_.unroll(acc, point);
    s_.vectorize(acc, channel_axis() + ".1");
    s_.tensorize(acc, order.front(), "fma_tile", {});
    prefetch_weights();
  }

  // While one panel of the weights is used for all tiles of a block, the next one comes nearer.
  void prefetch_weights() {
    const int64_t tiles = ceil_div(b_.high * b_.wide, b_.tile.inner);
    const int64_t panel = plan_.problem.channels * plan_.panel();
    const int64_t iterations = tiles * ceil_div(plan_.problem.channels, plan_.channel_block());
    const int64_t line = line_elements(target_, DataType::f32());
    s_.prefetch(accumulator(), {"r0.0", products(), tile_axis() + ".0"}, plan_.weights,
                {panel, ceil_div(panel, iterations * line), line});
  }

  void tiles_loops() {
    const std::string& tiles = plan_.stages.tiles;
    s_.split(tiles, channel_axis(), {plan_.problem.lanes});
    Names outer = by_index(row_count(), [&](size_t d) { return row_axis(d); });
    // Rows and columns of tiles as loops of their own: then no index is divided, and edges leave the loops.
    const int64_t wide = plan_.problem.tiles_wide;
    if (wide > 1 && (b_.tiles_before || (b_.wide == wide && b_.high > 1))) {
      s_.split(tiles, tile_axis(), {wide});
      outer.insert(outer.end(), {tile_axis() + ".0", tile_axis() + ".1"});
    } else {
      outer.push_back(tile_axis());
    }
    outer.push_back(block_axis());
    s_.reorder(tiles, joined(outer, Names{p_axis(), channel_axis() + ".0", q_axis(), channel_axis() + ".1"}));
    s_.unroll(tiles, q_axis());
    s_.vectorize(tiles, channel_axis() + ".1");
    if (b_.tiles_before) s_.parallel(tiles, outer);
  }

  // B^T d for one tile and one block of channels.
  void rows_loops() {
    s_.compute_at(plan_.stages.rows, plan_.stages.tiles, block_axis(), loop::Scope::kStack);
    by_columns(plan_.stages.rows);
  }

  // The inputs of one column of a tile, in registers; when their channels are not stored last, the whole padded input
  // is brought into that order before.
  void pad_loops() {
    if (plan_.stages.pad.empty()) return;
    const te::Compute& pad = plan_.stage(plan_.stages.pad);
    const std::vector<Expr> reads = [&] {
      std::vector<Expr> found;
      te::visit_reads(pad, [&](const Expr& load) { found.push_back(load); });
      return found;
    }();
    if (channel_dim(pad) + 1 != static_cast<int>(reads.front()->args.size()))
      return schedule_stage(s_, plan_.program, {&pad}, target_);
    s_.compute_at(pad.name(), plan_.stages.rows, logical_channel_axis() + ".0", loop::Scope::kRegister);
    for (size_t d = 0; d + 1 < pad.axes.size(); ++d) s_.unroll(pad.name(), pad.axes[d].name);
    s_.vectorize(pad.name(), pad.axes.back().name);
  }

  const WinogradPlan& plan_;
  const WinogradBlocks& b_;
  const TargetInfo& target_;
  Schedule& s_;
};

}  // namespace

int64_t WinogradPlan::channel_block() const {
  return std::min(round_up(problem.channels, problem.lanes), std::max(kChannelBlock, problem.lanes));
}

std::map<std::string, Layout> winograd_layouts(const te::Program& logical, const WinogradPlan& plan) {
  const auto shape = [&](const std::string& tensor) { return logical.tensor(tensor).shape; };
  const WinogradOrder order = plan.blocks.order;
  return {{plan.stages.tiles, tile_layout(shape(plan.stages.tiles), plan.channel_block(), order)},
          {plan.stages.products, tile_layout(shape(plan.stages.products), plan.panel(), order)},
          {plan.weights, weights_layout(shape(plan.weights), plan.blocks.channels, plan.panel())},
          {plan.kernels, kernels_layout(shape(plan.kernels), plan.panel())}};
}

void schedule_winograd(const WinogradPlan& plan, const TargetInfo& target, schedule::Schedule& s) {
  WinogradScheduler(plan, target, s).run();
}

}  // namespace tw::construct
