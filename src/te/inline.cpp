#include <algorithm>

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

Program inline_compute(const Program& program, const std::string& tensor) {
  const Compute* found = program.find_compute(tensor);
  TW_CHECK(found != nullptr, "te program '{}' computes no '{}' to inline", program.name, tensor);
  TW_CHECK(!found->is_reduction() && found->outputs.size() == 1, "'{}' is a reduction: it cannot be inlined", tensor);
  const Compute compute = *found;
  Program out = program;
  for (Compute& reader : out.computes) {
    for (Expr& body : reader.body) {
      body = rewrite(
          body, [&](const Expr& e) { return e.op() == Op::kLoad && e->name == tensor ? body_at(compute, e) : Expr(); });
    }
  }
  if (!program.is_output(tensor)) std::erase_if(out.computes, [&](const Compute& c) { return c.name() == tensor; });
  return out;
}

}  // namespace tw::te
