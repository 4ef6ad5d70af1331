#include "construct/cpu/stage_cost.h"

#include <algorithm>

#include "expr/elementary.h"
#include "support/math.h"
#include "te/axes.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

constexpr double kDivisionCycles = 10;  // of one vector: division and root are not pipelined
constexpr double kFunctionCycles = 18;  // range reduction, polynomial, scaling
constexpr double kRandomCycles = 120;   // 20 products of words, each of both halves of the lanes

double cycles_of(const Expr& e) {
  if (e.op() == Op::kLoad) return 1;  // addresses cost nothing: they are counters
  double cycles = 0;
  for (const Expr& arg : e->args) cycles += cycles_of(arg);
  if (e->args.empty()) return 0;
  if (e.op() == Op::kCall) return cycles + (e->name == kPhilox ? kRandomCycles : kFunctionCycles);
  return cycles + (e.op() == Op::kDiv && e.type().is_float() ? kDivisionCycles : 1);
}

}  // namespace

double body_cycles(const te::Compute& compute) {
  double cycles = 1;
  for (const Expr& body : compute.body) cycles += cycles_of(body);
  return cycles;
}

double run_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  const double serial_ns = nest_ns(nest, arithmetic_ns, target, 1);
  const int64_t units = std::max(1, target.compute_units);
  tiles = std::max<int64_t>(1, tiles);
  const auto working = static_cast<int>(std::min(tiles, units));
  if (working == 1) return serial_ns;
  const double share = static_cast<double>(ceil_div(tiles, units)) / static_cast<double>(tiles);
  return std::min(serial_ns, nest_ns(nest, arithmetic_ns, target, working) * share + target.fork_join_ns);
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

}  // namespace tw::construct
