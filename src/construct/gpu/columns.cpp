// A reduction that keeps the contiguous axis, with an element-wise epilogue, on GPUs: depthwise convolutions and
// poolings over channels that are stored last. A thread computes a vector of the last axis at a few neighbouring points
// of the axis before it, a strip: its sums stay in registers, and so does what its windows share, weights and, where
// padding stands before them, each row of pixels, loaded once with one comparison for each vector. Where columns are
// too few for all SMs and their reductions long, several threads combine parts of a column, and a second kernel those.
#include <algorithm>

#include "construct/column_sums.h"
#include "construct/elementwise.h"
#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

constexpr int64_t kMaxThreads = 128;   // threads of a block: short tiles, so that all SMs get some
constexpr int64_t kSmThreads = 1024;   // resident threads of an SM that hide memory latency
constexpr int64_t kMaxLanes = 8;       // sums of a vector
constexpr int64_t kMaxPoints = 7;      // points of a strip: registers are left for pixels and weights
constexpr int64_t kMaxPixels = 20;     // vectors kept of an input row by a strip
constexpr int64_t kMaxUnrolled = 128;  // products or terms of a strip, in vectors
constexpr int64_t kTogether = 16;      // terms in flight of a longer reduction
// A second kernel takes as long as 100 to 200 terms, which a thread loads one group of kTogether after the other.
constexpr int64_t kLongReduction = 128;
constexpr int64_t kMinTerms = 8;  // of a part
// What is tried: threads of an SM, which hide its waits where each loads kTogether vectors, and the most parts, of
// which the second kernel has less to do where they are fewer.
constexpr std::pair<int64_t, int64_t> kParts[] = {{256, 4096}, {256, 1024}, {256, 256}, {512, 4096}, {1024, 4096}};
constexpr int64_t kSharedColumns = 8;                        // of a block: a line of them is a sector of memory
constexpr int64_t kSharingThreads = 32, kManySharing = 128;  // of each, the second where terms are many
constexpr int64_t kManyTerms = 2048;
constexpr int64_t kManyColumns = 1 << 15;  // with a thread each they fill a GPU

struct Columns {
  te::Program program;  // after inlining
  std::string sum, output;
  std::vector<std::string> pixels;  // stages before the sum: a strip's part of a window's row is kept
  int64_t lanes = 1;

  const te::Compute& compute() const { return *program.find_compute(sum); }
  const te::Axis& column() const { return compute().axes.back(); }
  bool has_rows() const { return compute().axes.size() > 1; }
  const te::Axis& row() const { return compute().axes[compute().axes.size() - 2]; }
  int64_t elements() const { return num_elements(compute().outputs[0].shape); }
  int64_t vectors() const { return elements() / lanes; }
};

// The only reduction of a program, which keeps its last axis.
Result<const te::Compute*> reduction_of(const te::Program& program) {
  const Result<const te::Compute*> only = schedule::only_reduction(program);
  if (!only.ok()) return Reason{only.reason()};
  const te::Compute* found = *only;
  if (found->combiner.kind == te::CombinerKind::kTuple || found->axes.empty())
    return declined("{} has no columns", found->name());
  if (schedule::has_empty_axis(*found)) return declined("{} has an axis of extent 0", found->name());
  return found;
}

bool is_last_index(const Expr& read, const std::string& axis) {
  return !read->args.empty() && read->args.back().is_var() && read->args.back()->name == axis;
}

// Constants are stored with the columns last.
std::map<std::string, Layout> constant_layouts(const te::Compute& sum, const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  te::visit_reads(sum, [&](const Expr& read) {
    const int d = te::dim_of_axis(read, sum.axes.back().name);
    if (!task.kept.contains(read->name) || d < 0 || is_last_index(read, sum.axes.back().name)) return;
    layouts[read->name] = dim_last(read->args.size(), d);
  });
  return layouts;
}

// Whether every read moves whole vectors along the columns. A read that is the same for all columns belongs to a
// product of matrices or of a matrix and a vector.
bool reads_along_columns(const te::Compute& sum) {
  bool along = true;
  const std::string& column = sum.axes.back().name;
  te::visit_reads(sum, [&](const Expr& read) {
    along = along && is_last_index(read, column);
    for (size_t d = 0; d + 1 < read->args.size(); ++d) along = along && !uses_var(read->args[d], column);
  });
  return along;
}

// Lanes of a vector: whole accesses of the narrowest type that the sum reads or the output has.
int64_t widest_lanes(const Columns& plan, const TargetInfo& target) {
  const te::Compute& sum = plan.compute();
  int64_t bytes = plan.program.tensor(plan.output).type.bytes();
  for (const te::Tensor& t : plan.program.find_compute(plan.output)->outputs)
    bytes = std::min<int64_t>(bytes, t.type.bytes());
  te::visit_reads(sum, [&](const Expr& read) { bytes = std::min<int64_t>(bytes, read.type().bytes()); });
  int64_t lanes = std::min(kMaxLanes, target.vector_bytes / bytes);
  while (lanes > 1 && plan.column().extent % lanes != 0) lanes /= 2;
  return lanes;
}

// Fewer of them where that leaves SMs without threads.
int64_t lanes_of(const Columns& plan, const TargetInfo& target) {
  const int64_t enough = std::max(1, target.compute_units) * kWarpThreads;
  int64_t lanes = widest_lanes(plan, target);
  while (lanes > 2 && plan.elements() / lanes < enough) lanes /= 2;
  return lanes;
}

// Points of dim `index` that the windows of `points` neighbours of `row` reach in one turn of all loops but the
// innermost of the reduction; nothing where they are not in a line.
std::optional<int64_t> points_read(const te::Compute& sum, const Expr& index, int64_t points) {
  const auto of_row = coefficient_of(index, sum.axes[sum.axes.size() - 2].name);
  const auto of_step = coefficient_of(index, sum.reduce_axes.back().name);
  if (!of_row || !of_step) return std::nullopt;
  return std::abs(*of_row) * (points - 1) + std::abs(*of_step) * (sum.reduce_axes.back().extent - 1) + 1;
}

// Vectors of a stage that a strip keeps; nothing where that is not known.
std::optional<int64_t> kept_vectors(const te::Compute& sum, const std::string& stage, int64_t points) {
  std::optional<int64_t> max = 1;
  te::visit_reads(sum, [&](const Expr& read) {
    if (read->name != stage) return;
    int64_t all = 1;
    for (size_t d = 0; d + 1 < read->args.size() && max; ++d) {
      const auto here = points_read(sum, read->args[d], points);
      here ? static_cast<void>(all *= *here) : max.reset();
    }
    if (max) max = std::max(*max, all);
  });
  return max;
}

// The loop of the sum in which a row of pixels is kept: the one around the innermost of the reduction.
std::optional<std::string> loop_of_pixels(const te::Compute& sum) {
  if (sum.axes.size() < 2) return std::nullopt;
  if (sum.reduce_axes.size() > 1) return sum.reduce_axes[sum.reduce_axes.size() - 2].name;
  if (sum.axes.size() > 2) return sum.axes[sum.axes.size() - 3].name;
  return std::nullopt;
}

// Stages before the sum: those that guard what only the sum reads are kept; others are computed where they are read.
void place_producers(Columns& plan, schedule::Schedule& s) {
  std::set<std::string> inlined;
  for (const te::Compute& c : plan.program.computes) {
    if (!te::depends_on(plan.program, plan.compute(), c.name()) || c.name() == plan.sum) continue;
    const bool only_of_sum = std::ranges::all_of(plan.program.computes, [&](const te::Compute& reader) {
      return reader.name() == plan.sum || te::count_reads(reader, c.name()) == 0;
    });
    const std::optional<std::string> loop = loop_of_pixels(plan.compute());
    const auto vectors = loop ? kept_vectors(plan.compute(), c.name(), kMaxPoints) : std::nullopt;
    const bool keeps = only_of_sum && vectors && *vectors <= kMaxPixels;
    if (keeps) {
      plan.pixels.push_back(c.name());
    } else {
      inlined.insert(c.name());
      s.inline_stage(c.name());
    }
  }
  plan.program = te::inline_computes(plan.program, inlined);
}

// Splits the output into tiles and threads, a strip each. Returns the loop of threads.
std::string tile_output(const Columns& plan, int64_t points, const TargetInfo& target, schedule::Schedule& s) {
  std::vector<std::string> strips = axis_names(plan.compute().axes), inside;
  if (plan.lanes > 1) {
    s.split(plan.output, plan.column().name, {plan.lanes}).vectorize(plan.output, plan.column().name + ".1");
    strips.back() += ".0";
  }
  if (plan.has_rows()) {
    s.split(plan.output, plan.row().name, {points});
    strips[strips.size() - 2] += ".0";
    inside.push_back(plan.row().name + ".1");
  }
  if (plan.lanes > 1) inside.push_back(plan.column().name + ".1");
  s.reorder(plan.output, joined(strips, inside));
  const std::string thread =
      map_to_threads(s, plan.output, strips, threads_for(plan.vectors() / points, kMaxThreads, target));
  if (plan.has_rows()) s.unroll(plan.output, inside.front());
  return thread;
}

// The loops of the reduction: unrolled from the innermost outwards as long as the code stays short.
std::vector<std::string> tile_reduction(const te::Compute& sum, const std::string& stage, int64_t points,
                                        schedule::Schedule& s) {
  std::vector<std::string> loops;
  int64_t copies = points;
  for (size_t k = sum.reduce_axes.size(); k-- > 0;) {
    const te::Axis& r = sum.reduce_axes[k];
    const bool innermost = k + 1 == sum.reduce_axes.size();
    int64_t together = r.extent;
    if (copies * together > kMaxUnrolled) together = innermost ? std::min(kTogether, r.extent) : 1;
    while (r.extent % together != 0) --together;
    copies *= together;
    if (together == r.extent) s.unroll(stage, r.name);
    if (together == r.extent || together == 1) {
      loops.insert(loops.begin(), r.name);
      continue;
    }
    s.split(stage, r.name, {together}).unroll(stage, r.name + ".1");
    loops.insert(loops.begin(), {r.name + ".0", r.name + ".1"});
  }
  return loops;
}

void tile_sums(const Columns& plan, const std::string& stage, int64_t points, schedule::Schedule& s) {
  const te::Compute& sum = plan.compute();
  const std::string column = plan.column().name;
  if (plan.lanes > 1) s.split(stage, column, {plan.lanes});
  std::vector<std::string> order = axis_names(sum.axes);
  order.resize(std::max<size_t>(2, order.size()) - 2);
  for (const std::string& loop : tile_reduction(sum, stage, points, s)) order.push_back(loop);
  if (plan.has_rows()) order.push_back(plan.row().name);
  order.push_back(plan.lanes > 1 ? column + ".0" : column);
  if (plan.lanes > 1) order.push_back(column + ".1");
  s.reorder(stage, order);
  if (plan.has_rows()) s.unroll(stage, plan.row().name);
  if (plan.lanes > 1) s.vectorize(stage, column + ".1");
}

// What stands between the sums and the output.
void inline_followers(const Columns& plan, schedule::Schedule& s) {
  for (const te::Compute& c : plan.program.computes) {
    const bool follows = te::depends_on(plan.program, c, plan.sum);
    if (follows && c.name() != plan.output) s.inline_stage(c.name());
  }
}

void schedule_strips(const Columns& plan, int64_t points, const TargetInfo& target, schedule::Schedule& s) {
  inline_followers(plan, s);
  const std::string sums = plan.output == plan.sum ? plan.sum + ".acc" : plan.sum;
  if (plan.output == plan.sum) s.cache_write(plan.sum);
  s.compute_at(sums, plan.output, tile_output(plan, points, target, s), loop::Scope::kRegister);
  tile_sums(plan, sums, points, s);
  for (const std::string& stage : plan.pixels) {
    s.compute_at(stage, sums, *loop_of_pixels(plan.compute()), loop::Scope::kRegister);
    const std::vector<std::string> axes = axis_names(plan.program.find_compute(stage)->axes);
    for (size_t d = 0; d + 1 < axes.size(); ++d) s.unroll(stage, axes[d]);
    if (plan.lanes > 1) s.vectorize(stage, axes.back());
  }
}

// Whether the windows of neighbours of the strip's axis have something in common: weights, or pixels.
bool shares_in_strips(const te::Compute& sum) {
  bool shares = false;
  const std::string& row = sum.axes[sum.axes.size() - 2].name;
  te::visit_reads(sum, [&](const Expr& read) {
    bool moves = false, overlaps = false;
    for (const Expr& index : read->args) {
      if (!uses_var(index, row)) continue;
      moves = true;
      const auto step = coefficient_of(index, row);
      const auto window = points_read(sum, index, 1);
      overlaps = overlaps || (step && window && std::abs(*step) < *window);
    }
    shares = shares || !moves || overlaps;
  });
  return shares;
}

// Points of a strip: those that divide a row, most first as long as all SMs have threads.
std::vector<int64_t> strip_points(const Columns& plan, const TargetInfo& target) {
  if (!plan.has_rows() || !shares_in_strips(plan.compute())) return {1};
  std::vector<int64_t> enough, few;
  for (const int64_t points : {4L, kMaxPoints, 2L, 1L}) {
    if (plan.row().extent % points != 0) continue;
    const bool fills = plan.vectors() / points >= std::max(1, target.compute_units) * kSmThreads;
    if (fills) enough.push_back(points);
    if (!fills) few.insert(few.begin(), points);
  }
  return joined(enough, few);
}

void add_strips(const Columns& plan, const Construction& base, const TargetInfo& target, Candidates& candidates) {
  for (const int64_t points : strip_points(plan, target)) {
    candidates.push_back(base);
    schedule_strips(plan, points, target, candidates.back().schedule);
    candidates.back().trace = {fmt::format("{} points of {} columns by a thread", points, plan.lanes)};
  }
}

// Numbers of parts of the outermost reduction that give all SMs threads, each of whole accesses; none where there are
// enough, or terms few.
std::vector<int64_t> parts_of(const Columns& plan, const TargetInfo& target) {
  const te::Compute& sum = plan.compute();
  if (!plan.pixels.empty() || te::num_points(sum.reduce_axes) < kLongReduction) return {};
  const int64_t rows = sum.reduce_axes.front().extent, vectors = plan.elements() / widest_lanes(plan, target);
  const int64_t most = std::min(rows, te::num_points(sum.reduce_axes) / kMinTerms);
  std::vector<int64_t> counts;
  for (const auto& [threads, max] : kParts) {
    const int64_t wanted =
        std::min({std::max(1, target.compute_units) * threads / std::max<int64_t>(1, vectors), most, max});
    if (wanted < 2) continue;
    const int64_t even = part_counts(rows, wanted, 1).front();
    // Parts of unequal length compare each row with their last one.
    const int64_t count = even * 2 >= wanted && even <= 2 * wanted ? even : wanted;
    if (std::ranges::count(counts, count) == 0) counts.push_back(count);
  }
  return counts;
}

// The outermost reduction in `parts`, with the kernel that combines them.
Result<Construction> in_parts(const Columns& plan, const Construction& base, int64_t parts, const TargetInfo& target) {
  Columns first = plan;
  schedule::Schedule split;
  first.sum = first.output = cut_sum(split, plan.compute(), plan.compute().reduce_axes.front().name, parts);
  first.program = schedule::rewritten(plan.program, split);
  const te::Program rest = adding_program(first.program, first.sum, plan.sum, plan.program.outputs);
  const Result<Candidates> adding = add_parts_on_gpu({rest, {}}, target);
  if (!adding.ok()) return Reason{adding.reason()};
  Construction out = base;
  for (const schedule::Schedule& part : {split, adding->front().schedule}) {
    for (const schedule::Primitive& p : part.primitives()) out.schedule.add(p);
  }
  std::erase_if(first.program.computes, [&](const te::Compute& c) { return c.name() != first.sum; });
  first.program.outputs = mapped(first.compute().outputs, &te::Tensor::name);
  first.lanes = lanes_of(first, target);
  schedule_strips(first, 1, target, out.schedule);
  out.trace = {fmt::format("{} columns by a thread, in {} parts", first.lanes, parts)};
  return out;
}

int64_t sharing_threads(const Columns& plan) {
  return plan.compute().reduce_axes.front().extent < kManyTerms ? kSharingThreads : kManySharing;
}

// A block adds a few columns: each of its threads some neighbouring terms of one, what they have in shared memory, then
// one thread a column.
void schedule_shared(const Columns& plan, schedule::Schedule& s) {
  inline_followers(plan, s);
  const std::string sums = plan.sum + ".acc", shared = sums + ".rf", column = plan.column().name;
  const std::string threads = fmt::format("i{}", plan.compute().axes.size());
  s.cache_write(plan.sum);
  if (plan.output != plan.sum) s.inline_stage(plan.sum);
  s.rfactor_blocks(sums, plan.compute().reduce_axes.front().name, sharing_threads(plan));
  std::vector<std::string> tiles = axis_names(plan.compute().axes);
  s.split(plan.output, column, {kSharedColumns}).threads(plan.output, column + ".1");
  tiles.back() += ".0";
  s.parallel(plan.output, tiles);
  s.compute_at(sums, plan.output, tiles.back(), loop::Scope::kStack);
  s.compute_at(shared, plan.output, tiles.back(), loop::Scope::kStack);
  std::vector<std::string> order = axis_names(plan.compute().axes);
  order.insert(order.end() - 1, threads);
  const std::string row = plan.compute().reduce_axes.front().name;
  const int64_t terms = ceil_div(plan.compute().reduce_axes.front().extent, sharing_threads(plan));
  s.split(shared, row, {std::min(kTogether, terms)}).unroll(shared, row + ".1");
  s.reorder(shared, joined(order, std::vector<std::string>{row + ".0", row + ".1"}));
  s.threads(shared, threads).threads(shared, column);
  s.threads(sums, column).unroll(sums, "r0");
}

// Whether a thread would wait for more than a few groups of terms, one after the other, where it could share them.
bool pays_to_share(const Columns& plan) {
  const te::Compute& sum = plan.compute();
  return sum.reduce_axes.size() == 1 && plan.pixels.empty() && sum.reduce_axes.front().extent >= kLongReduction &&
         plan.elements() < kManyColumns;
}

enum class PartialSums : uint8_t { kNone, kWhereFew };

Result<Candidates> construct_strips(const GroupTask& task, const TargetInfo& target, PartialSums parts) {
  Construction base;
  Columns plan;
  plan.program = schedule::inline_stages(base.schedule, task.program, schedule::has_select);
  Result<const te::Compute*> sum = reduction_of(plan.program);
  if (!sum.ok()) return Reason{sum.reason()};
  plan.sum = (*sum)->name();
  base.constant_layouts = constant_layouts(**sum, task);
  if (!base.constant_layouts.empty()) plan.program = te::apply_layouts(plan.program, base.constant_layouts);
  const Result<std::string> output = schedule::epilogue_output(plan.program, plan.compute());
  if (!output.ok()) return Reason{output.reason()};
  plan.output = *output;
  for (const te::Compute& c : plan.program.computes) {
    const bool before = te::depends_on(plan.program, plan.compute(), c.name());
    if (c.name() != plan.sum && !before && !te::depends_on(plan.program, c, plan.sum))
      return declined("{} is computed beside {}", c.name(), plan.sum);
  }
  place_producers(plan, base.schedule);
  if (!reads_along_columns(plan.compute())) return declined("{} does not read along its columns", plan.sum);
  plan.lanes = lanes_of(plan, target);
  Candidates candidates;
  for (const int64_t count : parts == PartialSums::kNone ? std::vector<int64_t>() : parts_of(plan, target)) {
    Result<Construction> split = in_parts(plan, base, count, target);
    if (split.ok()) candidates.push_back(std::move(split).value());
  }
  if (parts == PartialSums::kNone && pays_to_share(plan)) {
    candidates.push_back(base);
    schedule_shared(plan, candidates.back().schedule);
    candidates.back().trace = {fmt::format("{} threads share {} columns", sharing_threads(plan), kSharedColumns)};
  }
  add_strips(plan, base, target, candidates);
  return candidates;
}

}  // namespace

Result<Candidates> construct_gpu_columns(const GroupTask& task, const TargetInfo& target) {
  return construct_strips(task, target, PartialSums::kWhereFew);
}

Result<Candidates> add_parts_on_gpu(const GroupTask& task, const TargetInfo& target) {
  return construct_strips(task, target, PartialSums::kNone);
}

}  // namespace tw::construct
