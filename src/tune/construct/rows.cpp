// Reductions along rows: softmax, layer norm, and every chain of reductions and element-wise stages whose stages share
// their leading axes with the output. One tile is one row; all intermediate stages live in the tile.
#include <algorithm>

#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

constexpr int64_t kStackBytes = 16 * 1024;  // larger row buffers go to the thread's scratch area
constexpr int64_t kChains = 4;              // independent partial sums: hides the latency of an addition

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

class RowScheduler {
 public:
  RowScheduler(const te::Program& program, const te::Compute& output, size_t rows, const TargetInfo& target)
      : program_(program), output_(output), rows_(rows), target_(target) {}

  void run(schedule::Schedule& s) {
    for (const te::Compute& c : program_.computes) {
      if (is_factored(c)) s.rfactor(c.name(), c.reduce_axes.back().name, width(c));
    }
    std::vector<std::string> tiles = axis_names(output_.axes);
    tiles.resize(rows_);
    // Readers are attached before what they read.
    if (is_factored(output_)) attach(s, output_.name() + ".rf", factored(output_), tiles.back());
    for (auto c = program_.computes.rbegin(); c != program_.computes.rend(); ++c) {
      if (c->name() == output_.name()) continue;
      attach(s, c->name(), *c, tiles.back());
      if (is_factored(*c)) attach(s, c->name() + ".rf", factored(*c), tiles.back());
    }
    for (const te::Compute& c : program_.computes) {
      if (is_factored(c)) partial_loops(s, c);
      loops(s, c);
    }
    s.parallel(output_.name(), tiles);
  }

 private:
  int64_t width(const te::Compute& c) const {
    const int64_t lanes = target_.lanes(c.outputs[0].type);
    return c.reduce_axes.back().extent >= 2 * kChains * lanes ? kChains * lanes : lanes;
  }

  bool is_factored(const te::Compute& c) const {
    return c.is_reduction() && c.outputs.size() == 1 && c.combiner.kind != te::CombinerKind::kTuple &&
           reduces_contiguous(c) && c.reduce_axes.back().extent >= 2 * target_.lanes(c.outputs[0].type);
  }

  // Shape of the partial results of `c`.
  te::Compute factored(const te::Compute& c) const {
    te::Compute rf = c;
    rf.axes.push_back({"lane", width(c)});
    return rf;
  }

  void attach(schedule::Schedule& s, const std::string& name, const te::Compute& c, const std::string& tile) const {
    int64_t bytes = c.outputs[0].type.bytes();
    for (size_t i = rows_; i < c.axes.size(); ++i) bytes *= c.axes[i].extent;
    s.compute_at(name, output_.name(), tile, bytes <= kStackBytes ? loop::Scope::kStack : loop::Scope::kScratch);
  }

  // Partial sums: reductions outside, chains of vectors inside.
  void partial_loops(schedule::Schedule& s, const te::Compute& c) const {
    const std::string rf = c.name() + ".rf";
    const std::string lane = fmt::format("i{}", c.axes.size());
    const int64_t lanes = target_.lanes(c.outputs[0].type);
    s.split(rf, lane, {lanes});
    std::vector<std::string> order;
    for (const te::Axis& r : c.reduce_axes) order.push_back(r.name);
    order.push_back(lane + ".0");
    order.push_back(lane + ".1");
    s.reorder(rf, order);
    s.unroll(rf, lane + ".0");
    s.vectorize(rf, lane + ".1");
  }

  void loops(schedule::Schedule& s, const te::Compute& c) const {
    if (is_factored(c)) {  // what remains: the sum of the partial results
      const int64_t lanes = target_.lanes(c.outputs[0].type);
      s.split(c.name(), "r0", {lanes});
      s.vectorize(c.name(), "r0.1");
      return;
    }
    if (c.axes.size() <= rows_ || c.axes.back().extent == 1) return;
    const std::string last = c.axes.back().name;
    const int64_t lanes = std::min<int64_t>(lanes_for(c, target_), c.axes.back().extent);
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
};

}  // namespace

Result<Candidates> construct_rows(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program = inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
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
  RowScheduler(program, output, rows, target).run(out.schedule);
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
