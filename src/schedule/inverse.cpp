#include <algorithm>

#include "expr/affine.h"
#include "schedule/stage.h"

namespace tw::schedule {
namespace {

// What part of an axis an index of a load is: (axis / unit) mod count, or (axis mod count) / unit.
struct Digit {
  std::string axis;
  int64_t unit = 1;
};

std::optional<Digit> digit_of(const Expr& index) {
  Digit digit;
  Expr e = index;
  for (; (e.op() == Op::kFloorMod || e.op() == Op::kFloorDiv) && e.arg(1).op() == Op::kIntImm; e = e.arg(0)) {
    if (e.op() == Op::kFloorDiv) digit.unit *= e.arg(1)->value;
  }
  if (!e.is_var()) return std::nullopt;
  digit.axis = e->name;
  return digit;
}

}  // namespace

bool solve(const Expr& index, const te::Axis& axis, std::span<const te::Axis> own, VarMap& values) {
  if (const std::optional<Digit> digit = digit_of(index)) {
    const Expr more = axis.var() * int_imm(digit->unit);
    const auto [known, is_new] = values.try_emplace(digit->axis, more);
    if (!is_new) known->second = known->second + more;
    return true;
  }
  const std::optional<LinearForm> form = as_linear(index);
  std::vector<std::pair<int64_t, std::string>> digits;
  if (form) {
    for (const auto& [name, coefficient] : form->terms) digits.emplace_back(coefficient, name);
  }
  std::ranges::sort(digits);
  int64_t unit = 1;
  bool fits = form && form->constant == 0;
  for (const auto& [coefficient, name] : digits) {
    const auto found = std::ranges::find(own, name, &te::Axis::name);
    if (found == own.end()) continue;
    const Expr rest = floor_div(axis.var(), int_imm(unit));
    values.insert_or_assign(name, name == digits.back().second ? rest : floor_mod(rest, int_imm(found->extent)));
    fits = fits && coefficient == unit;
    unit *= found->extent;
  }
  return fits;
}

}  // namespace tw::schedule
