#include <algorithm>

#include "te/join_outputs.h"
#include "te/reads.h"

namespace tw::te {
namespace {

bool may_be_one_of_several(const Program& program, const Compute& c) {
  const auto reads = [&](const Compute& other) { return count_reads(other, c.name()) > 0; };
  return sums_columns(c) && c.combiner.kind == CombinerKind::kSum && c.outputs.size() == 1 && !c.needed &&
         program.is_output(c.name()) && std::ranges::none_of(program.computes, reads);
}

bool are_of_one_space(const Compute& a, const Compute& b) {
  return shape_of(a.axes) == shape_of(b.axes) && shape_of(a.reduce_axes) == shape_of(b.reduce_axes) &&
         a.outputs[0].type == b.outputs[0].type;
}

// `more` combined in the loops of `all`.
void add(Compute& all, const Compute& more) {
  VarMap values;
  for (size_t d = 0; d < all.axes.size(); ++d) values.emplace(more.axes[d].name, all.axes[d].var());
  for (size_t r = 0; r < all.reduce_axes.size(); ++r)
    values.emplace(more.reduce_axes[r].name, all.reduce_axes[r].var());
  all.outputs.push_back(more.outputs[0]);
  all.body.push_back(substitute(more.body[0], values));
  all.combiner.identity.push_back(more.combiner.identity.at(0));
}

}  // namespace

bool sums_columns(const Compute& c) {
  if (!c.is_reduction() || c.axes.empty()) return false;
  const auto last = std::ranges::find_if(c.axes.rbegin(), c.axes.rend(), [](const Axis& a) { return a.extent != 1; });
  const Axis& column = last == c.axes.rend() ? c.axes.back() : *last;
  bool along = true;
  visit_reads(c, [&](const Expr& read) {
    along = along && !read->args.empty() && read->args.back().is_var() && read->args.back()->name == column.name;
  });
  return along;
}

Program join_sums(const Program& program) {
  Program out = program;
  out.computes.clear();
  Compute all;
  size_t last = 0;
  for (const Compute& c : program.computes) {
    const bool joins = may_be_one_of_several(program, c) && (all.outputs.empty() || are_of_one_space(all, c));
    if (!joins) {
      out.computes.push_back(c);
      continue;
    }
    if (all.outputs.empty())
      all = c;
    else
      add(all, c);
    last = out.computes.size();
  }
  if (all.outputs.size() < 2) return program;
  out.computes.insert(out.computes.begin() + static_cast<std::ptrdiff_t>(last), std::move(all));
  verify(out);
  return out;
}

}  // namespace tw::te
