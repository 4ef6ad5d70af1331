// Stages with their loops, as loop IR: one kernel for each root stage.
#include <algorithm>

#include "schedule/stage.h"
#include "support/error.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

using loop::Stmt;
using Stmts = std::vector<Stmt>;
using Members = std::vector<size_t>;  // outputs of a stage that have the same axes

// Those with the most axes first: what others become later does not depend on them.
std::vector<Members> members_of(const Stage& stage) {
  std::map<size_t, Members, std::greater<>> by_rank;
  for (size_t k = 0; k < stage.compute.outputs.size(); ++k) by_rank[stage.compute.outputs[k].shape.size()].push_back(k);
  std::vector<Members> all;
  for (auto& [rank, members] : by_rank) all.push_back(std::move(members));
  return all;
}

class Emitter {
 public:
  explicit Emitter(const State& state) : state_(state), ranges_(loop_ranges(state)) {}

  loop::Kernel kernel(const Stage& root) const {
    loop::Kernel kernel;
    kernel.name = root.name();
    size_t parallel = 0;
    while (parallel < root.loops.size() && root.loops[parallel].parallel) ++parallel;
    Stmts body = nest(root, parallel);
    for (size_t i = parallel; i-- > 0;) body = attach_producers(root, i, std::move(body));
    for (size_t i = 0; i < parallel; ++i) kernel.tiles *= root.loops[i].extent;
    if (kernel.tiles % root.cluster != 0)
      throw UserError(fmt::format("parallel {}: {} tiles in clusters of {}", root.name(), kernel.tiles, root.cluster));
    kernel.cluster = root.cluster;
    kernel.units = root.units;
    kernel.together = root.together;
    kernel.implementation = root.implementation;
    if (parallel == 1 && !root.last_first) {
      kernel.tile_var = root.loops[0].var;
    } else if (parallel > 0) {
      kernel.tile_var = root.name() + ".tile";
      const Expr tile = var(kernel.tile_var);
      const Expr point = root.last_first ? int_imm(kernel.tiles - 1) - tile : tile;
      for (size_t i = parallel; i-- > 0;) body = bind_tile(root, {parallel, i}, point, std::move(body));
    }
    kernel.body = std::move(body);
    collect_params(root, kernel);
    return kernel;
  }

 private:
  // let the variable of loop d of `parallel` = (point / (product of later extents)) mod extent.
  struct ParallelLoop {
    size_t parallel, d;
  };
  static Stmts bind_tile(const Stage& root, ParallelLoop of, const Expr& point, Stmts body) {
    int64_t later = 1;
    for (size_t j = of.d + 1; j < of.parallel; ++j) later *= root.loops[j].extent;
    Expr value = floor_div(point, int_imm(later));
    if (of.d > 0) value = floor_mod(value, int_imm(root.loops[of.d].extent));
    return {loop::make_let(root.loops[of.d].var, value, std::move(body))};
  }

  // Statements of `stage` from loop `depth` inwards.
  Stmts nest(const Stage& stage, size_t depth) const {
    if (!stage.branch.empty() && depth == branch_depth(stage)) {
      const Ways ways = ways_of(state_, stage);
      return {loop::make_if(value(stage, ways.condition), nest(ways.taken, depth), nest(ways.other, depth))};
    }
    if (stage.compute.is_reduction() && begins_reduction(stage, depth)) {
      Stmts both = init_nest(stage, depth);
      for (Stmt& s : update_nest(stage, depth)) both.push_back(std::move(s));
      return both;
    }
    if (depth == stage.loops.size()) return leaf(stage, final_values(stage));
    return wrap(stage, depth, nest(stage, depth + 1));
  }

  // Inside the loop where the stage branches, and of the loops that are its tiles.
  static size_t branch_depth(const Stage& stage) {
    size_t depth = stage.loop_index(stage.branch) + 1;
    while (depth < stage.loops.size() && stage.loops[depth].parallel) ++depth;
    return depth;
  }

  // Threads that combine begin a nest of their own: nothing stands between their loops.
  static bool begins_reduction(const Stage& stage, size_t depth) {
    if (depth == stage.loops.size() || stage.loops[depth].reduction) return true;
    const auto is_thread = [](const Loop& l) { return l.kind == loop::ForKind::kThreads; };
    return is_thread(stage.loops[depth]) &&
           std::ranges::any_of(stage.loops, [&](const Loop& l) { return l.reduction && is_thread(l); });
  }

  Stmts init_nest(const Stage& stage, size_t depth) const {
    Stmts all;
    for (const Members& members : members_of(stage)) {
      const std::vector<Expr> start =
          stage.start ? std::vector{value(stage, stage.start)} : stage.compute.combiner.identity;
      Stmts body = guarded(stage, stores(stage, members, start), true);
      for (Stmt& s : own_nest(stage, depth, members, ".init", std::move(body))) all.push_back(std::move(s));
    }
    return all;
  }

  // The loops from `depth` inwards that `members` have around `body`. Loop variables are unique: theirs end in `suffix`
  // and, where there are several nests, in their rank.
  Stmts own_nest(const Stage& stage, size_t depth, const Members& members, std::string suffix, Stmts body) const {
    const size_t rank = stage.compute.outputs[members[0]].shape.size();
    if (rank < stage.compute.axes.size()) suffix += fmt::format(".of{}", rank);
    const bool begins = suffix.starts_with(".init");
    for (size_t i = stage.loops.size(); i-- > depth;) {
      const Loop& l = stage.loops[i];
      const bool of_threads = stage.scope == loop::Scope::kRegister && l.kind == loop::ForKind::kThreads;
      if (l.reduction && begins && !of_threads) continue;  // each thread that combines in registers has the result
      if (!l.reduction && !has_loop(stage, rank, l)) {
        body = loop::substitute(body, {{l.var, int_imm(0)}});
        continue;
      }
      if (!suffix.empty()) body = loop::substitute(body, {{l.var, var(l.var + suffix)}});
      // Sums begin one by one, also those of a matrix step.
      const loop::ForKind kind = begins && l.kind == loop::ForKind::kMatrix ? loop::ForKind::kUnrolled : l.kind;
      body = {loop::make_for(l.var + suffix, l.extent, kind, std::move(body))};
    }
    return body;
  }

  // Whether the first `rank` axes of a stage run over loop `l`.
  static bool has_loop(const Stage& stage, size_t rank, const Loop& l) {
    for (size_t d = 0; d < rank; ++d) {
      if (uses_var(stage.values.at(stage.compute.axes[d].name), l.var)) return true;
    }
    return rank == stage.compute.axes.size();
  }

  // Inside the last loop of a reduction whose members differ in axes, or the last that holds a producer.
  size_t members_depth(const Stage& stage) const {
    size_t depth = 0;
    for (size_t i = 0; i < stage.loops.size(); ++i) {
      const auto is_inside = [&](const Stage& producer) {
        return producer.consumer == stage.name() && producer.at_loop == stage.loops[i].name;
      };
      if (stage.loops[i].reduction || std::ranges::any_of(state_.stages, is_inside)) depth = i + 1;
    }
    return depth;
  }

  Stmts update_nest(const Stage& stage, size_t depth) const {
    const std::vector<Members> all = members_of(stage);
    Stmts body;
    if (all.size() > 1 && depth == members_depth(stage)) {
      for (const Members& members : all) {
        for (Stmt& s : own_nest(stage, depth, members, "", update_leaf(stage, members))) body.push_back(std::move(s));
      }
    } else {
      body =
          depth == stage.loops.size() ? update_leaf(stage, all[0]) : wrap(stage, depth, update_nest(stage, depth + 1));
    }
    for (const Expr& condition : tests_at(stage, depth)) body = {loop::make_if(condition, std::move(body))};
    return body;
  }

  // What is tested around loop `depth` of the update: the condition of a sum's terms, and whether they are all zero.
  std::vector<Expr> tests_at(const Stage& stage, size_t depth) const {
    std::vector<Expr> tests;
    const auto add = [&](const Expr& condition) {
      VarMap first;
      for (const Loop& l : stage.loops) {
        if (l.extent == 1) first.insert_or_assign(l.var, int_imm(0));
      }
      const Expr test = ranges_.simplify(substitute(value(stage, condition), first));
      if (!test.is_int(1)) tests.push_back(test);
    };
    if (depth == condition_depth(stage)) add(stage.compute.body[0].arg(0));
    if (stage.tensorized.empty()) return tests;
    const auto find = [&](const std::string& tensor) {
      const Stage* producer = state_.producer(tensor);
      return producer == nullptr ? nullptr : &producer->compute;
    };
    for (const Expr& condition : te::nonzero_conditions(stage.compute, find)) {
      if (depth == nonzero_depth(stage, condition)) add(condition);
    }
    return tests;
  }

  // The outermost loop of the update inside all loops of several turns that decide `condition`; nothing when it differs
  // between copies or lanes of one iteration.
  static std::optional<size_t> depth_inside(const Stage& stage, const Expr& condition) {
    const Expr bound = substitute(condition, VarMap(stage.values.begin(), stage.values.end()));
    size_t depth = 0;
    while (!stage.loops[depth].reduction) ++depth;
    for (size_t i = 0; i < stage.loops.size(); ++i) {
      if (stage.loops[i].extent == 1 || !uses_var(bound, stage.loops[i].var)) continue;
      if (stage.loops[i].kind != loop::ForKind::kSerial) return std::nullopt;
      depth = std::max(depth, i + 1);
    }
    return depth;
  }

  // Where it is tested whether terms are zero; nothing when there are too few steps inside for a test to pay.
  static std::optional<size_t> nonzero_depth(const Stage& stage, const Expr& condition) {
    const std::optional<size_t> depth = depth_inside(stage, condition);
    int64_t steps = 1;
    for (size_t i = depth.value_or(0); i < stage.loops.size(); ++i)
      steps *= stage.loops[i].reduction ? stage.loops[i].extent : 1;
    return steps < te::kMinTestedSteps ? std::nullopt : depth;
  }

  // The loop around which the condition of a sum's terms is tested. Nothing when there is none, or it reads a tensor,
  // which only the guards around the term allow; then it stays in the term.
  static std::optional<size_t> condition_depth(const Stage& stage) {
    const te::Compute& c = stage.compute;
    const bool sums = c.is_reduction() && c.combiner.kind == te::CombinerKind::kSum && c.body.size() == 1;
    if (!sums || te::summed_term(c.body[0]).same(c.body[0])) return std::nullopt;
    const Expr& condition = c.body[0].arg(0);
    bool reads = false;
    visit(condition, [&](const Expr& e) { reads = reads || e.op() == Op::kLoad; });
    return reads ? std::nullopt : depth_inside(stage, condition);
  }

  Stmts wrap(const Stage& stage, size_t depth, Stmts body) const {
    const Loop& l = stage.loops[depth];
    Stmts inside = prefetches(stage, l);
    for (Stmt& s : attach_producers(stage, depth, std::move(body))) inside.push_back(std::move(s));
    return {loop::make_for(l.var, l.extent, l.kind, std::move(inside), l.stages)};
  }

  Stmts prefetches(const Stage& stage, const Loop& l) const {
    constexpr int kSecondLevel = 2;
    Stmts out;
    for (const Prefetch& p : stage.prefetches) {
      if (p.loop != l.name) continue;
      const auto indices = mapped(p.indices, [&](const Expr& index) { return ranges_.simplify(index); });
      out.push_back(loop::make_prefetch(p.tensor, indices, kSecondLevel));
    }
    return out;
  }

  // Whether a turn of loop `depth`, the outermost of the reduction, has points that the reduction needs; null where all
  // turns do, or leave something else, too. It holds in more turns than have: what the loops inside decide is taken for
  // the best.
  Expr needed_turns(const Stage& stage, size_t depth) const {
    const auto outermost = std::ranges::find_if(stage.loops, &Loop::reduction) - stage.loops.begin();
    if (!stage.compute.needed || std::cmp_not_equal(depth, outermost)) return {};
    const auto leaves = [&](const Stage& s) { return s.consumer == stage.name() && !s.is_local(); };
    if (std::ranges::any_of(state_.stages, leaves)) return {};
    std::set<std::string> inner;
    for (size_t i = depth + 1; i < stage.loops.size(); ++i) inner.insert(stage.loops[i].var);
    return best_case(value(stage, stage.compute.needed), inner);
  }

  // `condition`, comparisons joined by "and", for those values of `inner` for which each is easiest to keep.
  Expr best_case(const Expr& condition, const std::set<std::string>& inner) const {
    if (condition.op() == Op::kAnd) {
      const Expr a = best_case(condition.arg(0), inner), b = best_case(condition.arg(1), inner);
      return !a ? b : !b ? a : a && b;
    }
    if (condition.op() != Op::kLe && condition.op() != Op::kLt) return {};
    const Expr distance = most_over(inner, ranges_.simplify(condition.arg(1) - condition.arg(0)), ranges_);
    if (!distance) return {};
    const int64_t least = condition.op() == Op::kLt ? 1 : 0;
    const Expr test = ranges_.simplify(distance >= int_imm(least));
    return test.is_int(1) ? Expr() : test;
  }

  static Stmts unless_null(const Expr& test, Stmts body) {
    return test && !body.empty() ? Stmts{loop::make_if(test, std::move(body))} : body;
  }

  // Whether a stage copies what is there before the kernel: it may be under way while others compute.
  bool copies_inputs(const Stage& stage) const {
    bool only = stage.scope == loop::Scope::kStack && !stage.compute.is_reduction();
    te::visit_reads(stage.compute, [&](const Expr& e) { only = only && state_.producer(e->name) == nullptr; });
    return only;
  }

  // The producers attached at loop `depth`, before `body`, with their local buffers around both.
  Stmts attach_producers(const Stage& stage, size_t depth, Stmts body) const {
    Stmts all, rest;
    const Expr test = needed_turns(stage, depth);
    std::vector<const Stage*> attached;
    const std::set<std::string> sources = stage.is_way ? sources_of(state_, stage) : std::set<std::string>();
    for (const Stage& producer : state_.stages) {
      if (producer.consumer != stage.name() || producer.at_loop != stage.loops[depth].name) continue;
      if (stage.is_way && !sources.contains(producer.name())) continue;  // the other way reads it
      attached.push_back(&producer);
      const bool apart = test && copies_inputs(producer);
      for (Stmt& s : apart ? unless_null(test, nest(producer, 0)) : nest(producer, 0))
        (apart ? all : rest).push_back(std::move(s));
    }
    append(rest, std::move(body));
    append(all, unless_null(test, std::move(rest)));
    for (size_t i = attached.size(); i-- > 0;) {
      if (!attached[i]->is_local()) continue;
      for (const te::Tensor& t : attached[i]->compute.outputs) {
        all = {loop::make_allocate({t.name, t.type, attached[i]->region.storage(t.shape.size()), attached[i]->scope},
                                   std::move(all))};
      }
    }
    return all;
  }

  // Reads of local buffers are relative to their region; axes become loop variables.
  Expr value(const Stage& stage, const Expr& body) const {
    const VarMap values(stage.values.begin(), stage.values.end());
    const Expr bound = substitute(body, values);
    return ranges_.simplify(rewrite(bound, [&](const Expr& e) -> Expr {
      if (e.op() != Op::kLoad) return Expr();
      const Stage* producer = state_.producer(e->name);
      if (producer == nullptr || !producer->is_local()) return Expr();
      std::vector<Expr> indices = e->args;
      const size_t rank = state_.program.tensor(e->name).shape.size();
      for (size_t d = 0; d < rank; ++d) indices[d] = indices[d] - producer->region.base[d];
      return with_args(e, std::move(indices));
    }));
  }

  std::vector<Expr> output_indices(const Stage& stage, size_t output = 0) const {
    std::vector<Expr> indices;
    for (size_t d = 0; d < stage.compute.outputs[output].shape.size(); ++d) {
      Expr index = stage.values.at(stage.compute.axes[d].name);
      if (stage.is_local()) index = index - stage.region.base[d];
      indices.push_back(ranges_.simplify(index));
    }
    return indices;
  }

  std::vector<Expr> final_values(const Stage& stage) const {
    return mapped(stage.compute.body, [&](const Expr& body) { return value(stage, body); });
  }

  Stmts update_leaf(const Stage& stage, const Members& members) const {
    const te::Compute& c = stage.compute;
    std::vector<Expr> terms = final_values(stage);
    if (condition_depth(stage)) terms[0] = value(stage, te::summed_term(c.body[0]));
    std::vector<Expr> old = by_index(c.outputs.size(), [&](size_t k) {
      return load(c.outputs[k].name, c.outputs[k].type, output_indices(stage, k));
    });
    if (c.combiner.kind == te::CombinerKind::kTuple) return tuple_leaf(stage, members, old, terms);
    std::vector<Expr> next;
    for (size_t k = 0; k < terms.size(); ++k) {
      const bool product =
          c.combiner.kind == te::CombinerKind::kSum && terms[k].op() == Op::kMul && terms[k].type().is_float();
      next.push_back(product ? fma(terms[k].arg(0), terms[k].arg(1), old[k]) : c.combiner.combine(old[k], terms[k]));
    }
    return leaf(stage, next);
  }

  // All new values of `members` are computed before the first is stored.
  Stmts tuple_leaf(const Stage& stage, const Members& members, const std::vector<Expr>& old,
                   const std::vector<Expr>& terms) const {
    const te::Compute& c = stage.compute;
    VarMap values;
    for (size_t k = 0; k < old.size(); ++k) {
      values[c.combiner.lhs[k]] = old[k];
      values[c.combiner.rhs[k]] = terms[k];
    }
    std::vector<Expr> names;
    for (size_t k = 0; k < old.size(); ++k)
      names.push_back(var(fmt::format("{}.next{}", stage.name(), k), c.outputs[k].type));
    Stmts body = stores(stage, members, names);
    for (size_t i = members.size(); i-- > 0;) {
      const size_t k = members[i];
      body = {loop::make_let(names[k]->name, substitute(c.combiner.result[k], values), std::move(body))};
    }
    return guarded(stage, std::move(body), false);
  }

  Stmts leaf(const Stage& stage, const std::vector<Expr>& values) const {
    const bool shares = values.size() > 1 && !stage.compute.is_reduction();
    return guarded(stage, shares ? shared_stores(stage, values) : stores(stage, members_of(stage)[0], values), false);
  }

  // Several values of one point: what one of them is, others that hold it do not compute again, and all are known
  // before the first is stored: it may be the next value of a state that another one reads (driver/code/in_place.h).
  Stmts shared_stores(const Stage& stage, std::vector<Expr> values) const {
    std::vector<std::pair<Expr, Expr>> lets;  // the variable, and what it is
    for (size_t k = 0; k < values.size(); ++k) {
      const Expr value = values[k];
      if (value.op() != Op::kLoad && value->args.empty()) continue;
      const Expr name = var(fmt::format("{}.value{}", stage.name(), k), value.type());
      lets.emplace_back(name, value);
      values[k] = name;
      for (size_t j = k + 1; j < values.size(); ++j)
        values[j] = rewrite(values[j], [&](const Expr& e) { return equal(e, value) ? name : Expr(); });
    }
    Stmts body = stores(stage, members_of(stage)[0], values);
    for (size_t i = lets.size(); i-- > 0;)
      body = {loop::make_let(lets[i].first->name, lets[i].second, std::move(body))};
    return body;
  }

  Stmts stores(const Stage& stage, const Members& members, const std::vector<Expr>& values) const {
    return mapped(members, [&](const size_t k) {
      return loop::make_store(stage.compute.outputs[k].name, output_indices(stage, k), values[k]);
    });
  }

  // `body` under the stage's guards; those of reductions do not bind the initial value.
  Stmts guarded(const Stage& stage, Stmts body, bool initial) const {
    for (const Expr& guard : stage.guards) {
      if (initial && uses_reduction(stage, guard)) continue;
      const Expr simple = ranges_.simplify(guard);
      if (!simple.is_int(1)) body = {loop::make_if(simple, std::move(body))};
    }
    return body;
  }

  static bool uses_reduction(const Stage& stage, const Expr& guard) {
    return std::ranges::any_of(stage.loops, [&](const Loop& l) { return l.reduction && uses_var(guard, l.var); });
  }

  void collect_params(const Stage& root, loop::Kernel& kernel) const {
    std::vector<std::string> names;
    const auto add = [&](const te::Tensor& t) {
      if (std::ranges::find(names, t.name) != names.end()) return;
      names.push_back(t.name);
      kernel.params.push_back({t.name, t.type, t.shape, loop::Scope::kParam});
    };
    const auto use = [&](const Expr& e) {
      visit(e, [&](const Expr& x) {
        if (x.op() != Op::kLoad) return;
        const Stage* producer = state_.producer(x->name);
        if (producer == nullptr || !producer->is_local()) add(state_.program.tensor(x->name));
      });
    };
    loop::visit_exprs(kernel.body, use);
    const auto write = [&](const te::Compute& c) {
      for (const te::Tensor& t : c.outputs) {
        add(t);
        kernel.written.push_back(t.name);
      }
    };
    write(root.compute);
    for (const Stage& stage : state_.stages) {
      const Stage* kernel_of = &stage;
      while (!kernel_of->is_root()) kernel_of = state_.producer(kernel_of->consumer);
      if (!stage.is_root() && !stage.is_local() && kernel_of == &root) write(stage.compute);
    }
  }

  const State& state_;
  Analyzer ranges_;
};

}  // namespace

loop::Program emit(const State& state) {
  loop::Program program;
  program.name = state.program.name;
  const Emitter emitter(state);
  for (const Stage& stage : state.stages) {
    if (stage.is_root()) program.kernels.push_back(emitter.kernel(stage));
  }
  return program;
}

}  // namespace tw::schedule
