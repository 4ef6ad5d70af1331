#include "dataflow/expr_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tw::dataflow {

int ExprNumbers::of(size_t compute, const Expr& e) {
  const auto seen = seen_[compute].find(&*e);
  if (seen != seen_[compute].end()) return seen->second;
  Known known{{}, e.op() == Op::kLoad};
  std::string name = e->name;
  if (const int axis = e.is_var() ? classes_.of(compute, name) : -1; axis >= 0) {
    known.axes.insert(axis);
    name = fmt::format("axis {}", axis);
  }
  std::vector<int> args;
  for (const Expr& arg : e->args) {
    args.push_back(of(compute, arg));
    const Known& operand = known_[static_cast<size_t>(args.back())];
    known.axes.insert(operand.axes.begin(), operand.axes.end());
    known.reads = known.reads || operand.reads;
  }
  const std::string key = fmt::format("{} {} {} {} '{}' {}", static_cast<int>(e->op), to_string(e->type), e->value,
                                      e->number, name, fmt::join(args, ","));
  const auto [found, fresh] = numbers_.try_emplace(key, static_cast<int>(known_.size()));
  if (fresh) known_.push_back(std::move(known));
  seen_[compute][&*e] = found->second;
  return found->second;
}

double ExprNumbers::points(int number) const {
  double points = 1;
  for (const int axis : known_[static_cast<size_t>(number)].axes) points *= static_cast<double>(classes_.extent(axis));
  return points;
}

}  // namespace tw::dataflow
