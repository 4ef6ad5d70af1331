#include "cost/gpu_rows.h"

#include "cost/units.h"
#include "support/math.h"

namespace tw::cost {
namespace {

// Cycles in which an SM reads the inputs of a row.
double read_cycles(const schedule::RowProducts& rows, const TargetInfo& target) {
  return static_cast<double>(rows.row_bytes) / l2_by_threads(target);
}

}  // namespace

double thread_rows_ns(const schedule::RowProgram& rows, int64_t count, const TargetInfo& target) {
  int64_t terms = 0;
  for (const te::Compute& c : rows.program.computes)
    terms += te::num_points(c.axes) / count * te::num_points(c.reduce_axes);
  const double warps = static_cast<double>(count) / kWarpThreads / std::max(1, target.compute_units);
  const double cycles = kThreadTermCycles * static_cast<double>(terms) * std::max(1.0, warps);
  return (target.sm.kernel_cycles + cycles) / target.sm.cycles_per_ns;
}

bool sums_by_warps(const schedule::RowProducts& rows, const te::Compute& c) {
  const int64_t elements = rows.elements(c), count = c.reduce_axes[0].extent;
  const int64_t shared = ceil_div(count, kWarpThreads * rows.term_lanes(c)) + kCombinedTerms;
  const int64_t apart = ceil_div(elements, rows.threads * rows.lanes) * count;
  return elements / rows.warps(c) * shared < apart;
}

double row_products_ns(const schedule::RowProducts& rows, const TargetInfo& target) {
  const double waits = kNextProductCycles * static_cast<double>(rows.products);
  return (target.sm.kernel_cycles + waits + read_cycles(rows, target)) / target.sm.cycles_per_ns;
}

std::string why_products_apart(const schedule::RowProducts& rows, const TargetInfo& target) {
  const bool apart = read_cycles(rows, target) > target.sm.kernel_cycles * static_cast<double>(rows.products);
  return apart ? "one SM reads the operands of a row for longer than kernels wait for each other" : "";
}

double scatter_ns(const ScatterWork& work, const TargetInfo& target) {
  const double warps = static_cast<double>(work.threads * work.resident) / kWarpThreads;
  const auto at_once = static_cast<double>(std::max(1, target.compute_units) * work.resident);
  const double rounds = std::max(1.0, static_cast<double>(work.blocks) / at_once);
  const double all = static_cast<double>(work.indices) * std::max(kIndexLatencyCycles, kIndexIssueCycles * warps);
  const double cycles = rounds * (work.by_lanes ? all / kWarpThreads + work.hits * kHitCycles : all);
  return cycles / target.sm.cycles_per_ns;
}

}  // namespace tw::cost
