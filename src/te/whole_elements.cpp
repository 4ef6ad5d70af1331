#include <algorithm>
#include <ranges>
#include <set>

#include "expr/elementary.h"
#include "te/online.h"
#include "te/reads.h"

namespace tw::te {
namespace {

bool is_rounding(const Expr& e) {
  return e.op() == Op::kCast && e.type().is_half() && e.arg(0).type() == DataType::f32();
}

// `e` where loads of `wide` are f32 already.
Expr read_whole(const Expr& e, const std::set<std::string>& wide) {
  return rewrite(e, [&](const Expr& x) -> Expr {
    if (x.op() != Op::kCast || x.arg(0).op() != Op::kLoad || !wide.contains(x.arg(0)->name)) return {};
    return load(x.arg(0)->name, DataType::f32(), x.arg(0)->args);
  });
}

bool calls_or_divides(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || x.op() == Op::kCall || x.op() == Op::kDiv; });
  return found;
}

// The same number as f32.
Expr as_f32(const Expr& e) {
  if (e.op() == Op::kSelect) return select(e.arg(0), as_f32(e.arg(1)), as_f32(e.arg(2)));
  return e.op() == Op::kFloatImm ? float_imm(e->number) : cast(DataType::f32(), e);
}

// The maximum, and what its elements are computed of point by point: no operands of products, whose instructions want
// 16 bits.
std::set<std::string> elements_of(const Program& program, const std::string& maximum) {
  std::set<std::string> elements = {maximum}, read, operands;
  for (const Compute& c : program.computes) {
    if (c.is_reduction() && c.name() != maximum) visit_reads(c, [&](const Expr& e) { operands.insert(e->name); });
  }
  for (auto c = program.computes.rbegin(); c != program.computes.rend(); ++c) {
    const bool between = read.contains(c->name()) && !c->is_reduction() && !operands.contains(c->name());
    if (between) elements.insert(c->name());
    if (between || c->name() == maximum) visit_reads(*c, [&](const Expr& e) { read.insert(e->name); });
  }
  return elements;
}

// Whether nothing but conversions reads `tensor`.
bool is_read_as_f32(const Program& program, const Tensor& tensor) {
  bool only = true;
  const auto is_it = [&](const Expr& x) { return x.op() == Op::kLoad && x->name == tensor.name; };
  for (const Compute& c : program.computes) {
    for (const Expr& body : c.body) {
      only = only && !is_it(body);
      visit(body, [&](const Expr& e) {
        const bool converts = e.op() == Op::kCast && e.type() == DataType::f32();
        only = only && (converts || std::ranges::none_of(e->args, is_it));
      });
    }
  }
  return only;
}

}  // namespace

Expr unrounded(const Expr& e, Digits digits) {
  if (e.op() == Op::kSelect && e.type().is_half()) return cast(e.type(), unrounded(as_f32(e), digits));
  return rewrite(e, [&](const Expr& x) {
    const bool widens = x.op() == Op::kCast && x.type() == DataType::f32() && x.arg(0).type().is_half();
    if (widens && x.arg(0).op() == Op::kSelect) return unrounded(as_f32(x.arg(0)), digits);
    if (!widens || !is_rounding(x.arg(0))) return Expr();
    const Expr exact = x.arg(0).arg(0);
    // A choice stays one for those that ask where a value is 0, and 1 + erf(x) one value (expr/expand.h).
    const bool is_seen = exact.op() == Op::kSelect || (exact.op() == Op::kCall && exact->name == "erf");
    const bool may_be_rough = digits == Digits::kAsRounded && !is_seen && calls_or_divides(exact);
    return may_be_rough ? call(std::string(kRough), {exact}) : exact;
  });
}

std::vector<std::string> keep_elements_whole(Program& program, const std::string& maximum) {
  std::vector<std::string> changed;
  std::set<std::string> wide;  // were of 16 bits
  const std::set<std::string> elements = elements_of(program, maximum);
  // What a mask chooses is as exact in f32. From readers back: what it chooses from is read as f32 then, too.
  for (Compute& c : std::views::reverse(program.computes)) {
    const bool chooses = elements.contains(c.name()) && c.outputs.size() == 1 && c.body[0].op() == Op::kSelect &&
                         c.body[0].type().is_half();
    if (!chooses || program.is_output(c.name()) || !is_read_as_f32(program, c.outputs[0])) continue;
    c.body[0] = as_f32(c.body[0]);
    c.outputs[0].type = DataType::f32();
    wide.insert(c.name());
    changed.push_back(c.name());
  }
  for (Compute& c : program.computes) {
    if (!elements.contains(c.name()) || c.outputs.size() > 1) continue;
    Expr body = unrounded(read_whole(c.body[0], wide));
    Tensor& out = c.outputs[0];
    if (!c.is_reduction() && is_rounding(body) && !program.is_output(out.name) && is_read_as_f32(program, out)) {
      body = body.arg(0);
      out.type = body.type();
      wide.insert(out.name);
    }
    const bool is_new = !equal(body, c.body[0]) && c.name() != maximum && std::ranges::count(changed, c.name()) == 0;
    if (is_new) changed.push_back(c.name());
    c.body[0] = body;
  }
  for (Compute& c : program.computes) {
    for (Expr& body : c.body) body = read_whole(body, wide);
  }
  return changed;
}

}  // namespace tw::te
