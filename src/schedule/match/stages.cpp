#include "schedule/match/stages.h"

#include "schedule/match/contraction.h"
#include "schedule/stage.h"
#include "support/join.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::schedule {

std::map<std::string, std::string> point_ends(const te::Program& program) {
  std::map<std::string, std::string> ends;
  for (auto c = program.computes.rbegin(); c != program.computes.rend(); ++c) {
    if (c->is_reduction() || c->outputs.size() > 1 || program.is_output(c->name())) continue;
    std::set<std::string> found;  // empty: a stage where it is not all read at its own point
    for (const te::Compute& reader : program.computes) {
      if (te::count_reads(reader, c->name()) == 0) continue;
      const bool at_point = !reader.is_reduction() && te::reads_own_point(reader, c->name());
      found.insert(at_point ? value_or(ends, reader.name(), reader.name()) : "");
    }
    if (found.size() == 1 && !found.begin()->empty()) ends[c->name()] = *found.begin();
  }
  return ends;
}

te::Program inline_stages(Schedule& s, const te::Program& program,
                          const std::function<bool(const te::Compute&)>& keep) {
  // What is inlined before a stage adds no reads of it: producers come first.
  const std::map<std::string, int> reads = te::count_reads(program);
  const std::map<std::string, std::string> ends = point_ends(program);
  const te::Compute* sum = find_contraction(program);
  // Outputs of one compute are computed together: what all of them read is computed once there. And what stands beside
  // a sum of products, for what follows it, is part of that: it needs no kernel before.
  const auto is_part_of_end = [&](const te::Compute& c) {
    const auto found = ends.find(c.name());
    if (found == ends.end()) return false;
    const te::Compute& end = *program.find_compute(found->second);
    const bool is_beside = sum != nullptr && !te::depends_on(program, c, sum->name());
    return end.outputs.size() > 1 || (is_beside && te::depends_on(program, end, sum->name()));
  };
  const auto is_cheap = [&](const te::Compute& c) {
    const auto found = reads.find(c.name());
    const Expr& value = c.body[0].op() == Op::kCast ? c.body[0]->args[0] : c.body[0];
    return value.op() == Op::kLoad || found == reads.end() || found->second <= 1 || is_part_of_end(c);
  };
  te::Program out = program;
  out.computes.clear();
  te::Inliner inliner;
  for (const te::Compute& compute : program.computes) {
    te::Compute c = inliner.apply(compute);
    const bool stays = c.is_reduction() || c.outputs.size() != 1 || program.is_output(c.name()) || keep(c);
    if (stays || !is_cheap(c)) {
      out.computes.push_back(std::move(c));
      continue;
    }
    s.inline_stage(c.name());
    inliner.add(c);
  }
  return out;
}

te::Program rewritten(const te::Program& program, const Schedule& s) {
  State state = make_state(program);
  apply_primitives(state, s.primitives());
  return current_program(state);
}

Result<std::string> epilogue_output(const te::Program& program, const te::Compute& source) {
  std::vector<std::string> outputs;
  for (const te::Compute& c : program.computes) {
    const bool follows = te::depends_on(program, c, source.name());
    if (follows && c.is_reduction()) return declined("reduction {} follows {}", c.name(), source.name());
    for (const te::Compute& before : program.computes) {
      const bool in_tile = &before == &source || te::depends_on(program, before, source.name());
      if (follows && in_tile &&
          (c.outputs[0].shape != source.outputs[0].shape || !te::reads_own_point(c, before.name())))
        return declined("{} does not follow {} point by point", c.name(), before.name());
    }
    if ((follows || &c == &source) && program.is_output(c.name())) outputs.push_back(c.name());
  }
  if (outputs.size() != 1) return declined("{} outputs leave the epilogue", outputs.size());
  return outputs[0];
}

Result<const te::Compute*> only_reduction(const te::Program& program) {
  const te::Compute* found = nullptr;
  for (const te::Compute& c : program.computes) {
    if (!c.is_reduction()) continue;
    if (found != nullptr) return declined("{} is a second reduction", c.name());
    found = &c;
  }
  if (found == nullptr) return declined("no reduction");
  return found;
}

Result<Total> match_total(Schedule& s, const te::Program& program) {
  Total out{inline_stages(s, program)};
  std::set<std::string> terms;
  for (const te::Compute& c : out.program.computes) {
    if (c.is_reduction() || te::num_points(c.axes) == 1) continue;
    if (out.program.is_output(c.name())) return declined("{} leaves the group beside", c.name());
    if (terms.insert(c.name()).second) s.inline_stage(c.name());
  }
  out.program = te::inline_computes(out.program, terms);
  for (const te::Compute& c : out.program.computes) {
    if (!c.is_reduction()) continue;
    const bool total = te::num_points(c.axes) == 1 && c.outputs.size() == 1 && c.reduce_axes.size() == 1;
    if (!total || !reduces_contiguous(c)) return declined("a reduction over several axes, or of elements apart");
    if (!out.sums.empty() && c.reduce_axes[0].extent != out.elements) return declined("reductions of other lengths");
    out.elements = c.reduce_axes[0].extent;
    out.sums.push_back(c.name());
  }
  if (out.sums.empty()) return declined("no reduction");
  return out;
}

bool reduces_contiguous(const te::Compute& c) {
  bool contiguous = false;
  te::visit_reads(c, [&](const Expr& load) {
    const int last = static_cast<int>(load->args.size()) - 1;
    contiguous = contiguous || (last >= 0 && te::dim_of_axis(load, c.reduce_axes.back().name) == last);
  });
  return contiguous;
}

bool has_empty_axis(const te::Compute& c) {
  const auto empty = [](const te::Axis& axis) { return axis.extent == 0; };
  return std::ranges::any_of(c.axes, empty) || std::ranges::any_of(c.reduce_axes, empty);
}

static bool has(const te::Compute& c, Op op) {
  bool found = false;
  for (const Expr& body : c.body) visit(body, [&](const Expr& e) { found = found || e.op() == op; });
  return found;
}

bool has_select(const te::Compute& c) { return has(c, Op::kSelect); }
bool calls_function(const te::Compute& c) { return has(c, Op::kCall); }

namespace {

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

// The output of most elements, the last one of them: it owns the tiles.
std::string row_owner(const te::Program& program) {
  const te::Compute* owner = nullptr;
  for (const te::Compute& c : program.computes) {
    const bool leaves = std::ranges::any_of(c.outputs, [&](const te::Tensor& t) { return program.is_output(t.name); });
    if (leaves && (owner == nullptr || te::num_points(c.axes) >= te::num_points(owner->axes))) owner = &c;
  }
  return owner->name();
}

// Leaves `owner` as the last stage, which nothing reads, and parts the other outputs.
void part_from_owner(Schedule& s, const std::string& owner, RowProgram& rows) {
  const std::map<std::string, int> reads = te::count_reads(rows.program);
  std::vector<std::string> others;
  for (const std::string& name : rows.program.outputs) {
    const bool is_owner = rows.program.find_compute(name)->name() == owner;
    if (!is_owner || reads.contains(name)) others.push_back(name);
  }
  part_outputs(s, others, {rows.program, rows.statistics, rows.kept});
  rows.statistics.erase(owner);
  const auto last = std::ranges::find(rows.program.computes, owner, [](const te::Compute& c) { return c.name(); });
  std::rotate(last, last + 1, rows.program.computes.end());
}

}  // namespace

size_t common_rows(const te::Program& program) {
  const te::Compute& output = program.computes.back();
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

void part_outputs(Schedule& s, const std::vector<std::string>& outputs, const PartedOutputs& parted) {
  Schedule copies;
  const te::Program& program = parted.program;
  const std::map<std::string, int> reads = te::count_reads(program);
  for (const std::string& name : outputs) {
    const te::Compute& c = *program.find_compute(name);
    const bool is_copy = !c.is_reduction() && c.body[0].op() == Op::kLoad && te::reads_own_point(c, c.body[0]->name) &&
                         program.find_compute(c.body[0]->name) != nullptr;
    if (reads.contains(name) || !is_copy) {
      copies.cache_write(name);
      parted.kept.insert(name + ".acc");
    }
    parted.outputs.insert(name);
  }
  for (const Primitive& p : copies.primitives()) s.add(p);
  parted.program = rewritten(program, copies);
}

Result<RowProgram> row_program(Schedule& s, const te::Program& program) {
  RowProgram out;
  out.program = inline_stages(s, program, [&](const te::Compute& c) { return is_once_a_row(program, c); });
  const bool reduces = std::ranges::any_of(out.program.computes, [](const te::Compute& c) { return c.is_reduction(); });
  if (!reduces) return declined("no reduction");
  const std::string owner = row_owner(out.program);
  const std::map<std::string, int> reads = te::count_reads(out.program);
  for (const te::Compute& c : out.program.computes) {
    if (c.outputs.size() == 1) continue;
    const bool leaves = std::ranges::any_of(c.outputs, [&](const auto& t) { return out.program.is_output(t.name); });
    const bool is_read = std::ranges::any_of(c.outputs, [&](const auto& t) { return reads.contains(t.name); });
    if (leaves && (is_read || c.name() != owner)) return declined("{} has several outputs and owns no rows", c.name());
  }
  const bool others_leave = std::ranges::any_of(
      out.program.outputs, [&](const std::string& name) { return out.program.find_compute(name)->name() != owner; });
  if (others_leave) part_from_owner(s, owner, out);
  const te::Compute& last = out.program.computes.back();
  if (last.name() != owner) return declined("an output that is not the last stage");
  out.rows = common_rows(out.program);
  for (const std::string& name : out.statistics) {
    const te::Compute& c = *out.program.find_compute(name);
    out.rows = std::min(out.rows, c.axes.size());
  }
  if (out.rows == 0) return declined("its stages share no leading axis with the output");
  for (const std::string& name : out.statistics) {
    const te::Compute& c = *out.program.find_compute(name);
    const bool of_rows = c.axes.size() == out.rows && std::ranges::equal(c.axes, std::span(last.axes).first(out.rows),
                                                                         {}, &te::Axis::extent, &te::Axis::extent);
    if (!of_rows) return declined("{} leaves the group, and has not one element for each row", name);
  }
  return out;
}

std::string why_not_by_thread(const RowProgram& rows) {
  constexpr int64_t kMaxElements = 32, kMaxTerms = 256;  // of a stage in a row: what registers hold, and what they sum
  if (!rows.statistics.empty()) return "values leave the rows besides";
  if (std::ranges::count_if(rows.program.computes, &te::Compute::is_reduction) < 2)
    return "one reduction: each of its points has a thread";
  for (const te::Compute& c : rows.program.computes) {
    if (has_empty_axis(c)) return c.name() + " has an axis of extent 0";
    int64_t elements = 1;
    for (size_t d = rows.rows; d < c.axes.size(); ++d) elements *= c.axes[d].extent;
    if (elements > kMaxElements || elements * te::num_points(c.reduce_axes) > kMaxTerms)
      return c.name() + " has more elements of a row, or more terms, than one thread computes";
    if (c.outputs.size() > 1) return c.name() + " has several outputs";
  }
  return "";
}

bool is_once_a_row(const te::Program& program, const te::Compute& c) {
  bool costly = calls_function(c);
  for (const Expr& body : c.body) {
    visit(body, [&](const Expr& e) { costly = costly || (e.op() == Op::kDiv && e.type().is_float()); });
  }
  return costly && std::ranges::any_of(program.computes, [&](const te::Compute& reader) {
           return te::count_reads(reader, c.name()) > 0 &&
                  reader.axes.size() + reader.reduce_axes.size() > c.axes.size();
         });
}

}  // namespace tw::schedule
