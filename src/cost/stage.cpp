#include "cost/stage.h"

#include <algorithm>

#include "cost/calibrated.h"
#include "expr/elementary.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::cost {
namespace {

double cycles_of(const Expr& e) {
  if (e.op() == Op::kLoad) return 1;  // addresses cost nothing: they are counters
  double cycles = 0;
  for (const Expr& arg : e->args) cycles += cycles_of(arg);
  if (e->args.empty()) return 0;
  if (e.op() == Op::kCall) return cycles + (e->name == kPhilox ? kRandomCycles : kFunctionCycles);
  return cycles + (e.op() == Op::kDiv && e.type().is_float() ? kDivisionCycles : 1);
}

// Of all compute units together, their beginning and end included.
double shared_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  const int64_t units = std::max(1, target.compute_units);
  const auto working = static_cast<int>(std::min(tiles, units));
  const double share = static_cast<double>(ceil_div(tiles, units)) / static_cast<double>(tiles);
  return nest_ns(nest, arithmetic_ns, target, working) * share + target.fork_join_ns;
}

bool can_be_shared(int64_t tiles, const TargetInfo& target) { return tiles > 1 && target.compute_units > 1; }

}  // namespace

double body_cycles(const te::Compute& compute) {
  double cycles = 1;
  for (const Expr& body : compute.body) cycles += cycles_of(body);
  return cycles;
}

double run_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  const double serial_ns = nest_ns(nest, arithmetic_ns, target, 1);
  if (!can_be_shared(tiles, target)) return serial_ns;
  return std::min(serial_ns, shared_ns(nest, arithmetic_ns, tiles, target));
}

bool threads_pay(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  if (!can_be_shared(tiles, target)) return true;  // nothing is lost
  const double serial_ns = nest_ns(nest, arithmetic_ns, target, 1);
  // One thread computes what is short, next to what comes before and behind it.
  if (serial_ns > kShortRegions * target.fork_join_ns) return true;
  return shared_ns(nest, arithmetic_ns, tiles, target) < kSharedWorthIt * serial_ns;
}

Nest streaming_nest(const te::Program& program, const te::Compute& output, const std::vector<te::Axis>& reduced) {
  Nest nest;
  nest.axes = output.axes;
  nest.axes.insert(nest.axes.end(), reduced.begin(), reduced.end());
  for (const te::Tensor& out : output.outputs)
    nest.accesses.push_back(make_access(out, out(te::variables(output.axes)), nest.axes));
  for (const te::Compute& c : program.computes) {
    te::visit_reads(c, [&](const Expr& read) {
      const Access access = make_access(program.tensor(read->name), read, nest.axes);
      const auto same = [&](const Access& a) { return a.tensor == access.tensor; };
      if (program.find_compute(read->name) == nullptr && std::ranges::none_of(nest.accesses, same))
        nest.accesses.push_back(access);
    });
  }
  for (size_t a = 0; a < nest.axes.size(); ++a) nest.loops.push_back({a, nest.axes[a].extent, 1});
  return nest;
}

}  // namespace tw::cost
