// Outputs that are stored by the tiles of another stage: statistics of rows beside the rows, a value beside its sums;
// and what a tile leaves for another kernel beside its own result.
#include <algorithm>

#include "expr/affine.h"
#include "schedule/stage.h"
#include "support/error.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

// Whether a load reads the own point of `c`, or of several for each point one and the same.
bool reads_own(const te::Compute& c, const Expr& load) {
  bool own = !load->predicated && load->args.size() >= c.axes.size();
  for (size_t d = 0; own && d < load->args.size(); ++d) {
    const Expr& index = load.arg(static_cast<int>(d));
    own = d < c.axes.size() ? equal(index, c.axes[d].var()) : index.op() == Op::kIntImm;
  }
  return own;
}

// Whether it reads the own row of `c`: its elements in any order.
bool reads_own_row(const te::Compute& c, const Expr& load) { return !load->predicated && te::own_axes(c, load) > 0; }

// How far a stage and its source agree: in each element, or row by row, where the source is stored another way.
enum class Agree : uint8_t { kPoints, kRows };

// The one tensor that an output is made of, point by point.
std::string source_of(const State& state, const Stage& stage, Agree agree) {
  const te::Compute& c = stage.compute;
  std::set<std::string> sources;
  bool own = !c.is_reduction() && c.outputs.size() == 1;
  te::visit_reads(c, [&](const Expr& load) {
    sources.insert(load->name);
    own = own && (agree == Agree::kRows ? reads_own_row(c, load) : reads_own(c, load));
  });
  if (!own || sources.size() != 1)
    throw UserError(fmt::format("write_at: stage {} is not made of one tensor, point by point", stage.name()));
  const auto is_inside = [](const Stage* reader) { return !reader->is_root(); };
  const std::vector<const Stage*> readers = state.readers(stage);
  if (state.program.is_output(stage.name()) != readers.empty() || std::ranges::any_of(readers, is_inside))
    throw UserError(fmt::format("write_at: stage {} is no output, or is read by its kernel", stage.name()));
  return *sources.begin();
}

// What reads `source` elsewhere, as another output may before it has its place.
std::set<const Stage*> other_roots(const State& state, const Stage& source, const Stage& consumer) {
  std::set<const Stage*> roots;
  for (const Stage* reader : state.readers(source)) {
    if (reader->is_root() && reader != &consumer) roots.insert(reader);
  }
  return roots;
}

// The points of the consumer's first axes inside loop `at`.
Region first_axes(const Stage& stage, const Stage& consumer, size_t at) {
  Region region;
  const std::vector<te::Axis>& axes = stage.compute.axes;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (d >= consumer.compute.axes.size() || axes[d].extent != consumer.compute.axes[d].extent)
      throw UserError(
          fmt::format("write_at: axis {} of {} is none of {}", axes[d].name, stage.name(), consumer.name()));
    VarMap inner;
    int64_t extent = 1;
    const Expr& value = consumer.values.at(consumer.compute.axes[d].name);
    for (size_t i = at + 1; i < consumer.loops.size(); ++i) {
      const Loop& l = consumer.loops[i];
      if (!uses_var(value, l.var)) continue;
      const std::optional<int64_t> step = coefficient_of(value, l.var);
      if (!step || *step < 0)
        throw UserError(fmt::format("write_at: loop {} cuts {} unevenly", l.name, consumer.name()));
      inner.emplace(l.var, int_imm(0));
      extent += *step * (l.extent - 1);
    }
    region.base.push_back(substitute(value, inner));
    region.extent.push_back(std::min(extent, axes[d].extent));
  }
  return region;
}

// The rows of the stage that a turn has of `tensor`, whole.
Region same_rows(const State& state, const Stage& stage, const std::string& tensor, const Stage& consumer, size_t at) {
  const Region read = read_inside(state, tensor, consumer, at);
  const Shape shape = te::shape_of(stage.compute.axes);
  if (shape.empty() || state.program.tensor(tensor).shape.at(0) != shape[0])
    throw UserError(fmt::format("write_at: {} has other rows than {}", tensor, stage.name()));
  Region region{std::vector<Expr>(shape.size(), int_imm(0)), shape};
  region.base[0] = read.base[0];
  region.extent[0] = read.extent[0];
  return region;
}

// One dim of a region: base = sum of coefficient * digit; whether different digits give parts without a common element.
// Counts the parts.
bool are_apart(const Expr& base, int64_t extent, const Analyzer& ranges, int64_t& parts) {
  std::vector<std::pair<int64_t, int64_t>> digits;  // coefficient, how many values
  for (const Term& t : as_sum(ranges.simplify(base)).terms) {
    const Interval range = ranges.bounds(t.atom);
    if (t.coef <= 0 || range.lo <= Interval::kMin || range.hi >= Interval::kMax) return false;
    digits.emplace_back(t.coef, range.hi - range.lo + 1);
  }
  std::ranges::sort(digits);
  int64_t reached = extent;
  for (const auto& [coefficient, values] : digits) {
    if (values == 1) continue;
    if (coefficient < reached) return false;
    reached = coefficient * values;
    parts *= values;
  }
  return true;
}

// How often loop `at` of a stage turns, in all turns of the loops around it: its own, and those around the place where
// it is attached. As a fraction: a loop that was made of others may turn more often than they do.
struct Turns {
  int64_t count = 1, of_guarded = 1;
};

Turns turns_of(State& state, const Stage& stage, size_t at, const Analyzer& ranges) {
  Turns turns;
  if (!stage.is_root()) {
    const Stage& outer = state.stage(stage.consumer);
    turns = turns_of(state, outer, outer.loop_index(stage.at_loop), ranges);
  }
  for (size_t i = 0; i <= at; ++i) turns.count *= stage.loops[i].extent;
  for (const Expr& guard : stage.guards) {
    const bool inside = std::any_of(stage.loops.begin() + static_cast<std::ptrdiff_t>(at) + 1, stage.loops.end(),
                                    [&](const Loop& l) { return uses_var(guard, l.var); });
    if (inside || guard.op() != Op::kLt || guard.arg(1).op() != Op::kIntImm) continue;
    const Interval range = ranges.bounds(ranges.simplify(guard.arg(0)));
    if (range.lo != 0 || range.hi >= Interval::kMax) continue;
    turns.count *= std::min(guard.arg(1)->value, range.hi + 1);
    turns.of_guarded *= range.hi + 1;
  }
  return turns;
}

// Tiles in any order, at the same time: each element is stored in one turn.
void check_apart(const Stage& stage, const Region& region, const Turns& turns, const Analyzer& ranges) {
  int64_t parts = 1;
  bool apart = true;
  for (size_t d = 0; d < region.base.size(); ++d)
    apart = apart && are_apart(region.base[d], region.extent[d], ranges, parts);
  if (!apart || parts * turns.of_guarded < turns.count)
    throw UserError(fmt::format("write_at: an element of {} would be stored more than once", stage.name()));
}

}  // namespace

void apply_write_at(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  const Stage& consumer = state.stage(p.loops.at(0));
  const size_t at = consumer.loop_index(p.loops.at(1));
  if (stage.has_loop_primitives || !stage.is_root())
    throw UserError(fmt::format("write_at: {} comes before its loop primitives", p.stage));
  if (consumer.name() == stage.name()) throw UserError(fmt::format("write_at: {} inside itself", stage.name()));
  const Agree agree = p.option.empty() ? Agree::kPoints : Agree::kRows;
  const Stage* source = state.producer(source_of(state, stage, agree));
  const Analyzer ranges = loop_ranges(state);
  const std::set<const Stage*> roots =
      source == nullptr ? std::set<const Stage*>() : other_roots(state, *source, consumer);
  const bool read_by_others = source != nullptr && state.readers(*source).size() > roots.size();
  Region region = agree == Agree::kRows ? same_rows(state, stage, p.option, consumer, at)
                  : read_by_others      ? read_region(state, *source, consumer, at, roots)
                                        : first_axes(stage, consumer, at);
  region.base.resize(stage.compute.axes.size());
  region.extent.resize(stage.compute.axes.size());
  check_apart(stage, region, turns_of(state, consumer, at, ranges), ranges);
  stage.consumer = consumer.name();
  stage.at_loop = p.loops[1];
  stage.region = region;
  for (size_t d = 0; d < region.extent.size(); ++d) {
    const te::Axis& axis = stage.compute.axes[d];
    Loop& l = stage.loops[d];
    l.extent = region.extent[d];
    const Expr value = region.base[d] + var(l.var);
    stage.values[axis.name] = value;
    if (!loop_ranges(state).simplify(value < int_imm(axis.extent)).is_int(1))
      stage.guards.push_back(value < int_imm(axis.extent));
  }
}

}  // namespace tw::schedule
