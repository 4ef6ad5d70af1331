#include "schedule/match/stages.h"

#include <algorithm>

#include "schedule/match/contraction.h"
#include "schedule/stage.h"
#include "te/reads.h"
#include "te/rewrite.h"
#include "te/sum_terms.h"

namespace tw::schedule {

te::Program inline_stages(Schedule& s, const te::Program& program,
                          const std::function<bool(const te::Compute&)>& keep) {
  // What is inlined before a stage adds no reads of it: producers come first.
  const std::map<std::string, int> reads = te::count_reads(program);
  const auto is_cheap = [&](const te::Compute& c) {
    const auto found = reads.find(c.name());
    return c.body[0].op() == Op::kLoad || found == reads.end() || found->second <= 1;
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

bool has_select(const te::Compute& c) {
  bool found = false;
  visit(c.body[0], [&](const Expr& x) { found = found || x.op() == Op::kSelect; });
  return found;
}

bool calls_function(const te::Compute& c) {
  bool calls = false;
  for (const Expr& body : c.body) visit(body, [&](const Expr& e) { calls = calls || e.op() == Op::kCall; });
  return calls;
}

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

Result<RowProgram> row_program(Schedule& s, const te::Program& program) {
  RowProgram out;
  out.program = inline_stages(s, program, [&](const te::Compute& c) { return is_once_a_row(program, c); });
  const bool reduces = std::ranges::any_of(out.program.computes, [](const te::Compute& c) { return c.is_reduction(); });
  if (!reduces) return declined("no reduction");
  const te::Compute& output = out.program.computes.back();
  const bool one_output = std::ranges::all_of(
      out.program.outputs, [&](const std::string& name) { return out.program.find_compute(name) == &output; });
  if (!one_output) return declined("an output that is not the last stage");
  out.rows = common_rows(out.program);
  if (out.rows == 0) return declined("its stages share no leading axis with the output");
  return out;
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
