// Each primitive on loops as a change of State.
// Size: one function for each primitive, and what they check of one another, read best side by side.
#include <fmt/ranges.h>

#include <algorithm>

#include "loop/text.h"
#include "schedule/stage.h"
#include "support/error.h"
#include "support/join.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::schedule {
namespace {

void replace_var(Stage& stage, const std::string& name, const Expr& value) {
  const VarMap map = {{name, value}};
  for (auto& [axis, e] : stage.values) e = substitute(e, map);
  for (Expr& guard : stage.guards) guard = substitute(guard, map);
}

// Prefetches count the iterations of the loops as they were: those stay.
void check_no_prefetch(const State& state, const Stage& stage, const Loop& l) {
  for (const Stage& reader : state.stages) {
    for (const Prefetch& p : reader.prefetches) {
      const bool counts = std::ranges::any_of(p.indices, [&](const Expr& index) { return uses_var(index, l.var); });
      if (counts || (reader.name() == stage.name() && p.loop == l.name))
        throw UserError(fmt::format("stage {} prefetches {} by loop {} already", reader.name(), p.tensor, l.name));
    }
  }
}

// Loops at or outside the place where a producer is attached may not change any more: they decided its region.
Stage& structural(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  for (const std::string& name : p.loops) {
    if (p.kind != PrimitiveKind::kReorder && stage.loop(name).kind != loop::ForKind::kSerial) {
      throw UserError(fmt::format("loop {} of {} is vectorised or unrolled already", name, p.stage));
    }
  }
  for (const Stage& producer : state.stages) {
    if (producer.consumer != stage.name()) continue;
    for (const std::string& name : p.loops) {
      if (stage.loop_index(name) <= stage.loop_index(producer.at_loop)) {
        throw UserError(fmt::format("stage {} is attached at loop {} already", producer.name(), producer.at_loop));
      }
    }
  }
  for (const std::string& name : p.loops) check_no_prefetch(state, stage, stage.loop(name));
  stage.has_loop_primitives = true;
  return stage;
}

void apply_split(State& state, const Primitive& p) {
  Stage& stage = structural(state, p);
  const size_t at = stage.loop_index(p.loops.at(0));
  const Loop old = stage.loops[at];
  const int64_t inner = num_elements(p.factors);
  std::vector<Loop> parts;
  Expr value = int_imm(0);
  for (size_t i = 0; i <= p.factors.size(); ++i) {
    Loop part = old;
    part.name = fmt::format("{}.{}", old.name, i);
    part.var = fmt::format("{}.{}", stage.name(), part.name);
    part.extent = i == 0 ? ceil_div(old.extent, inner) : p.factors[i - 1];
    value = value * int_imm(i == 0 ? 1 : part.extent) + var(part.var);
    parts.push_back(part);
  }
  replace_var(stage, old.var, value);
  if (old.extent % inner != 0) stage.guards.push_back(value < int_imm(old.extent));
  stage.loops = spliced(std::move(stage.loops), at, 1, parts);
}

void apply_fuse(State& state, const Primitive& p) {
  Stage& stage = structural(state, p);
  const size_t at = stage.loop_index(p.loops.at(0));
  Loop fused = stage.loops[at];
  fused.name = fmt::format("{}", fmt::join(p.loops, "$"));
  fused.var = fmt::format("{}.{}", stage.name(), fused.name);
  fused.extent = 1;
  for (size_t i = 0; i < p.loops.size(); ++i) {
    if (stage.loop_index(p.loops[i]) != at + i)
      throw UserError(fmt::format("fuse: loop {} is not next in order", p.loops[i]));
    if (stage.loops[at + i].reduction != fused.reduction) throw UserError("fuse: reduction and spatial loops");
    fused.extent *= stage.loops[at + i].extent;
  }
  Expr rest = var(fused.var);
  for (size_t i = p.loops.size(); i-- > 0;) {
    const Loop& part = stage.loops[at + i];
    replace_var(stage, part.var, i == 0 ? rest : floor_mod(rest, int_imm(part.extent)));
    rest = floor_div(rest, int_imm(part.extent));
  }
  stage.loops = spliced(std::move(stage.loops), at, std::ssize(p.loops), {fused});
}

void apply_reorder(State& state, const Primitive& p) {
  Stage& stage = structural(state, p);
  std::vector<size_t> places;
  std::vector<Loop> moved;
  for (const std::string& name : p.loops) {
    places.push_back(stage.loop_index(name));
    moved.push_back(stage.loop(name));
  }
  std::ranges::sort(places);
  if (std::adjacent_find(places.begin(), places.end()) != places.end()) throw UserError("reorder names a loop twice");
  for (size_t i = 0; i < places.size(); ++i) stage.loops[places[i]] = moved[i];
}

void apply_parallel(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  if (!stage.is_root()) throw UserError(fmt::format("parallel: stage {} is not a root", p.stage));
  for (size_t i = 0; i < p.loops.size(); ++i) {
    Loop& l = stage.loop(p.loops[i]);
    if (stage.loop_index(p.loops[i]) != i || l.reduction) {
      throw UserError(fmt::format("parallel: loop {} is not spatial loop {} of {}", p.loops[i], i, p.stage));
    }
    l.parallel = true;
  }
  if (!p.option.empty() && p.option != kLastFirst)
    throw UserError(fmt::format("parallel: the option is \"{}\" or none", kLastFirst));
  stage.last_first = !p.option.empty();
  if (!p.factors.empty()) stage.cluster = p.factors[0];
  if (stage.last_first && stage.cluster > 1) throw UserError("parallel: tiles of clusters have their order");
  if (p.factors.size() < 2) return;
  if (p.factors.size() == 2 || p.factors[1] % stage.cluster != 0)
    throw UserError(
        "parallel: blocks walk over some tiles on each of some units, of which clusters take whole numbers");
  stage.units = p.factors[1];
  stage.together = p.factors[2];
}

// All lanes share one statement: no second vector, no buffer of a producer inside, no tuple that lanes build in turn.
void check_vector(const State& state, const Stage& stage, const Loop& l) {
  for (const Loop& other : stage.loops) {
    if (other.kind == loop::ForKind::kVectorized)
      throw UserError(fmt::format("loop {} of {} is vectorised already", other.name, stage.name()));
  }
  for (const Stage& producer : state.stages) {
    if (producer.consumer == stage.name() && stage.loop_index(producer.at_loop) >= stage.loop_index(l.name)) {
      throw UserError(fmt::format("stage {} is attached inside loop {}", producer.name(), l.name));
    }
  }
  if (l.reduction && stage.compute.combiner.kind == te::CombinerKind::kTuple) {
    throw UserError(fmt::format("loop {} reduces tuples", l.name));
  }
}

template <loop::ForKind kKind>
void mark(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  Loop& l = stage.loop(p.loops.at(0));
  if (l.kind != loop::ForKind::kSerial) throw UserError(fmt::format("loop {} of {} is marked twice", l.name, p.stage));
  if (kKind == loop::ForKind::kVectorized) check_vector(state, stage, l);
  l.kind = kKind;
}

void check_inline(State& state, const Primitive& p) {
  const Stage& stage = state.stage(p.stage);
  if (stage.compute.is_reduction() || state.program.is_output(stage.name()))
    throw UserError(fmt::format("inline: stage {} is a reduction or an output", p.stage));
}

loop::Scope parse_scope(const std::string& text) {
  const std::optional<loop::Scope> scope = loop::find_scope(text);
  if (!scope || *scope == loop::Scope::kParam) throw UserError(fmt::format("compute_at: unknown scope '{}'", text));
  return *scope;
}

// Elements e of one dim of a stage that are read: e - distance < limit.
struct ReadLimit {
  Expr distance;
  int64_t limit = 0;
};

// The limits that all reads of dim `d` of `stage` keep because of a guard of `consumer`. Empty when a stage other than
// the consumer reads it.
std::vector<ReadLimit> read_limits(const State& state, const Stage& stage, const Stage& consumer, size_t at, size_t d) {
  const std::vector<const Stage*> readers = state.readers(stage);
  if (readers.size() != 1 || readers[0] != &consumer) return {};
  const Analyzer ranges = loop_ranges(state);
  const std::set<std::string> inner = inner_vars(state, consumer, at);
  const VarMap values(consumer.values.begin(), consumer.values.end());
  std::vector<ReadLimit> limits;
  for (const Expr& guard : consumer.guards) {
    Expr common;
    bool same = true;
    for (const Expr& read : te::reads_of(consumer.compute, stage.compute.outputs)) {
      if (state.program.tensor(read->name).shape.size() <= d) continue;
      const auto distance = guarded_distance(substitute(read.arg(d), values), guard, inner, ranges);
      same = same && distance && (!common || equal(common, *distance));
      if (distance) common = *distance;
    }
    if (same && common) limits.push_back({common, guard.arg(1)->value});
  }
  return limits;
}

// The conditions under which an attached stage computes a point: it lies in the tensor, and it is read (`limits` for
// each dim).
void add_guards(const State& state, Stage& stage, const std::vector<std::vector<ReadLimit>>& limits) {
  const Analyzer ranges = loop_ranges(state);
  std::vector<Expr> known;  // simplified
  for (size_t d = 0; d < stage.compute.axes.size(); ++d) {
    const te::Axis& axis = stage.compute.axes[d];
    const Expr value = stage.values[axis.name];
    // Limits below the extent say more than the extent does.
    const auto inside = [&](const ReadLimit& l) {
      const Interval distance = ranges.bounds(l.distance);
      return distance.hi < Interval::kMax && distance.hi + l.limit <= axis.extent;
    };
    std::vector<Expr> conditions = {value >= int_imm(0)};
    if (std::ranges::none_of(limits[d], inside)) conditions.push_back(value < int_imm(axis.extent));
    for (const ReadLimit& l : limits[d]) conditions.push_back(value - l.distance < int_imm(l.limit));
    for (const Expr& condition : conditions) {
      const Expr simple = ranges.simplify(condition);
      const auto same = [&](const Expr& other) { return equal(simple, other); };
      if (simple.is_int(1) || std::ranges::any_of(known, same)) continue;
      known.push_back(simple);
      stage.guards.push_back(condition);
    }
  }
}

void apply_compute_at(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  Stage& consumer = state.stage(p.loops.at(0));
  const size_t at = consumer.loop_index(p.loops.at(1));
  if (stage.has_loop_primitives || !stage.is_root())
    throw UserError(fmt::format("compute_at: {} comes before its loop primitives", p.stage));
  for (size_t outer = 0; outer <= at; ++outer) {
    if (consumer.loops[outer].kind == loop::ForKind::kVectorized) {
      throw UserError(
          fmt::format("compute_at: loop {} of {} is vectorised", consumer.loops[outer].name, consumer.name()));
    }
  }
  for (const Stage& producer : state.stages) {
    // Its region stands in terms of loops that would change.
    if (producer.consumer == p.stage)
      throw UserError(fmt::format("compute_at: {} is attached to {} already", producer.name(), p.stage));
  }
  for (const te::Tensor& t : stage.compute.outputs) {
    if (state.program.is_output(t.name)) throw UserError(fmt::format("compute_at: {} leaves the group", t.name));
  }
  const Region region = read_region(state, stage, consumer, at);
  std::vector<std::vector<ReadLimit>> limits;
  for (size_t d = 0; d < stage.compute.axes.size(); ++d) limits.push_back(read_limits(state, stage, consumer, at, d));
  stage.consumer = consumer.name();
  stage.at_loop = p.loops[1];
  stage.scope = parse_scope(p.option);
  stage.region = region;
  stage.region.pad = p.factors.empty() ? 0 : p.factors[0];
  for (size_t d = 0; d < stage.compute.axes.size(); ++d) {
    Loop& l = stage.loops[d];
    l.extent = region.extent[d];
    stage.values[stage.compute.axes[d].name] = region.base[d] + var(l.var);
  }
  add_guards(state, stage, limits);
}

// The loops from `first` on become part of one instruction.
void mark_inner(Stage& stage, const std::string& first, loop::ForKind kind) {
  for (size_t i = stage.loop_index(first); i < stage.loops.size(); ++i) {
    Loop& l = stage.loops[i];
    if (l.kind != loop::ForKind::kSerial)
      throw UserError(fmt::format("loop {} of {} is marked twice", l.name, stage.name()));
    l.kind = kind;
  }
}

void apply_tensorize(State& state, const Primitive& p) {
  Stage& stage = state.stage(p.stage);
  stage.loop_index(p.loops.at(0));
  if (p.option == "bulk") {
    if (stage.is_root() || stage.scope != loop::Scope::kStack || stage.compute.is_reduction())
      throw UserError(fmt::format("tensorize bulk: stage {} copies nothing into a stack buffer", p.stage));
    return mark_inner(stage, p.loops[0], loop::ForKind::kBulk);
  }
  if (p.option != "fma_tile" && p.option != "mma")
    throw UserError(fmt::format("tensorize: unknown body '{}'", p.option));
  const te::Compute& c = stage.compute;
  const bool sum_of_products = c.is_reduction() && c.combiner.kind == te::CombinerKind::kSum &&
                               te::summed_term(c.body[0]).op() == Op::kMul && c.body[0].type().is_float();
  if (!sum_of_products)
    throw UserError(fmt::format("tensorize {}: stage {} is no sum of float products", p.option, p.stage));
  if (p.option == "fma_tile") {
    stage.tensorized = p.option;
    return;
  }
  mark_inner(stage, p.loops[0], loop::ForKind::kMatrix);
}

void apply_pipeline(State& state, const Primitive& p) {
  mark<loop::ForKind::kPipelined>(state, p);
  state.stage(p.stage).loop(p.loops[0]).stages = p.factors[0];
}

void apply_implement(State& state, const Primitive& p) {
  if (!state.stage(p.stage).is_root() || !p.implementation)
    throw UserError(fmt::format("implement: stage {} is no kernel, or nothing implements it", p.stage));
  state.stage(p.stage).implementation = p.implementation;
}

// What a primitive takes, and what it does.
struct Row {
  struct Count {
    size_t min, max;
    bool holds(size_t n) const { return min <= n && n <= max; }
  };
  Count loops, factors;
  bool takes_option;
  void (*apply)(State& state, const Primitive& p);  // null: see apply_primitives
};

constexpr size_t kAny = SIZE_MAX;
constexpr Row kRows[] = {
    // Of PrimitiveKind, in its order.
    {{1, 1}, {1, kAny}, false, apply_split},
    {{1, kAny}, {0, 0}, false, apply_reorder},
    {{1, kAny}, {0, 0}, false, apply_fuse},
    {{1, 1}, {0, 0}, false, mark<loop::ForKind::kVectorized>},
    {{1, 1}, {0, 0}, false, mark<loop::ForKind::kUnrolled>},
    {{1, 1}, {0, 0}, false, mark<loop::ForKind::kThreads>},
    {{1, kAny}, {0, 3}, true, apply_parallel},
    {{0, 0}, {0, 0}, false, nullptr},
    {{2, 2}, {0, 1}, true, apply_compute_at},
    {{0, kAny}, {0, 1}, false, apply_cache_read},
    {{0, 0}, {0, 0}, false, apply_cache_write},
    {{1, 1}, {1, 1}, true, apply_rfactor},
    {{1, 1}, {1, 1}, false, apply_pipeline},
    {{1, 1}, {0, kAny}, true, apply_tensorize},
    {{1, 3}, {3, 3}, true, apply_prefetch},
    {{0, 0}, {0, 0}, true, apply_layout},
    {{3, 4}, {3, 5}, true, apply_matrices},
    {{2, 2}, {0, 0}, true, apply_write_at},
    {{0, 0}, {0, 0}, false, apply_implement},
    {{1, 1}, {0, 0}, false, apply_branch},
    {{0, 0}, {3, 3}, false, apply_online},
    {{0, 0}, {0, 0}, false, apply_carry},
    {{0, 0}, {0, 0}, false, apply_whole},
    {{0, 0}, {0, 0}, false, apply_skip_zeros},
};

const Row& row_of(const Primitive& p) { return kRows[static_cast<size_t>(p.kind)]; }

// Schedules come from plan files too: what they lack is reported here.
void check_form(const Primitive& p) {
  constexpr int64_t kMaxPoints = int64_t{1} << 40;  // of all factors together: products stay far from overflow
  const Row& row = row_of(p);
  if (!row.loops.holds(p.loops.size())) throw UserError(fmt::format("{} names after the stage", p.loops.size()));
  if (!row.factors.holds(p.factors.size())) throw UserError(fmt::format("{} factors", p.factors.size()));
  if (!p.option.empty() && !row.takes_option) throw UserError("it takes no option");
  int64_t points = 1;
  for (const int64_t f : p.factors) {
    if (f < 1 || f > kMaxPoints / points) throw UserError("factors are at least 1 and not that large");
    points *= f;
  }
}

// Calls `apply`; its errors name the primitive.
template <typename Apply>
void say_where(const Primitive& primitive, const Apply& apply) {
  try {
    apply();
  } catch (const UserError& error) {
    Schedule one;
    one.add(primitive);
    std::string text = to_string(one);
    text.pop_back();
    throw UserError(fmt::format("schedule primitive '{}': {}", text, error.what()));
  }
}

}  // namespace

void apply_primitives(State& state, std::span<const Primitive> primitives) {
  // Inlines take effect together: each alone is a pass over the whole program.
  std::set<std::string> inlined;
  for (size_t i = 0; i < primitives.size(); ++i) {
    const Primitive& p = primitives[i];
    say_where(p, [&] {
      check_form(p);
      if (p.kind != PrimitiveKind::kInline) return row_of(p).apply(state, p);
      check_inline(state, p);
      if (!inlined.insert(p.stage).second) throw UserError(fmt::format("stage {} is inlined already", p.stage));
      const bool more = i + 1 < primitives.size() && primitives[i + 1].kind == PrimitiveKind::kInline;
      if (more) return;
      refresh(state, te::inline_computes(current_program(state), inlined), {});
      inlined.clear();
    });
  }
}

loop::Program apply(const te::Program& program, const Schedule& schedule) {
  State state = make_state(program);
  apply_primitives(state, schedule.primitives());
  drop_unread_zeros(state);
  return emit(state);
}

}  // namespace tw::schedule
