// The primitives that rewrite the maths of stages, before their loops are cut: copies, layouts, partial sums.
#include <algorithm>

#include "schedule/stage.h"
#include "support/join.h"
#include "support/math.h"
#include "te/online.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "te/row_mask.h"

namespace tw::schedule {
namespace {

// A region holds what its readers read when the stage was attached: their bodies may not change after that.
void check_attached(const State& state, const te::Program& program) {
  for (const Stage& producer : state.stages) {
    if (producer.is_root()) continue;
    for (const te::Compute& compute : program.computes) {
      if (te::reads_of(compute, producer.compute.outputs).empty()) continue;
      const auto same = [](const Expr& a, const Expr& b) { return equal(a, b); };
      const auto old = std::ranges::find_if(state.stages, [&](const Stage& s) { return s.name() == compute.name(); });
      if (old == state.stages.end() ||
          !std::equal(compute.body.begin(), compute.body.end(), old->compute.body.begin(), same)) {
        throw UserError(fmt::format("stage {} is attached at {} {} already; compute_at comes after this",
                                    producer.name(), producer.consumer, producer.at_loop));
      }
    }
  }
}

bool have_same_axes(const te::Compute& a, const te::Compute& b) {
  const auto same = [](const te::Axis& x, const te::Axis& y) { return x.name == y.name && x.extent == y.extent; };
  return std::ranges::equal(a.axes, b.axes, same) && std::ranges::equal(a.reduce_axes, b.reduce_axes, same);
}

// Of several outputs only those of a reduction that combines each by itself.
std::vector<te::Compute>::iterator with_own_outputs(te::Program& program, const std::string& stage,
                                                    std::string_view primitive) {
  const auto at = std::ranges::find(program.computes, stage, [](const te::Compute& c) { return c.name(); });
  const bool found = at != program.computes.end();
  if (!found || (at->outputs.size() != 1 && (!at->is_reduction() || at->combiner.kind == te::CombinerKind::kTuple)))
    throw UserError(fmt::format("{}: no stage {} with one output", primitive, stage));
  return at;
}

te::Compute copy_of(const std::vector<te::Tensor>& sources, const std::vector<te::Tensor>& targets) {
  te::Compute copy;
  copy.axes = te::make_axes('i', sources[0].shape);
  copy.outputs = targets;
  for (const te::Tensor& source : sources) copy.body.push_back(source(te::variables(copy.axes)));
  return copy;
}

// The read that a cache_read is about, or null: all of them.
Expr chosen_read(const te::Program& program, const Primitive& p) {
  if (p.factors.empty()) return Expr();
  const te::Compute* reader = p.loops.size() == 1 ? program.find_compute(p.loops[0]) : nullptr;
  if (reader == nullptr) throw UserError("cache_read: one read is that of one stage");
  const std::vector<Expr> reads = te::distinct_reads(*reader, p.stage);
  const auto n = static_cast<size_t>(p.factors[0]);
  if (n > reads.size())
    throw UserError(fmt::format("cache_read: {} reads {} {} times", reader->name(), p.stage, reads.size()));
  return reads[n - 1];
}

// Reads of `from`, or only those equal to `one`, become reads of `to`.
void rename_reads(te::Compute& compute, const std::string& from, const std::string& to, const Expr& one) {
  for (Expr& body : compute.body) {
    body = rewrite(body, [&](const Expr& e) -> Expr {
      if (e.op() != Op::kLoad || e->name != from || (one && !equal(e, one))) return Expr();
      return te::read_from(e, to);
    });
  }
}

te::Tensor readable(const te::Program& program, const std::string& name) {
  const auto known = [&](const te::Tensor& t) { return t.name == name; };
  if (std::ranges::none_of(program.inputs, known) && program.find_compute(name) == nullptr) {
    throw UserError(fmt::format("cache_read: no tensor {}", name));
  }
  return program.tensor(name);
}

// The name of a copy of `tensor` beside those that there are.
std::string fresh_cache(const State& state, const std::string& tensor) {
  const auto exists = [&](int64_t number) {
    return std::ranges::any_of(state.stages, [&](const Stage& s) { return s.name() == cache_name(tensor, number); });
  };
  int64_t number = 1;
  while (exists(number)) ++number;
  return cache_name(tensor, number);
}

}  // namespace

void refresh(State& state, const te::Program& program, const std::vector<std::string>& changed) {
  check_attached(state, program);
  std::vector<Stage> stages;
  for (const te::Compute& compute : program.computes) {
    const bool is_changed = std::ranges::find(changed, compute.name()) != changed.end();
    const auto old = std::ranges::find_if(state.stages, [&](const Stage& s) { return s.name() == compute.name(); });
    // Where only what it reads has another form, a stage that combines nothing stays as it is.
    const bool keeps_loops =
        old != state.stages.end() && !compute.is_reduction() && have_same_axes(old->compute, compute);
    if (old == state.stages.end() || (is_changed && !keeps_loops)) {
      if (old != state.stages.end() && (old->has_loop_primitives || !old->is_root())) {
        throw UserError(fmt::format("stage {} has loop primitives before one that changes its body", compute.name()));
      }
      Stage fresh = make_stage(compute);
      stages.push_back(std::move(fresh));
      continue;
    }
    Stage kept = *old;
    kept.compute = compute;
    stages.push_back(std::move(kept));
  }
  state.program = program;
  state.stages = std::move(stages);
}

te::Program current_program(const State& state) {
  te::Program program = state.program;
  program.computes.clear();
  for (const Stage& stage : state.stages) program.computes.push_back(stage.compute);
  return program;
}

void check_fresh(const State& state, const std::string& name) {
  for (const Stage& s : state.stages) {
    if (s.name() == name) throw UserError(fmt::format("a stage {} exists already", name));
  }
}

void apply_cache_write(State& state, const Primitive& p) {
  te::Program program = current_program(state);
  const auto at = with_own_outputs(program, p.stage, "cache_write");
  const std::vector<te::Tensor> originals = at->outputs;
  for (te::Tensor& output : at->outputs) output.name += ".acc";
  const std::vector<te::Tensor> accumulators = at->outputs;
  check_fresh(state, accumulators[0].name);
  std::vector<std::string> changed = {p.stage};
  for (te::Compute& reader : program.computes) {
    for (const te::Tensor& original : originals) {
      if (!program.is_output(original.name) || te::count_reads(reader, original.name) == 0) continue;
      rename_reads(reader, original.name, original.name + ".acc", Expr());
      changed.push_back(reader.name());
    }
  }
  program.computes.insert(at + 1, copy_of(accumulators, originals));
  refresh(state, program, changed);
}

void apply_cache_read(State& state, const Primitive& p) {
  te::Program program = current_program(state);
  const te::Tensor source = readable(program, p.stage);
  const te::Tensor cache{fresh_cache(state, p.stage), source.type, source.shape};
  const Expr one = chosen_read(program, p);
  std::vector<std::string> changed;
  auto first = program.computes.end();
  for (auto c = program.computes.begin(); c != program.computes.end(); ++c) {
    const bool wanted = p.loops.empty() || std::ranges::find(p.loops, c->name()) != p.loops.end();
    if (!wanted || te::count_reads(*c, source.name) == 0) continue;
    rename_reads(*c, source.name, cache.name, one);
    changed.push_back(c->name());
    if (first == program.computes.end()) first = c;
  }
  if (changed.empty()) throw UserError(fmt::format("cache_read: nothing reads {}", p.stage));
  // An input is there from the start: a copy for all readers is under way while other stages compute.
  const bool is_input = program.find_compute(source.name) == nullptr;
  if (is_input && p.loops.empty()) first = program.computes.begin();
  program.computes.insert(first, copy_of({source}, {cache}));
  refresh(state, program, changed);
}

void apply_rfactor(State& state, const Primitive& p) {
  te::Program program = current_program(state);
  const auto at = with_own_outputs(program, p.stage, "rfactor");
  te::Compute& original = *at;
  const auto axis =
      std::ranges::find_if(original.reduce_axes, [&](const te::Axis& r) { return r.name == p.loops.at(0); });
  if (axis == original.reduce_axes.end())
    throw UserError(fmt::format("rfactor: {} has no reduction axis {}", p.stage, p.loops.at(0)));
  const int64_t factor = p.factors.at(0);
  const std::string lane = fmt::format("i{}", original.axes.size());

  te::Compute partial = original;
  for (te::Tensor& rf : partial.outputs) {
    rf.name += ".rf";
    rf.shape.push_back(factor);
  }
  check_fresh(state, partial.name());
  partial.axes.push_back({lane, factor});
  te::Axis& outer = partial.reduce_axes[axis - original.reduce_axes.begin()];
  const int64_t extent = outer.extent;
  outer.extent = ceil_div(extent, factor);
  if (!p.option.empty() && p.option != "blocks") throw UserError(fmt::format("rfactor: unknown option '{}'", p.option));
  const Expr point =
      p.option.empty() ? outer.var() * int_imm(factor) + var(lane) : var(lane) * int_imm(outer.extent) + outer.var();
  for (size_t k = 0; k < partial.body.size(); ++k) {
    partial.body[k] = substitute(partial.body[k], {{outer.name, point}});
    if (extent % factor != 0)
      partial.body[k] = select(point < int_imm(extent), partial.body[k], original.combiner.identity.at(k));
  }

  te::Compute total = original;
  total.reduce_axes = {{"r0", factor}};
  std::vector<Expr> indices = te::variables(total.axes);
  indices.push_back(var("r0"));
  total.body = mapped(partial.outputs, [&](const te::Tensor& rf) { return rf(indices); });
  *at = total;
  program.computes.insert(at, partial);
  refresh(state, program, {p.stage});
}

void apply_layout(State& state, const Primitive& p) {
  const te::Program program = current_program(state);
  const te::Compute* producer = program.find_compute(p.stage);
  const auto leaves = [&](const te::Tensor& t) { return program.is_output(t.name); };
  if (producer == nullptr || producer->name() != p.stage || std::ranges::any_of(producer->outputs, leaves))
    throw UserError(fmt::format("layout: {} is no tensor between two stages", p.stage));
  std::vector<std::string> changed = {producer->name()};
  std::map<std::string, Layout> layouts;  // one for all members of a tuple
  for (const te::Tensor& t : producer->outputs) layouts[t.name] = parse_layout(p.option);
  for (const te::Compute& c : program.computes) {
    if (!te::reads_of(c, producer->outputs).empty()) changed.push_back(c.name());
  }
  te::Program stored;
  try {
    stored = te::apply_layouts(program, layouts, {}, te::Indices::kComposed);
  } catch (const InternalError& error) {
    throw UserError("the layout does not fit: {}", error.what());
  }
  refresh(state, stored, changed);
}

void apply_online(State& state, const Primitive& p) {
  const Result<te::Online> online =
      te::online(current_program(state), p.stage, {p.factors[0], p.factors[1], p.factors[2]});
  if (!online.ok()) throw UserError(online.reason());
  refresh(state, online->program, online->changed);
}

void apply_whole(State& state, const Primitive& p) {
  te::Compute& c = state.stage(p.stage).compute;
  if (c.is_reduction()) throw UserError(fmt::format("whole: stage {} combines elements", p.stage));
  for (Expr& body : c.body) body = te::unrounded(body, te::Digits::kAsRounded);
}

void apply_skip_zeros(State& state, const Primitive& p) {
  te::Compute& c = state.stage(p.stage).compute;
  const bool sums = c.is_reduction() && c.combiner.kind == te::CombinerKind::kSum && c.outputs.size() == 1;
  c.needed = sums ? te::nonzero_where(current_program(state), c.body[0]) : Expr();
  if (!c.needed) throw UserError(fmt::format("skip_zeros: nothing says where terms of stage {} are 0", p.stage));
}

}  // namespace tw::schedule
