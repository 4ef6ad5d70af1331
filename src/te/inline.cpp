#include "support/error.h"
#include "te/rewrite.h"

namespace tw::te {
namespace {

// The body of `compute` at the indices of the read `e`.
Expr body_at(const Compute& compute, const Expr& e) {
  VarMap values;
  for (size_t d = 0; d < compute.axes.size(); ++d) values.emplace(compute.axes[d].name, e.arg(d));
  const Expr value = substitute(compute.body[0], values);
  return e->predicated ? select(e->args.back(), value, imm(value.type(), 0)) : value;
}

}  // namespace

void Inliner::add(const Compute& compute) {
  TW_CHECK(!compute.is_reduction() && compute.outputs.size() == 1, "'{}' is a reduction: it cannot be inlined",
           compute.name());
  inlined_.emplace(compute.name(), compute);
}

Compute Inliner::apply(Compute reader) const {
  if (inlined_.empty()) return reader;
  for (Expr& body : reader.body) {
    body = rewrite(body, [&](const Expr& e) -> Expr {
      if (e.op() != Op::kLoad) return {};
      const auto found = inlined_.find(e->name);
      return found == inlined_.end() ? Expr() : body_at(found->second, e);
    });
  }
  return reader;
}

Program inline_computes(const Program& program, const std::set<std::string>& tensors) {
  for (const std::string& tensor : tensors)
    TW_CHECK(program.find_compute(tensor) != nullptr, "te program '{}' computes no '{}' to inline", program.name,
             tensor);
  Program out = program;
  out.computes.clear();
  Inliner inliner;
  for (const Compute& compute : program.computes) {
    Compute c = inliner.apply(compute);
    const bool goes = tensors.count(c.name()) != 0;
    if (goes) inliner.add(c);
    if (!goes || program.is_output(c.name())) out.computes.push_back(std::move(c));
  }
  return out;
}

}  // namespace tw::te
