// Zeros that nobody reads. Tiles have whole instructions' worth of rows, and behind the last row of a tensor a stage in
// registers has `select(row < rows, value, 0)`. Where whoever wants an element has no such row either, the value is as
// good as the zero, and needs no test: elements in registers are there, whatever they hold.
#include <algorithm>

#include "schedule/stage.h"
#include "support/join.h"

namespace tw::schedule {
namespace {

using Facts = std::vector<Expr>;

void add_parts(const Expr& condition, Facts& parts) {
  if (condition.op() == Op::kAnd) {
    for (const Expr& part : condition->args) add_parts(part, parts);
  } else {
    parts.push_back(condition);
  }
}

bool holds(const Facts& facts, const Expr& e) {
  return std::ranges::any_of(facts, [&](const Expr& fact) { return equal(fact, e); });
}

// Whether computing `e` of anything at all is harmless: a division by an integer 0 is not.
bool is_total(const Expr& e) {
  bool total = true;
  visit(e, [&](const Expr& x) {
    const bool divides = x.op() == Op::kFloorDiv || x.op() == Op::kFloorMod || x.op() == Op::kDiv;
    total = total && (!divides || x.type().is_float() || x.arg(1).op() == Op::kIntImm);
  });
  return total;
}

class Wanted {
 public:
  explicit Wanted(State& state) : state_(state) {}

  void run() {
    if (std::ranges::none_of(state_.stages, may_have_zeros)) return;
    find_facts();
    const Analyzer loops = loop_ranges(state_);
    for (Stage& stage : state_.stages) {
      if (may_have_zeros(stage)) {
        for (Expr& body : stage.compute.body) body = without_zeros(stage, body, loops);
      }
    }
  }

 private:
  static bool may_have_zeros(const Stage& stage) {
    return stage.scope == loop::Scope::kRegister && !stage.compute.is_reduction() &&
           std::ranges::any_of(stage.compute.body, [](const Expr& e) { return e.op() == Op::kSelect; });
  }

  static Analyzer ranges_of(const te::Compute& c) {
    Analyzer ranges;
    for (const auto* axes : {&c.axes, &c.reduce_axes}) {
      for (const te::Axis& a : *axes) ranges.bind(a.name, 0, a.extent);
    }
    return ranges;
  }

  // What holds, in terms of its axes, wherever an element of a stage is wanted. Stages may read each other, as parts of
  // a reduction in order do: facts hold that all of them leave standing.
  void find_facts() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto stage = state_.stages.rbegin(); stage != state_.stages.rend(); ++stage) {
        Facts now = facts_of(*stage);
        const auto [known, is_new] = facts_.try_emplace(stage->name(), now);
        changed = changed || is_new || known->second.size() != now.size();
        known->second = std::move(now);
      }
    }
  }

  Facts facts_of(const Stage& stage) const {
    const auto leaves = [&](const te::Tensor& t) {
      return std::ranges::find(state_.program.outputs, t.name) != state_.program.outputs.end();
    };
    if (std::ranges::any_of(stage.compute.outputs, leaves)) return {};
    std::optional<Facts> all;
    for (const Stage& reader : state_.stages) {
      const auto known = facts_.find(reader.name());
      if (known == facts_.end()) continue;
      std::vector<Expr> roots = reader.compute.body;
      if (reader.start) roots.push_back(reader.start);
      for (const Expr& root : roots) facts_of_reads(root, known->second, {stage, reader}, all);
    }
    return all.value_or(Facts());
  }

  struct Pair {
    const Stage& stage;
    const Stage& reader;
  };

  // Of all reads of `pair.stage` in `e`, which is evaluated where `facts` hold.
  void facts_of_reads(const Expr& e, const Facts& facts, const Pair& pair, std::optional<Facts>& all) const {
    if (e.op() == Op::kLoad && state_.producer(e->name) == &pair.stage) {
      const Facts here = facts_at(e, facts, pair);
      if (all) std::erase_if(*all, [&](const Expr& fact) { return !holds(here, fact); });
      if (!all) all = here;
    }
    for (size_t k = 0; k < e->args.size(); ++k) {
      Facts inner = facts;
      if (e.op() == Op::kSelect && k == 1) add_parts(e.arg(0), inner);
      facts_of_reads(e->args[k], inner, pair, all);
    }
  }

  // What `facts` of a reader are of the element that it loads.
  static Facts facts_at(const Expr& load, Facts facts, const Pair& pair) {
    const te::Compute& stage = pair.stage.compute;
    const te::Compute& reader = pair.reader.compute;
    const Analyzer ranges = ranges_of(stage), at_reader = ranges_of(reader);
    const std::vector<te::Axis> own = joined(reader.axes, reader.reduce_axes);
    VarMap values, indices;
    for (size_t d = 0; d < load->args.size() && d < stage.axes.size(); ++d) {
      solve(at_reader.simplify(load->args[d]), stage.axes[d], own, values);
      indices[stage.axes[d].name] = load->args[d];
    }
    // An axis is known if the indices give it back.
    std::erase_if(values, [&](const auto& value) {
      const Expr back = at_reader.simplify(substitute(value.second, indices));
      return !back.is_var() || back->name != value.first;
    });
    for (const te::Axis& a : own) facts.push_back(a.var() < int_imm(a.extent));
    Facts out;
    for (const Expr& fact : facts) {
      bool known = true;
      visit(fact, [&](const Expr& x) { known = known && (!x.is_var() || values.contains(x->name)); });
      if (!known) continue;
      const Expr here = ranges.simplify(substitute(fact, values));
      if (!here.is_int(1) && !holds(out, here)) out.push_back(here);
    }
    return out;
  }

  Expr without_zeros(const Stage& stage, const Expr& body, const Analyzer& loops) const {
    if (body.op() != Op::kSelect || !is_zero(body.arg(2)) || !is_total(body.arg(1))) return body;
    const Facts& facts = facts_.at(stage.name());
    const Analyzer ranges = ranges_of(stage.compute);
    Facts parts;
    add_parts(body.arg(0), parts);
    Expr rest;
    for (const Expr& part : parts) {
      const bool goes = holds(facts, ranges.simplify(part)) && reads_are_there(stage, body.arg(1), part, loops);
      if (!goes) rest = rest ? rest && part : part;
    }
    return rest ? select(rest, body.arg(1), body.arg(2)) : body.arg(1);
  }

  // Whether all that depends on the axes of `condition` is read from buffers that have it where that does not hold.
  bool reads_are_there(const Stage& stage, const Expr& value, const Expr& condition, const Analyzer& loops) const {
    bool there = true;
    visit(value, [&](const Expr& load) {
      if (load.op() != Op::kLoad) return;
      const Stage* source = state_.producer(load->name);
      const Shape& shape = state_.program.tensor(load->name).shape;
      for (size_t d = 0; d < load->args.size() && d < shape.size(); ++d) {
        const auto is_free = [&](const te::Axis& a) {
          return uses_var(condition, a.name) && uses_var(load->args[d], a.name);
        };
        if (std::ranges::none_of(stage.compute.axes, is_free)) continue;
        const bool local = source != nullptr && source->is_local();
        there = there && local && load->args.size() == shape.size();
        if (!there) return;
        const Expr index = substitute(load->args[d], VarMap(stage.values.begin(), stage.values.end()));
        const Interval held = loops.bounds(loops.simplify(index - source->region.base[d]));
        there = held.lo >= 0 && held.hi < source->region.extent[d];
      }
    });
    return there;
  }

  State& state_;
  std::map<std::string, Facts> facts_;
};

}  // namespace

void drop_unread_zeros(State& state) { Wanted(state).run(); }

}  // namespace tw::schedule
