#include <algorithm>

#include "expr/affine.h"
#include "expr/tf32.h"
#include "te/reads.h"

namespace tw::te {
namespace {

void add_parts(const Expr& condition, const VarMap& point, std::vector<Expr>& parts) {
  if (condition.op() == Op::kAnd) {
    for (const Expr& part : condition->args) add_parts(part, point, parts);
    return;
  }
  bool reads = false;
  visit(condition, [&](const Expr& e) { reads = reads || e.op() == Op::kLoad; });
  if (!reads) parts.push_back(substitute(condition, point));
}

}  // namespace

Expr strip_casts(const Expr& e) {
  if (e.op() == Op::kCast) return strip_casts(e.arg(0));
  const Expr* rounded = tf32_operand(e);
  return rounded ? strip_casts(*rounded) : e;
}

std::vector<Expr> nonzero_conditions(const Compute& sum,
                                     const std::function<const Compute*(const std::string& tensor)>& find) {
  std::vector<Expr> conditions;
  const Expr body = summed_term(sum.body[0]);
  if (body.op() != Op::kMul) return conditions;
  for (const Expr& operand : body->args) {
    const Expr read = strip_casts(operand);
    const Compute* source = read.op() == Op::kLoad ? find(read->name) : nullptr;
    if (source == nullptr || source->is_reduction() || source->body.size() != 1) continue;
    const Expr& padded = source->body[0];
    const bool with_zeros =
        padded.op() == Op::kSelect && padded.arg(2).op() == Op::kFloatImm && padded.arg(2)->number == 0;
    if (!with_zeros) continue;
    VarMap point;
    for (size_t d = 0; d < source->axes.size(); ++d) point.insert_or_assign(source->axes[d].name, read.arg(d));
    add_parts(padded.arg(0), point, conditions);
  }
  return conditions;
}

Expr summed_term(const Expr& body) {
  const bool conditional = body.op() == Op::kSelect && body.arg(2).op() == Op::kFloatImm && body.arg(2)->number == 0;
  return conditional ? body.arg(1) : body;
}

bool uses_axis(const Expr& read, const std::string& axis) {
  return std::ranges::any_of(read->args, [&](const Expr& index) { return uses_var(index, axis); });
}

int64_t position_distance(const Expr& read, const std::string& pixel, const std::string& position) {
  int64_t distance = 0;
  for (const Expr& index : read->args) {
    if (!uses_var(index, position)) continue;
    if (distance != 0 || coefficient_of(index, pixel) != 1) return 0;
    distance = coefficient_of(index, position).value_or(0);
  }
  return std::max<int64_t>(0, distance);
}

int dim_of_axis(const Expr& read, const std::string& axis) {
  for (size_t d = 0; d < read->args.size(); ++d) {
    if (read.arg(d).is_var() && read.arg(d)->name == axis) return static_cast<int>(d);
  }
  return -1;
}

}  // namespace tw::te
