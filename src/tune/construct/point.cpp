// A thread for each point of a stage, or for a vector of them: the plainest mapping on devices whose tiles have
// threads.
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "core/model_units.h"
#include "schedule/stages.h"
#include "support/math.h"
#include "te/reads.h"
#include "tune/construct/construct.h"
#include "tune/construct/elementwise.h"

namespace tw::tune {
namespace {

constexpr int64_t kMostThreads = 256;   // of a tile: several tiles hide each other's waits
constexpr int64_t kUnitThreads = 2048;  // that hide the waits of a unit's memory accesses
constexpr int64_t kThreadVectors = 4;   // of a thread, where there is enough for all units: its loads wait together

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

// Threads of a tile, such that all units get tiles.
int64_t threads_for(int64_t points, const TargetInfo& target) {
  const int64_t share = ceil_div(points, std::max(1, target.units));
  const auto threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, share))));
  return std::clamp(threads, kWarpThreads, kMostThreads);
}

// What one thread does: vectors of `lanes` neighbours of the last axis, `vectors` of them, a tile's threads apart.
struct ThreadWork {
  int64_t lanes = 1;
  int64_t vectors = 1;
};

// Cuts a root stage into tiles and threads. Returns the loop of threads.
std::string schedule_points(schedule::Schedule& s, const te::Compute& c, const ThreadWork& work,
                            const TargetInfo& target) {
  const int64_t lanes = work.lanes;
  std::vector<std::string> loops = axis_names(c.axes);
  if (lanes > 1) {
    s.split(c.name(), loops.back(), {lanes}).vectorize(c.name(), loops.back() + ".1");
    loops.back() += ".0";
  }
  if (loops.size() > 1) s.fuse(c.name(), loops);
  const std::string all = fmt::format("{}", fmt::join(loops, "$"));
  const int64_t threads = threads_for(num_elements(c.outputs[0].shape) / lanes, target);
  std::string of_threads = all + ".1";
  if (work.vectors > 1) {
    s.split(c.name(), all, {work.vectors, threads});
    of_threads = all + ".2";
    s.reorder(c.name(), {of_threads, all + ".1"}).unroll(c.name(), all + ".1");
  } else {
    s.split(c.name(), all, {threads});
  }
  s.parallel(c.name(), {all + ".0"}).threads(c.name(), of_threads);
  return of_threads;
}

// Elements of the widest type in memory that one access moves.
int64_t access_lanes(const te::Compute& c, const TargetInfo& target) {
  int64_t bytes = c.outputs[0].type.bytes();
  te::visit_reads(c, [&](const Expr& read) { bytes = std::max<int64_t>(bytes, read.type().bytes()); });
  return target.vector_bytes / bytes;
}

ThreadWork work_of(const te::Compute& c, const TargetInfo& target) {
  ThreadWork work;
  const int64_t lanes = access_lanes(c, target);
  if (c.is_reduction() || c.outputs.size() > 1 || c.axes.back().extent % lanes != 0) return work;
  work.lanes = lanes;
  const bool plenty =
      num_elements(c.outputs[0].shape) / lanes / kThreadVectors >= std::max(1, target.units) * kUnitThreads;
  if (plenty && !schedule::calls_function(c)) work.vectors = kThreadVectors;
  return work;
}

}  // namespace

Result<Candidates> construct_point(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  const te::Program program =
      schedule::inline_stages(out.schedule, task.program, [](const te::Compute&) { return false; });
  const Readers readers = readers_of(program);
  std::map<std::string, std::vector<std::string>> attached;  // reductions, by the stage that reads them
  std::set<std::string> inside;                              // all of those
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction() || program.is_output(c.name()) || c.axes.empty()) continue;
    const te::Compute* reader = point_reader(readers, c.name());
    if (reader == nullptr) continue;
    attached[reader->name()].push_back(c.name());
    inside.insert(c.name());
  }
  for (const te::Compute& c : program.computes) {
    if (inside.contains(c.name()) || c.axes.empty()) continue;
    const std::vector<std::string>& producers = attached[c.name()];
    const std::string loop =
        schedule_points(out.schedule, c, producers.empty() ? work_of(c, target) : ThreadWork(), target);
    for (const std::string& reduction : producers)
      out.schedule.compute_at(reduction, c.name(), loop, loop::Scope::kStack);
  }
  return Candidates{std::move(out)};
}

}  // namespace tw::tune
