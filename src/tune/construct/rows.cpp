// Reductions along rows: softmax, layer norm, and every chain of reductions and element-wise stages whose stages share
// their leading axes with the output. One tile is one row or a few; all intermediate stages live in the tile.
#include <algorithm>
#include <cmath>

#include "support/math.h"
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/distinct.h"
#include "tune/construct/elementwise.h"
#include "tune/construct/stage_cost.h"

namespace tw::tune {
namespace {

constexpr int64_t kStackBytes = 16 * 1024;  // larger row buffers go to the thread's scratch area

// Leading axes of `reader` at which it reads `source` unchanged, over all its reads.
size_t shared_prefix(const te::Compute& reader, const te::Compute& source) {
  size_t prefix = std::min(reader.axes.size(), source.axes.size());
  for (size_t i = 0; i < prefix; ++i) {
    if (reader.axes[i].extent != source.axes[i].extent) prefix = i;
  }
  for (const Expr& read : te::reads_of(reader, {source.outputs[0]})) {
    prefix = std::min(prefix, te::own_axes(reader, read));
  }
  return prefix;
}

size_t common_rows(const te::Program& program, const te::Compute& output) {
  size_t rows = output.axes.size();
  for (const te::Compute& source : program.computes) {
    if (source.name() == output.name()) continue;
    for (const te::Compute& reader : program.computes) {
      if (te::count_reads(reader, source.name()) > 0) rows = std::min(rows, shared_prefix(reader, source));
    }
  }
  // A last axis that is itself the row would leave nothing to vectorise, unless the reductions run along contiguous
  // elements (a mean over the last axis).
  const bool inside = std::ranges::all_of(
      program.computes, [](const te::Compute& c) { return !c.is_reduction() || reduces_contiguous(c); });
  return output.is_reduction() || inside ? rows : std::min(rows, output.axes.size() - 1);
}

// A division or an elementary function of each row that other stages read at every point: it stays a stage.
bool is_once_a_row(const te::Program& program, const te::Compute& c) {
  bool costly = calls_function(c);
  for (const Expr& body : c.body) {
    visit(body, [&](const Expr& e) { costly = costly || (e.op() == Op::kDiv && e.type().is_float()); });
  }
  return costly && std::ranges::any_of(program.computes, [&](const te::Compute& reader) {
           return te::count_reads(reader, c.name()) > 0 &&
                  reader.axes.size() + reader.reduce_axes.size() > c.axes.size();
         });
}

// How rows are run: a choice of the construction.
struct RowTiling {
  int64_t rows = 1;    // of a tile: each stage runs through all of them, so that one row's wait is another one's work
  int64_t chains = 1;  // vectors of partial results of one row: they hide the latency of their combination
  // Registers that an elementary function works on side by side: its steps wait for each other, and the core looks only
  // a few dozen instructions ahead for others that are ready.
  int64_t interleave = 1;
  friend bool operator==(const RowTiling&, const RowTiling&) = default;
};

// The stages of one tile and how they are cut.
class RowScheduler {
 public:
  RowScheduler(const te::Program& program, const te::Compute& output, size_t rows, const TargetInfo& target)
      : program_(program), output_(output), rows_(rows), target_(target) {}

  // Tilings worth a look: rows that divide their axis, as many accumulators as half the registers hold.
  std::vector<RowTiling> tilings() const {
    const int64_t last_rows = output_.axes[rows_ - 1].extent;
    std::vector<RowTiling> all;
    for (const int64_t rows : {1, 2, 4, 8}) {
      for (const int64_t chains : {1, 2, 4}) {
        if (last_rows % rows != 0 || rows * chains > target_.vector_registers / 2) continue;
        if (rows > 1 && (row_bytes() * rows > shared_bytes() || !rows_may_share_tiles())) continue;
        if (chains > 1 && chains > most_chains()) continue;
        for (const int64_t interleave : {1, 2, 4}) {
          if (interleave == 1 || has_functions()) all.push_back({rows, chains, interleave});
        }
      }
    }
    return all;
  }

  void run(schedule::Schedule& s, const RowTiling& tiling) {
    tiling_ = tiling;
    for (const te::Compute& c : program_.computes) {
      if (!is_factored(c)) continue;
      s.rfactor(c.name(), c.reduce_axes.back().name, chains(c) * lanes(c));
    }
    std::vector<std::string> tiles = axis_names(output_.axes);
    tiles.resize(rows_);
    if (tiling_.rows > 1) {
      s.split(output_.name(), tiles.back(), {tiling_.rows});
      tiles.back() += ".0";
    }
    // Readers are attached before what they read.
    for (auto c = program_.computes.rbegin(); c != program_.computes.rend(); ++c) {
      if (c->name() != output_.name()) s.compute_at(c->name(), output_.name(), tiles.back(), scope(*c));
      if (!is_factored(*c)) continue;
      const loop::Scope held = is_scalar(*c) ? loop::Scope::kRegister : scope(*c, chains(*c) * lanes(*c));
      s.compute_at(partial(*c), output_.name(), tiles.back(), held);
    }
    for (const te::Compute& c : program_.computes) is_factored(c) ? factored_loops(s, c) : loops(s, c);
    s.parallel(output_.name(), tiles);
  }

  // Each stage takes its slots for all rows, or as long as one row has to wait for its last partial result.
  double predict_ns(const RowTiling& tiling) {
    tiling_ = tiling;
    double slots = kTileSlots;
    std::vector<te::Axis> reduced;
    for (const te::Compute& c : program_.computes) {
      const auto rows = static_cast<double>(tiling_.rows);
      slots += std::max(rows * stage_slots(c), stage_slots(c) + wait_slots(c));
      if (c.is_reduction() && reduced.empty() && output_.axes.size() == rows_) reduced = c.reduce_axes;
    }
    int64_t tiles = 1;
    for (size_t i = 0; i < rows_; ++i) tiles *= output_.axes[i].extent;
    tiles /= tiling_.rows;
    return run_ns(streaming_nest(program_, output_, reduced),
                  slots * static_cast<double>(tiles) * slot_ns(target_, target_.lanes(DataType::f32())), tiles,
                  target_);
  }

 private:
  static constexpr int64_t kStreamsInLevel = 32;  // measured: softmax over 128 takes half the time at 1 KiB as at 4
  static constexpr int64_t kPlainVectors = 4;     // of a step without functions: counting it costs as much as a vector
  static constexpr double kTileSlots = 8;         // counters and addresses of one tile
  static constexpr double kFunctionWait = 7 * kLatencySlots;  // of 14 dependent steps, two vectors of them in flight

  std::string partial(const te::Compute& c) const { return c.name() + ".rf"; }
  int64_t lanes(const te::Compute& c) const { return target_.lanes(c.outputs[0].type); }

  int64_t vectors(const te::Compute& c) const { return ceil_div(c.reduce_axes.back().extent, lanes(c)); }

  // Of the shortest row.
  int64_t most_chains() const {
    int64_t most = 1;
    for (const te::Compute& c : program_.computes) {
      if (is_factored(c)) most = std::max(most, vectors(c));
    }
    return most;
  }

  bool has_functions() const {
    return std::ranges::any_of(program_.computes,
                               [&](const te::Compute& c) { return calls_function(c) && !is_scalar(c); });
  }

  int64_t chains(const te::Compute& c) const { return is_scalar(c) ? std::min(tiling_.chains, vectors(c)) : 1; }

  // One value a row: its partial results fit into registers.
  bool is_scalar(const te::Compute& c) const { return elements_of_row(c) == 1; }

  bool is_factored(const te::Compute& c) const {
    return c.is_reduction() && c.outputs.size() == 1 && c.combiner.kind != te::CombinerKind::kTuple &&
           reduces_contiguous(c) && c.reduce_axes.back().extent >= 2 * lanes(c);
  }

  // Reductions that are not factored have their loops around vectors of the last axis: one row at a time.
  bool rows_may_share_tiles() const {
    return std::ranges::all_of(
        program_.computes, [&](const te::Compute& c) { return !c.is_reduction() || (is_factored(c) && is_scalar(c)); });
  }

  // What rows of one tile may keep: several stages and streams share the nearest level with it.
  int64_t shared_bytes() const {
    const int64_t near = target_.levels.empty() ? 0 : target_.levels.front().capacity_bytes;
    return near > 0 ? near / kStreamsInLevel : kStackBytes;
  }

  // Of the widest stage that stays in the tile.
  int64_t row_bytes() const {
    int64_t most = 0;
    for (const te::Compute& c : program_.computes) {
      if (c.name() != output_.name()) most = std::max(most, elements_of_row(c) * c.outputs[0].type.bytes());
    }
    return most;
  }

  int64_t elements_of_row(const te::Compute& c) const {
    int64_t elements = 1;
    for (size_t i = rows_; i < c.axes.size(); ++i) elements *= c.axes[i].extent;
    return elements;
  }

  // Of `each` values for each element of the stage.
  loop::Scope scope(const te::Compute& c, int64_t each = 1) const {
    const int64_t bytes = elements_of_row(c) * each * c.outputs[0].type.bytes() * tiling_.rows;
    return bytes <= kStackBytes ? loop::Scope::kStack : loop::Scope::kScratch;
  }

  double stage_slots(const te::Compute& c) const {
    double points = static_cast<double>(elements_of_row(c));
    for (const te::Axis& r : c.reduce_axes) points *= static_cast<double>(r.extent);
    const bool scalar = c.is_reduction() && !is_factored(c) && c.axes.size() <= rows_;
    double slots = body_slots(c);
    const double lane_slots = is_factored(c) ? static_cast<double>(chains(c)) * 3 * std::log2(lanes(c)) : 0;
    if (calls_function(c)) slots = std::max(slots, kFunctionWait / static_cast<double>(tiling_.interleave));
    return lane_slots + slots * (scalar ? points : std::ceil(points / static_cast<double>(lanes(c))));
  }

  double wait_slots(const te::Compute& c) const {
    if (!is_factored(c)) return kLatencySlots;
    double steps = static_cast<double>(ceil_div(vectors(c), chains(c)) + chains(c) - 1);
    for (size_t r = 0; r + 1 < c.reduce_axes.size(); ++r) steps *= static_cast<double>(c.reduce_axes[r].extent);
    // Halves of a vector meet by a shuffle and the combination.
    return kLatencySlots * (steps + 2 * std::log2(static_cast<double>(lanes(c))));
  }

  // Partial results: reductions outside; rows, chains and a vector inside. Then the sums over the lanes of each chain.
  void factored_loops(schedule::Schedule& s, const te::Compute& c) const {
    const std::string rf = partial(c);
    const std::string lane = fmt::format("i{}", c.axes.size());
    const std::string& row = c.axes[rows_ - 1].name;
    std::vector<std::string> order;
    for (const te::Axis& r : c.reduce_axes) order.push_back(r.name);
    if (tiling_.rows > 1) order.push_back(row);
    s.split(rf, lane, {lanes(c)});
    order.push_back(lane + ".0");
    order.push_back(lane + ".1");
    s.reorder(rf, order);
    s.split(c.name(), "r0", {lanes(c)});
    // Register buffers have constant indices.
    if (tiling_.rows > 1) {
      s.unroll(rf, row);
      s.unroll(c.name(), row + (c.name() == output_.name() ? ".1" : ""));
    }
    s.unroll(rf, lane + ".0");
    s.vectorize(rf, lane + ".1");
    s.unroll(c.name(), "r0.0");
    s.vectorize(c.name(), "r0.1");
  }

  void loops(schedule::Schedule& s, const te::Compute& c) const {
    if (c.axes.size() <= rows_ || c.axes.back().extent == 1) return;
    const std::string last = c.axes.back().name;
    const int64_t registers = calls_function(c) ? tiling_.interleave : c.is_reduction() ? 1 : kPlainVectors;
    const int64_t lanes = std::min<int64_t>(lanes_for(c, target_) * registers, c.axes.back().extent);
    if (lanes < 2) return;
    s.split(c.name(), last, {lanes});
    std::vector<std::string> order = {last + ".0"};
    for (const te::Axis& r : c.reduce_axes) order.push_back(r.name);
    order.push_back(last + ".1");
    s.reorder(c.name(), order);
    s.vectorize(c.name(), last + ".1");
  }

  const te::Program& program_;
  const te::Compute& output_;
  size_t rows_;
  const TargetInfo& target_;
  RowTiling tiling_;
};

}  // namespace

Result<Candidates> construct_rows(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program =
      inline_stages(out.schedule, task.program, [&](const te::Compute& c) { return is_once_a_row(task.program, c); });
  const bool reduces = std::any_of(program.computes.begin(), program.computes.end(),
                                   [](const te::Compute& c) { return c.is_reduction(); });
  if (!reduces) return declined("no reduction");
  const te::Compute& output = program.computes.back();
  if (!std::all_of(program.outputs.begin(), program.outputs.end(),
                   [&](const std::string& name) { return program.find_compute(name) == &output; })) {
    return declined("an output that is not the last stage");
  }
  const size_t rows = common_rows(program, output);
  if (rows == 0) return declined("its stages share no leading axis with the output");
  RowScheduler scheduler(program, output, rows, target);
  Candidates candidates;
  for (const RowTiling& tiling : scheduler.tilings()) {
    Construction candidate = out;
    scheduler.run(candidate.schedule, tiling);
    candidate.predicted_ns = scheduler.predict_ns(tiling);
    candidate.trace = {fmt::format("{} rows a tile, {} chains of partial results, functions of {} vectors", tiling.rows,
                                   tiling.chains, tiling.interleave)};
    candidates.push_back(std::move(candidate));
  }
  return best_distinct(std::move(candidates));
}

}  // namespace tw::tune
