// A contraction with its epilogue and a reduction of its rows that nothing else reads become one group
// (schedule/reduced_product.h): the value between them is combined where it is computed and never lies in memory.
//
// That saves its way there and back and, where a tile has all the rows that are combined, a kernel. It costs products
// where the rows of a part fill no tile or parts are too few for all units. Measuring decides, where it happens.
#include <algorithm>
#include <set>

#include "schedule/contraction.h"
#include "schedule/reduced_product.h"
#include "support/math.h"
#include "transform/group.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

// In cycles of one unit (NVIDIA H100).
constexpr double kMatrixProducts = 1024;  // a cycle
constexpr double kProducts = 128;         // of f32 that is not rounded
constexpr double kMemoryBytes = 15;       // a cycle, a unit's share
constexpr double kKernelCycles = 4000;    // a kernel more
constexpr int64_t kColumns = 64;          // of a tile

bool pays(const schedule::ReducedProduct& match, const TargetInfo& target) {
  const schedule::Contraction sum = *schedule::match_contraction(*match.program.find_compute(match.sum));
  const te::Tensor& value = match.program.tensor(match.value);
  const double rate = sum.a.type().is_half() || sum.tf32 ? kMatrixProducts : kProducts;
  const double products = schedule::count_products(sum) / rate;
  const double traffic = 2 * static_cast<double>(num_elements(value.shape) * value.type.bytes()) / kMemoryBytes;
  int64_t rows = 1;
  for (const size_t d : match.rows) rows *= value.shape[d];
  const int64_t others = num_elements(value.shape) / value.shape.back() / rows, units = std::max(1, target.units);
  return std::ranges::any_of(match.parts, [&](int64_t parts) {
    const int64_t part = rows / parts, tiles = others * parts * ceil_div(value.shape.back(), kColumns);
    const double filled = static_cast<double>(part) / static_cast<double>(schedule::rows_of_tile(part));
    const double busy = static_cast<double>(tiles) / static_cast<double>(round_up(tiles, units));
    const double saved = traffic + (parts == 1 ? kKernelCycles * units : 0);
    return products * (1 / (filled * busy) - 1) < saved;
  });
}

class ReductionFuser {
 public:
  ReductionFuser(const Graph& graph, const TransformContext& context)
      : graph_(graph), context_(context), producers_(graph.producers()), readers_(graph.consumers()) {}

  // Pairs of nodes.
  std::vector<std::vector<int>> run() const {
    std::vector<std::vector<int>> pairs;
    std::set<int> taken;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (!has(n, Role::kReduction) || has(n, Role::kContraction)) continue;
      for (const ValueId in : graph_.nodes[n].inputs) {
        const int p = in == kAbsent ? -1 : producers_[in];
        if (p < 0 || taken.contains(p) || taken.contains(n) || !may_take(p, n) || !fits({p, n})) continue;
        taken.insert({p, n});
        pairs.push_back({p, n});
      }
    }
    return pairs;
  }

 private:
  bool has(int n, Role role) const { return has_role(context_.ops, graph_.nodes[n], role); }

  // Whether `p` is a contraction that nobody but `n` reads.
  bool may_take(int p, int n) const {
    const std::vector<ValueId>& outputs = graph_.nodes[p].outputs;
    return has(p, Role::kContraction) && outputs.size() == 1 && !graph_.is_output(outputs[0]) &&
           std::ranges::all_of(readers_[outputs[0]], [&](int r) { return r == n; });
  }

  bool fits(const std::vector<int>& pair) const {
    const std::optional<te::Program> program = merged_program(graph_, pair, context_.ops);
    if (!program) return false;
    const Result<schedule::ReducedProduct> match = schedule::match_reduced_product(*program);
    return match.ok() && (context_.is_eager || pays(*match, context_.target));
  }

  const Graph& graph_;
  const TransformContext& context_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace

Graph fuse_reductions(const Graph& graph, const TransformContext& context) {
  if (context.target.kind != DeviceKind::kCuda) return graph;
  const Graph sorted = graph::compact(graph);
  return merge_groups(sorted, ReductionFuser(sorted, context).run());
}

}  // namespace tw::transform
