#include "construct/elementwise.h"

#include <fmt/ranges.h>

#include <bit>

#include "cost/nest.h"
#include "cost/units.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::construct {

bool holds(const Stages& stages, const std::string& name) {
  return std::ranges::any_of(stages, [&](const te::Compute* c) { return c->name() == name; });
}

std::vector<std::string> tile_loops(const std::vector<std::string>& loops, const std::vector<int64_t>& extents,
                                    int64_t work) {
  std::vector<std::string> tiles;
  int64_t rest = num_elements(extents);
  for (size_t i = 0; i < loops.size() && rest > work; ++i) {
    tiles.push_back(loops[i]);
    rest /= std::max<int64_t>(1, extents[i]);
  }
  return tiles;
}

int lanes_for(const te::Compute& compute, const TargetInfo& target) {
  int bytes = compute.outputs[0].type.bytes();
  for (const Expr& body : compute.body) {
    visit(body, [&](const Expr& e) {
      const bool index = e.type() == DataType::i64() && e.op() != Op::kLoad;
      if (!index) bytes = std::max(bytes, e.type().bytes());
    });
  }
  return target.vector_bytes / bytes;
}

namespace {

// Vectors that an elementary function works on side by side: its steps wait for each other, and the core looks only a
// few dozen instructions ahead for others that are ready.
constexpr int64_t kFunctionVectors = 4;

// The loops of one element-wise stage, outermost first, the vector last.
struct StageLoops {
  std::vector<std::string> names;
  std::vector<cost::NestLoop> loops;
};

class ElementwiseScheduler {
 public:
  ElementwiseScheduler(const te::Program& program, const Stages& stages, const TargetInfo& target)
      : c_(*stages.back()),
        target_(target),
        stages_(stages),
        last_(c_.axes.size() - 1),
        line_(line_elements(target, DataType::f32())) {
    lanes_ = c_.axes.back().extent;
    nest_.axes = c_.axes;
    for (const te::Tensor& out : c_.outputs)
      nest_.accesses.push_back(cost::make_access(out, out(te::variables(c_.axes)), c_.axes));
    for (const te::Compute* stage : stages_) {
      lanes_ = std::clamp<int64_t>(lanes_, 1, lanes_for(*stage, target));
      te::visit_reads(*stage, [&](const Expr& read) {
        if (!holds(stages_, read->name))
          nest_.accesses.push_back(cost::make_access(program.tensor(read->name), read, stage->axes));
      });
    }
  }

  void run(schedule::Schedule& s) {
    const std::optional<size_t> crossing = best_crossing();
    const bool calls = std::ranges::any_of(stages_, [](const auto* c) { return schedule::calls_function(*c); });
    if (!crossing && calls) lanes_ = std::clamp<int64_t>(c_.axes.back().extent, 1, lanes_ * kFunctionVectors);
    const StageLoops plan = loops(crossing);
    if (crossing) s.split(c_.name(), c_.axes[*crossing].name, {line_});
    if (lanes_ > 1) split_last(s);
    if (crossing) {
      s.reorder(c_.name(), plan.names);
      s.unroll(c_.name(), c_.axes[*crossing].name + ".1");
    }
    std::vector<int64_t> extents = mapped(plan.loops, &cost::NestLoop::trips);
    const std::vector<std::string> tiles = tile_loops(plan.names, extents);
    if (!tiles.empty()) s.parallel(c_.name(), tiles);
    hold(s, stages_, plan.names[plan.names.size() - (lanes_ > 1 ? 2 : 1)], lanes_);
  }

 private:
  // A long single axis has a loop for tiles.
  int64_t chunk() const {
    const int64_t extent = c_.axes[last_].extent;
    return lanes_ > 1 && c_.axes.size() == 1 && extent > kTileElements ? kTileElements / lanes_ : 1;
  }

  void split_last(schedule::Schedule& s) const {
    const std::string& last = c_.axes[last_].name;
    s.split(c_.name(), last, chunk() > 1 ? std::vector<int64_t>{chunk(), lanes_} : std::vector<int64_t>{lanes_});
    s.vectorize(c_.name(), last + (chunk() > 1 ? ".2" : ".1"));
  }

  // In the order of the axes; with `crossing`, that axis is tiled, and its inner part runs inside the vectors' loop.
  StageLoops loops(std::optional<size_t> crossing) const {
    StageLoops out;
    const auto add = [&](const std::string& name, size_t axis, int64_t trips, int64_t step) {
      out.names.push_back(name);
      out.loops.push_back({axis, trips, step});
    };
    for (size_t a = 0; a < last_; ++a) {
      const te::Axis& axis = c_.axes[a];
      if (a == crossing)
        add(axis.name + ".0", a, ceil_div(axis.extent, line_), line_);
      else
        add(axis.name, a, axis.extent, 1);
    }
    const te::Axis& last = c_.axes[last_];
    const std::string vectors = lanes_ > 1 ? last.name + ".0" : last.name;
    add(vectors, last_, ceil_div(last.extent, chunk() * lanes_), chunk() * lanes_);
    if (crossing) add(c_.axes[*crossing].name + ".1", *crossing, line_, 1);
    if (chunk() > 1) add(last.name + ".1", last_, chunk(), lanes_);
    if (lanes_ > 1) add(last.name + (chunk() > 1 ? ".2" : ".1"), last_, lanes_, 1);
    return out;
  }

  // The axis whose inner loop uses up the lines of a read that does not run along the output's last axis; none when the
  // model sees no gain.
  std::optional<size_t> best_crossing() const {
    std::optional<size_t> best;
    double best_ns = predict(std::nullopt);
    for (const cost::Access& access : nest_.accesses) {
      if (access.dims.empty() || lanes_ < 2) continue;
      for (const auto& [axis, coefficient] : access.dims.back().terms) {
        if (axis == last_ || c_.axes[axis].extent < line_) continue;
        const double ns = predict(axis);
        if (ns < best_ns * cost::kCrossingWorthIt) {
          best = axis;
          best_ns = ns;
        }
      }
    }
    return best;
  }

  double predict(std::optional<size_t> crossing) const {
    cost::Nest nest = nest_;
    nest.loops = loops(crossing).loops;
    return cost::nest_ns(nest, arithmetic_ns(crossing), target_, 1);
  }

  double arithmetic_ns(std::optional<size_t> crossing) const {
    double cycles = 0;  // of one vector
    for (const cost::Access& access : nest_.accesses) cycles += load_cycles(access, crossing);
    const double vectors = static_cast<double>(te::num_points(c_.axes)) / static_cast<double>(lanes_);
    return cycles * vectors * 2 * static_cast<double>(lanes_) / cost::peak_flop_per_ns(target_);
  }

  // With the lines of `access` along the unrolled axis, the loads of neighbouring points are columns of one block.
  double load_cycles(const cost::Access& access, std::optional<size_t> crossing) const {
    if (runs_along_last(access)) return 1;
    const bool columns = crossing && std::ranges::any_of(access.dims.back().terms, [&](const auto& term) {
                           return term.first == *crossing && term.second == 1;
                         });
    return columns ? cost::kTransposedCycles : cost::kLaneCycles * static_cast<double>(lanes_);
  }

  bool runs_along_last(const cost::Access& access) const {
    for (size_t d = 0; d < access.dims.size(); ++d) {
      for (const auto& [axis, coefficient] : access.dims[d].terms) {
        if (axis == last_) return d + 1 == access.dims.size() && coefficient == 1;
      }
    }
    return true;  // the same for all lanes
  }

  const te::Compute& c_;
  const TargetInfo& target_;
  Stages stages_;
  size_t last_;
  int64_t line_;  // f32 in a line: points along another tensor's contiguous axis inside a tile
  int64_t lanes_ = 1;
  cost::Nest nest_;
};

// A reduction: vectors along the last axis when it is long enough, serial reductions inside.
void schedule_reduction(schedule::Schedule& s, const te::Compute& c, const TargetInfo& target) {
  std::vector<std::string> loops = axis_names(c.axes);
  std::vector<int64_t> extents = c.outputs[0].shape;
  std::vector<std::string> order = loops;
  const int64_t lanes = std::min<int64_t>(lanes_for(c, target), extents.back());
  std::string vector_loop;
  if (lanes > 1) {
    s.split(c.name(), loops.back(), {lanes});
    vector_loop = loops.back() + ".1";
    s.vectorize(c.name(), vector_loop);
    loops.back() += ".0";
    extents.back() = ceil_div(extents.back(), lanes);
    order = loops;
    for (const te::Axis& r : c.reduce_axes) order.push_back(r.name);
    order.push_back(vector_loop);
    s.reorder(c.name(), order);
  }
  const int64_t reduced = std::max<int64_t>(1, te::num_points(c.reduce_axes));
  const std::vector<std::string> tiles = tile_loops(loops, extents, std::max<int64_t>(1, kTileElements / reduced));
  if (!tiles.empty()) s.parallel(c.name(), tiles);
}

}  // namespace

void schedule_stage(schedule::Schedule& s, const te::Program& program, const Stages& stages, const TargetInfo& target) {
  const te::Compute& c = *stages.back();
  if (c.axes.empty()) return;
  c.is_reduction() ? schedule_reduction(s, c, target) : ElementwiseScheduler(program, stages, target).run(s);
}

void hold(schedule::Schedule& s, const Stages& stages, const std::string& loop, int64_t lanes) {
  for (auto c = stages.rbegin() + 1; c != stages.rend(); ++c) {  // what reads a stage is placed before it
    s.compute_at((*c)->name(), stages.back()->name(), loop, loop::Scope::kRegister);
    if (lanes > 1) s.vectorize((*c)->name(), (*c)->axes.back().name);
  }
}

std::vector<Stages> root_stages(const te::Program& program) {
  const std::map<std::string, std::string> ends = schedule::point_ends(program);
  std::map<std::string, Stages> held;  // by root, whose producers come before it
  std::vector<Stages> roots;
  for (const te::Compute& c : program.computes) {
    const auto end = ends.find(c.name());
    Stages& stages = held[end == ends.end() ? c.name() : end->second];
    stages.push_back(&c);
    if (end == ends.end()) roots.push_back(stages);
  }
  return roots;
}

void schedule_side_stages(schedule::Schedule& s, const te::Program& program, const std::string& first,
                          const TargetInfo& target, const std::function<bool(const te::Compute&)>& is_inside) {
  for (const te::Compute& c : program.computes) {
    if (c.name() == first || is_inside(c) || te::depends_on(program, c, first)) continue;
    schedule_stage(s, program, {&c}, target);
  }
}

Layout dim_last(size_t rank, int dim) {
  std::vector<int64_t> order = sequence(rank);
  std::rotate(order.begin() + dim, order.begin() + dim + 1, order.end());
  return Layout().reorder(std::move(order));
}

int64_t threads_for(int64_t points, int64_t max, const TargetInfo& target) {
  const int64_t share = ceil_div(points, std::max(1, target.compute_units));
  const auto threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, share))));
  return std::clamp(threads, kWarpThreads, max);
}

std::string map_to_threads(schedule::Schedule& s, const std::string& stage, const std::vector<std::string>& loops,
                           int64_t threads, int64_t turns) {
  if (loops.size() > 1) s.fuse(stage, loops);
  const std::string all = fmt::format("{}", fmt::join(loops, "$"));
  std::string of_threads = all + ".1";
  if (turns > 1) {
    s.split(stage, all, {turns, threads});
    of_threads = all + ".2";
    s.reorder(stage, {of_threads, all + ".1"}).unroll(stage, all + ".1");
  } else {
    s.split(stage, all, {threads});
  }
  s.parallel(stage, {all + ".0"}).threads(stage, of_threads);
  return of_threads;
}

std::string loop_of_turns(const std::string& of_threads, int64_t turns) {
  return turns > 1 ? of_threads.substr(0, of_threads.rfind('.')) + ".1" : of_threads;
}

}  // namespace tw::construct
