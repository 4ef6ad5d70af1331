#include "transform/fuse/product_chains.h"

#include "cost/calibrated.h"
#include "cost/gpu_chains.h"
#include "cost/gpu_rows.h"
#include "schedule/match/stages.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::transform {
namespace {

// Of all that `program` reads and leaves, each element once.
double io_bytes(const te::Program& program) {
  int64_t bytes = 0;
  const auto add = [&](const te::Tensor& t) { bytes += num_elements(t.shape) * t.type.bytes(); };
  for (const te::Tensor& t : program.inputs) add(t);
  for (const std::string& name : program.outputs) add(program.tensor(name));
  return static_cast<double>(bytes);
}

}  // namespace

RuleResult pays_as_products(const schedule::Chain& chain, const TargetInfo& target, Numbers& compared) {
  constexpr int64_t kTileRows = 64;  // of the smallest tile
  const schedule::Contraction match = *schedule::match_contraction(*chain.program.find_compute(chain.last));
  const int64_t rows = te::num_points(match.rows), batch = te::num_points(match.batch);
  if (2 * rows <= kTileRows) return because(kChainRule, "the rows fill no more than half of a tile");
  const SmRates& sm = target.sm;
  const double rate = sm.group_products > 0 ? cost::kGroupsReached * sm.group_products : sm.warp_products;
  double apart_ns = 0, cycles = 0, bytes = 0;
  const auto add = [&](const te::Program& segment, const std::string& sum) {
    const schedule::Contraction product = *schedule::match_contraction(*segment.find_compute(sum));
    const double own = schedule::count_products(product), moved = io_bytes(segment);
    apart_ns += cost::kernel_ns(own / rate, moved, cost::kApartUnoverlapped, target);
    cycles += own / (cycles == 0 ? rate : sm.warp_products), bytes += moved;
  };
  for (const schedule::ChainSegment& s : chain.segments) {
    if (!s.sum.empty()) add(schedule::segment_program(chain.program, s), s.sum);
  }
  te::Program last = chain.program;
  std::erase_if(last.computes, [&](const te::Compute& c) { return chain.contains(c.name()); });
  last.inputs.push_back(chain.program.tensor(chain.segments.back().output()));
  std::erase_if(last.inputs, [&](const te::Tensor& t) {
    return std::ranges::none_of(last.computes, [&](const te::Compute& c) { return te::count_reads(c, t.name) > 0; });
  });
  add(last, chain.last);
  const auto between = static_cast<double>(schedule::bytes_between(chain, chain.program));
  // Tiles of whole rows: no split along columns or steps gives idle SMs some of their work.
  const int64_t tiles = batch * ceil_div(rows, kTileRows), units = std::max(1, target.compute_units);
  cycles *= static_cast<double>(round_up(tiles, units)) / static_cast<double>(tiles);
  const double together_ns = cost::kernel_ns(cycles, bytes - 2 * between, cost::kTogetherUnoverlapped, target);
  compared = {{"apart_ns", apart_ns}, {"together_ns", together_ns}, {"between_bytes", between}};
  if (together_ns < cost::kTogetherWorthIt * apart_ns) return kChainRule;
  return because(kChainRule, "one kernel takes hardly less time than one for each product");
}

bool is_by_thread(const te::Program& program) {
  schedule::Schedule inlined;
  const Result<schedule::RowProgram> rows = schedule::row_program(inlined, program);
  return rows.ok() && schedule::why_not_by_thread(*rows).empty();
}

bool is_by_block(const te::Program& program, const TargetInfo& target) {
  schedule::Schedule inlined;
  const Result<schedule::RowProducts> rows = schedule::match_row_products(inlined, program, target);
  return rows.ok() && cost::why_products_apart(*rows, target).empty();
}

bool computes_operand(const te::Program& program) {
  constexpr int64_t kMaxColumns = 256;
  const te::Compute* sum = schedule::find_contraction(program);
  if (sum == nullptr || schedule::match_contraction(*sum)->column.extent > kMaxColumns) return false;
  const auto reductions = std::ranges::count_if(program.computes, &te::Compute::is_reduction);
  return reductions == 1 && std::ranges::any_of(program.computes, [&](const te::Compute& c) {
           return schedule::is_computed_operand(program, c);
         });
}

}  // namespace tw::transform
