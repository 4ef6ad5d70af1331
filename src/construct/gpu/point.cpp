// A thread for each point of a stage, or for a vector of them: the plainest mapping on GPUs. Where a short last axis is
// gathered from lines of another axis, as channels of an image that are now stored last are, a thread may also have all
// of it, and so much of a line that it loads that in whole vectors.
#include <algorithm>
#include <numeric>

#include "construct/construct.h"
#include "construct/elementwise.h"
#include "expr/affine.h"
#include "expr/analyzer.h"
#include "schedule/match/stages.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr int64_t kMaxThreads = 256;   // threads of a block: several blocks hide latency of each other
constexpr int64_t kSmThreads = 2048;   // resident threads of an SM that hide memory latency
constexpr int64_t kThreadVectors = 4;  // vectors in flight of a thread, where all SMs are busy
constexpr int64_t kMaxGathered = 32;   // elements of a last axis gathered by one thread

using Readers = std::map<std::string, std::set<const te::Compute*>>;  // of every tensor

Readers readers_of(const te::Program& program) {
  Readers readers;
  for (const te::Compute& c : program.computes)
    te::visit_reads(c, [&](const Expr& read) { readers[read->name].insert(&c); });
  return readers;
}

// The only stage that reads `name` at its own point, or null.
const te::Compute* point_reader(const Readers& readers, const std::string& name) {
  const auto found = readers.find(name);
  if (found == readers.end() || found->second.size() != 1) return nullptr;
  const te::Compute* reader = *found->second.begin();
  return reader->is_reduction() || !te::reads_own_point(*reader, name) ? nullptr : reader;
}

// What one thread does: vectors of `lanes` neighbours of the last axis, `vectors` of them, a tile's threads apart.
struct ThreadWork {
  int64_t lanes = 1;
  int64_t vectors = 1;
};

// Splits a root stage into tiles and threads. Returns the loop of threads.
std::string schedule_points(schedule::Schedule& s, const te::Compute& c, const ThreadWork& work,
                            const TargetInfo& target) {
  const int64_t lanes = work.lanes;
  std::vector<std::string> loops = axis_names(c.axes);
  if (lanes > 1) {
    s.split(c.name(), loops.back(), {lanes}).vectorize(c.name(), loops.back() + ".1");
    loops.back() += ".0";
  }
  const int64_t threads = threads_for(num_elements(c.outputs[0].shape) / lanes, kMaxThreads, target);
  return map_to_threads(s, c.name(), loops, threads, work.vectors);
}

// Elements of the widest type in memory that one access moves.
int64_t access_lanes(const Stages& stages, const TargetInfo& target) {
  int64_t bytes = 1;
  for (const te::Tensor& t : stages.back()->outputs) bytes = std::max<int64_t>(bytes, t.type.bytes());
  for (const te::Compute* c : stages) {
    te::visit_reads(*c, [&](const Expr& read) {
      if (!holds(stages, read->name)) bytes = std::max<int64_t>(bytes, read.type().bytes());
    });
  }
  return target.vector_bytes / bytes;
}

ThreadWork work_of(const Stages& stages, const TargetInfo& target) {
  ThreadWork work;
  const te::Compute& c = *stages.back();
  const int64_t lanes = access_lanes(stages, target);
  if (c.is_reduction() || c.axes.back().extent % lanes != 0) return work;
  work.lanes = lanes;
  const bool plenty =
      num_elements(c.outputs[0].shape) / lanes / kThreadVectors >= std::max(1, target.compute_units) * kSmThreads;
  const bool calls = std::ranges::any_of(stages, [](const auto* s) { return schedule::calls_function(*s); });
  if (plenty && !calls) work.vectors = kThreadVectors;
  return work;
}

// How a thread gathers the last axis of a stage from one tensor.
struct Gather {
  std::string tensor;
  size_t rank = 0;     // of the tensor
  int64_t points = 1;  // of the axis before, of each thread: a vector of the tensor's line
  int64_t lanes = 1;   // of the last axis that are stored together
};

std::optional<Gather> gather_of(const te::Compute& c, const TargetInfo& target) {
  if (c.is_reduction() || c.outputs.size() > 1 || c.axes.size() < 3) return std::nullopt;
  const te::Axis &last = c.axes.back(), &row = c.axes[c.axes.size() - 2];
  std::vector<Expr> reads;
  te::visit_reads(c, [&](const Expr& read) { reads.push_back(read); });
  if (reads.size() != 1 || reads[0]->args.size() < 2 || last.extent > kMaxGathered) return std::nullopt;
  const Expr& line = reads[0]->args.back();
  const auto along = [&](int64_t i) { return substitute(line, {{last.name, int_imm(i)}}); };
  const bool across = std::any_of(reads[0]->args.begin(), reads[0]->args.end() - 1,
                                  [&](const Expr& index) { return uses_var(index, last.name); });
  if (!across || Analyzer().simplify(along(1) - along(0)).is_int(1)) return std::nullopt;
  const int64_t step = coefficient_of(line, row.name).value_or(0),
                whole = target.vector_bytes / reads[0].type().bytes();
  if (step < 1 || whole % step != 0 || row.extent % (whole / step) != 0) return std::nullopt;
  const int64_t lanes = std::gcd(last.extent, target.vector_bytes / c.outputs[0].type.bytes());
  return Gather{reads[0]->name, reads[0]->args.size(), whole / step, lanes};
}

int64_t strips_of(const te::Compute& c, const Gather& g) {
  return num_elements(c.outputs[0].shape) / c.axes.back().extent / g.points;
}

// A thread for `points` neighbours of the axis before the last one, with all of that: it loads vectors of the tensor's
// lines and stores vectors of its own, element by element from the ones to the others.
void schedule_gather(schedule::Schedule& s, const te::Compute& c, const Gather& g, const TargetInfo& target) {
  const std::string cache = g.tensor + ".cache", values = c.name() + ".acc";
  s.cache_read(g.tensor, {}).cache_write(c.name());
  std::vector<std::string> loops = axis_names(c.axes);
  const std::string last = loops.back(), row = loops[loops.size() - 2], around = loops[loops.size() - 3];
  s.split(c.name(), row, {g.points}).unroll(c.name(), row + ".1");
  s.split(c.name(), last, {g.lanes}).unroll(c.name(), last + ".0").vectorize(c.name(), last + ".1");
  loops.pop_back();
  loops.back() += ".0";
  const std::string thread = map_to_threads(s, c.name(), loops, threads_for(strips_of(c, g), kMaxThreads, target));
  s.compute_at(values, c.name(), thread, loop::Scope::kRegister).unroll(values, row).unroll(values, last);
  s.compute_at(cache, values, around, loop::Scope::kRegister);
  for (size_t d = 0; d + 1 < g.rank; ++d) s.unroll(cache, fmt::format("i{}", d));
  s.vectorize(cache, fmt::format("i{}", g.rank - 1));
}

}  // namespace

Result<Candidates> construct_point(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program = schedule::inline_stages(out.schedule, task.program);
  const Readers readers = readers_of(program);
  const std::vector<Stages> roots = root_stages(program);
  std::map<std::string, std::vector<std::string>> attached;  // reductions, by the root whose points read them
  std::set<std::string> inside;                              // all of those
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction() || program.is_output(c.name()) || c.axes.empty()) continue;
    const te::Compute* reader = point_reader(readers, c.name());
    if (reader == nullptr) continue;
    const auto is_there = [&](const Stages& stages) { return holds(stages, reader->name()); };
    attached[std::ranges::find_if(roots, is_there)->back()->name()].push_back(c.name());
    inside.insert(c.name());
  }
  for (const Stages& stages : roots) {
    const te::Compute& c = *stages.back();
    if (inside.contains(c.name()) || c.axes.empty()) continue;
    const std::vector<std::string>& producers = attached[c.name()];
    const ThreadWork work = producers.empty() ? work_of(stages, target) : ThreadWork();
    const std::string loop = schedule_points(out.schedule, c, work, target);
    hold(out.schedule, stages, loop_of_turns(loop, work.vectors), work.lanes);
    for (const std::string& reduction : producers)
      out.schedule.compute_at(reduction, c.name(), loop, loop::Scope::kStack);
  }
  Candidates candidates{std::move(out)};
  const std::optional<Gather> gather =
      program.computes.size() == 1 ? gather_of(program.computes.front(), target) : std::nullopt;
  if (gather) {
    Construction whole;
    schedule::inline_stages(whole.schedule, task.program);
    schedule_gather(whole.schedule, program.computes.front(), *gather, target);
    whole.trace = {fmt::format("{} points with all of their last axis by a thread", gather->points)};
    // Fewer threads with more to load each: where there are enough of them for all SMs.
    const bool fills = strips_of(program.computes.front(), *gather) >= std::max(1, target.compute_units) * kMaxThreads;
    candidates.insert(fills ? candidates.begin() : candidates.end(), std::move(whole));
  }
  return candidates;
}

}  // namespace tw::construct
