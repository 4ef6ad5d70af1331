// Groups of contractions that follow one another become one where the rows of the last one are better computed, a block
// at a time, where they are read (schedule/match/chain.h): what passes between them then stays in the near caches.
// Attention without a tensor of all scores.
//
// Decided by bytes: between groups a value is written to and read from the level that holds all of it; inside one, from
// the level that holds a block. What blocks compute twice (halos) counts as time at the peak rate. On GPUs, attention
// that fits the memory of a tile saves two kernels and their traffic; of products one after the other the times as one
// kernel and as one for each are compared.
//
// There a reduction that alone reads a contraction's rows belongs to its group, too, where that saves more than the
// products that it costs: rows of a part do not fill tiles, or parts are too few for all SMs. On CPUs where reading the
// rows again takes longer than passing them through the caches near the unit.
#include <algorithm>
#include <limits>

#include "cost/units.h"
#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "schedule/match/tile_chain.h"
#include "support/math.h"
#include "te/reads.h"
#include "transform/fuse/cluster_order.h"
#include "transform/fuse/clusters.h"
#include "transform/fuse/group_program.h"
#include "transform/fuse/product_chains.h"
#include "transform/group.h"
#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr size_t kMaxGroups = 4;                            // that become one
constexpr int64_t kColumns = 64;                            // of a tile
constexpr std::string_view kReducedRule = "rows-combined";  // the name of a rule

// What one block of a chain does, and how many blocks there are.
struct Blocks {
  double rows = 1;  // of one, along the axis that is cut
  double count = 1;
  double filled = 1;         // the same when the last one of a row counts for the part that it fills
  double batches = 1;        // of these, with second operands of their own
  double scratch_bytes = 0;  // between the segments of one block
  double operand_bytes = 0;  // second operands of its contractions
  double products = 0;
};

void add_contractions(const te::Program& block, Blocks& blocks) {
  for (const te::Compute& c : block.computes) {
    const Result<schedule::Contraction> match = schedule::match_contraction(c);
    if (!match.ok()) continue;
    blocks.products += schedule::count_products(*match);
    double elements = static_cast<double>(match->column.extent);
    for (const te::Axis& r : c.reduce_axes) elements *= static_cast<double>(r.extent);
    blocks.operand_bytes += elements * static_cast<double>(block.tensor(match->b->name).type.bytes());
  }
}

Blocks cut_rows(const schedule::Chain& chain, int64_t rows) {
  const te::Compute& last = *chain.program.find_compute(chain.last);
  const schedule::Contraction match = *schedule::match_contraction(last);
  const te::Axis& blocked = match.rows[match.rows.size() - std::min<size_t>(2, match.rows.size())];
  Blocks blocks;
  std::map<std::string, int64_t> extents;
  for (const te::Axis& axis : match.batch) {
    extents[axis.name] = 1;
    blocks.batches *= static_cast<double>(axis.extent);
  }
  for (const te::Axis& axis : match.rows) extents[axis.name] = axis.name == match.rows.back().name ? axis.extent : 1;
  extents[blocked.name] = std::min(rows, blocked.extent);
  blocks.rows = static_cast<double>(extents[blocked.name]);
  for (const te::Axis& axis : last.axes) {
    if (extents.count(axis.name) == 0) continue;
    blocks.count *= static_cast<double>(ceil_div(axis.extent, extents[axis.name]));
    blocks.filled *= static_cast<double>(axis.extent) / static_cast<double>(extents[axis.name]);
  }
  const te::Program block = schedule::block_program(chain, extents);
  blocks.scratch_bytes = static_cast<double>(schedule::bytes_between(chain, block));
  add_contractions(block, blocks);
  return blocks;
}

// Whether a contraction before the last one keeps its speed in blocks: its second operand belongs to the batch of the
// last one, too (attention), or to the channel (depthwise), at unit stride. Measured (docs/internals/adr/0012): weights
// that all blocks read again cost more than what passes by costs in the third cache, and a window of stride 2 reads
// four times what it passes on.
bool keeps_speed(const schedule::Contraction& match, const schedule::Contraction& last) {
  if (!match.a_uses_column) return !match.batch.empty() && !last.batch.empty();
  return std::ranges::none_of(match.a->args, [&](const Expr& index) {
    return std::ranges::any_of(match.rows, [&](const te::Axis& row) { return coefficient_of(index, row.name) > 1; });
  });
}

// Whether neighbouring rows of a contraction read parts of the same rows of its operand: blocks would compute them
// twice.
bool reads_windows(const schedule::Contraction& match) {
  const auto uses_any = [](const Expr& index, const std::vector<te::Axis>& axes) {
    return std::ranges::any_of(axes, [&](const te::Axis& axis) { return uses_var(index, axis.name); });
  };
  return std::ranges::any_of(match.a->args, [&](const Expr& index) {
    return uses_any(index, match.rows) && uses_any(index, match.compute->reduce_axes);
  });
}

// Why the contractions of `chain` would not keep their speed in blocks; empty where they would.
std::string slower_in_blocks(const schedule::Chain& chain) {
  const auto contraction = [&](const std::string& sum) {
    return *schedule::match_contraction(*chain.program.find_compute(sum));
  };
  const schedule::Contraction last = contraction(chain.last);
  if (reads_windows(last)) return fmt::format("{} reads windows: blocks of such are not tried", chain.last);
  for (const schedule::ChainSegment& segment : chain.segments) {
    if (!segment.sum.empty() && !keeps_speed(contraction(segment.sum), last))
      return fmt::format("{} would read all of its second operand again in each block", segment.sum);
  }
  return "";
}

// What does not depend on blocks.
struct Whole {
  double products = 0;
  double between_bytes = 0;  // from one segment to the next
};

struct BlockCosts {
  Blocks blocks;
  double inside_ns = 0, operands_ns = 0, lost_ns = 0;
  double together_ns() const { return inside_ns + operands_ns + lost_ns; }
};

BlockCosts cost_of(const Blocks& blocks, const Whole& whole, const TargetInfo& target) {
  const double again = std::max(0.0, blocks.products * blocks.filled - whole.products);
  BlockCosts costs = {blocks};
  costs.inside_ns = 2 * whole.between_bytes / cost::read_rate(target, blocks.scratch_bytes, cost::kCacheShare);
  costs.operands_ns = cost::kExposedTraffic * (blocks.count - blocks.batches) * blocks.operand_bytes /
                      cost::read_rate(target, blocks.operand_bytes, cost::kKeptShare);
  costs.lost_ns = 2 * (again + cost::kBlockLoss * whole.products) / target.flop_per_ns;
  return costs;
}

// The cheapest of the blocks, from `lowest` on, that have no more than `room` bytes between their segments; nothing
// where the lowest have more.
std::optional<BlockCosts> cheapest_blocks(const schedule::Chain& chain, const Blocks& lowest, const Whole& whole,
                                          const TargetInfo& target) {
  const double room = cost::kCacheShare * static_cast<double>(target.levels[1].capacity_bytes);
  std::optional<BlockCosts> best;
  for (Blocks blocks = lowest; blocks.scratch_bytes <= room;) {
    const BlockCosts costs = cost_of(blocks, whole, target);
    if (!best || costs.together_ns() <= best->together_ns()) best = costs;
    const Blocks higher = cut_rows(chain, 2 * static_cast<int64_t>(blocks.rows));
    if (higher.rows <= blocks.rows) break;
    blocks = higher;
  }
  return best;
}

// Whether `chain` in blocks that L2 holds takes less time than with all that passes between its segments in memory.
// Where each segment costs a launch, it always does. What is compared is left in `compared`.
RuleResult pays(const schedule::Chain& chain, const TransformContext& context, Numbers& compared) {
  const TargetInfo& target = context.target;
  if (target.kind == DeviceKind::kCuda) {
    const bool alone = chain.program.outputs.size() == 1;
    if (alone && (is_by_thread(chain.program) || is_by_block(chain.program, target))) return kChainRule;
    if (const std::string reason = schedule::why_tile_declined(chain, target); !reason.empty())
      return because(kChainRule, "{}", reason);
    if (schedule::is_products(chain)) {
      if (context.variant == kProductsApart)
        return because(kChainRule, "the products were measured to be faster apart");
      return pays_as_products(chain, target, compared);
    }
    compared = {{"between_bytes", static_cast<double>(schedule::bytes_between(chain, chain.program))}};
    return Rule(kChainRule);
  }
  if (target.levels.size() < 3 || target.flop_per_ns <= 0)
    return because(kChainRule, "nothing is known of the caches of {}", target.name);
  if (const std::string slower = slower_in_blocks(chain); !slower.empty()) return because(kChainRule, "{}", slower);
  const int64_t tile_rows = std::max(1, target.vector_registers / 2);  // of a register tile, at most
  const Blocks lowest = cut_rows(chain, tile_rows);
  Blocks all;
  add_contractions(chain.program, all);
  const Whole whole = {all.products, static_cast<double>(schedule::bytes_between(chain, chain.program))};
  const std::optional<BlockCosts> best = cheapest_blocks(chain, lowest, whole, target);
  if (!best) {
    compared = {{"block_bytes", lowest.scratch_bytes},
                {"cache_bytes", static_cast<double>(target.levels[1].capacity_bytes)}};
    return because(kChainRule, "a block of {} rows passes on more than L2 keeps", lowest.rows);
  }
  const double apart_ns = 2 * whole.between_bytes / cost::read_rate(target, whole.between_bytes, cost::kKeptShare) +
                          static_cast<double>(chain.segments.size()) * target.barrier_ns;
  compared = {{"apart_ns", apart_ns},
              {"together_ns", best->together_ns()},
              {"inside_ns", best->inside_ns},
              {"operands_ns", best->operands_ns},
              {"lost_ns", best->lost_ns},
              {"blocks", best->blocks.count},
              {"block_rows", best->blocks.rows},
              {"block_bytes", best->blocks.scratch_bytes}};
  if (apart_ns > best->together_ns()) return kChainRule;
  return because(kChainRule, "blocks of rows take no less time than what passes between the parts takes in memory");
}

// Whether a product whose tiles pass their rows through a near cache, to be combined there, takes less time than one
// whose rows are read again.
RuleResult pays_near(const schedule::ReducedProduct& match, const TransformContext& context, Numbers& compared) {
  const TargetInfo& target = context.target;
  if (const std::string reason = schedule::why_near_declined(match); !reason.empty())
    return because(kReducedRule, "{}", reason);
  if (target.levels.size() < 3 || target.flop_per_ns <= 0)
    return because(kReducedRule, "nothing is known of the caches of {}", target.name);
  const schedule::Contraction sum = *schedule::match_contraction(*match.program.find_compute(match.segment.sum));
  const te::Tensor& value = match.program.tensor(match.segment.output());
  const auto bytes = static_cast<double>(num_elements(value.shape) * value.type.bytes());
  const double passes = match.program.is_output(value.name) ? 1 : 2;
  const double saved_ns = passes * bytes / cost::read_rate(target, bytes, cost::kKeptShare) + target.barrier_ns;
  const double near_ns =
      2 * bytes /
      cost::read_rate(target, cost::kCacheShare * static_cast<double>(target.levels[1].capacity_bytes),
                      cost::kCacheShare);
  const double lost_ns = cost::kBlockLoss * 2 * schedule::count_products(sum) / target.flop_per_ns;
  compared = {{"apart_ns", saved_ns}, {"together_ns", near_ns + lost_ns}, {"inside_ns", near_ns}, {"lost_ns", lost_ns}};
  if (context.variant == kAlways || near_ns + lost_ns < saved_ns) return kReducedRule;
  return because(kReducedRule,
                 "rows that pass through L2, in tiles cut from parts, take no less time than to write "
                 "all and read them again");
}

// Whether tiles that combine their rows take less time than a tensor of all rows, written and read.
RuleResult pays(const schedule::ReducedProduct& match, const TransformContext& context, Numbers& compared) {
  const schedule::Contraction sum = *schedule::match_contraction(*match.program.find_compute(match.segment.sum));
  const te::Tensor& value = match.program.tensor(match.segment.output());
  const SmRates& sm = context.target.sm;
  const bool by_matrix = sum.a.type().is_half() || sum.tf32;
  const double products = schedule::count_products(sum) * (by_matrix ? 1 : sm.warp_products / sm.thread_products);
  const double saved = (match.program.is_output(value.name) ? 1 : 2) * sm.warp_products / sm.dram_share *
                       static_cast<double>(num_elements(value.shape) * value.type.bytes());
  int64_t tiles = num_elements(value.shape) / value.shape.back() * ceil_div(value.shape.back(), kColumns);
  for (const size_t d : match.rows) tiles /= value.shape[d];
  double min = std::numeric_limits<double>::infinity();  // products that tiles of fewer rows lose
  for (const auto& [part, filled] : match.parts) {
    const int64_t all = part * tiles, units = std::max(1, context.target.compute_units);
    const double busy = static_cast<double>(all) / static_cast<double>(round_up(all, units));
    min = std::min(min, products * (1 / (filled * busy) - 1));
  }
  compared = {{"saved_products", saved}, {"lost_products", min}};
  if (context.variant == kAlways || min < saved) return kReducedRule;
  return because(kReducedRule, "tiles of the rows of one sum leave SMs idle for longer than the traffic takes");
}

class ChainFuser {
 public:
  // Of chains, which end in a contraction, or of contractions before a reduction.
  ChainFuser(const Graph& graph, const TransformContext& context, Role last)
      : graph_(graph),
        context_(context),
        last_(last),
        producers_(graph.producers()),
        readers_(graph.consumers()),
        order_(graph) {}

  // The groups of each chain, by node, in order.
  std::vector<std::vector<int>> run() {
    std::vector<std::vector<int>> chains;
    for (auto n = static_cast<int>(graph_.nodes.size()) - 1; n >= 0; --n) {
      if (is_taken(n) || !has(last_, n)) continue;
      std::vector<int> chain = best_chain({n});
      if (chain.empty()) continue;
      for (size_t i = chain.size() - 1; i-- > 0;) order_.unite(order_.of(chain[i]), order_.of(chain[i + 1]));
      chains.push_back(std::move(chain));
    }
    return chains;
  }

 private:
  bool is_taken(int n) const { return order_.members(order_.of(n)).size() > 1; }

  // Whether `role` is that of node `n`, or of one in its group.
  bool has(Role role, int n) const {
    const Node& node = graph_.nodes[n];
    const auto holds = [&](const Node& inner) { return role_of(context_.ops, inner) == role; };
    return node.is_group() ? std::ranges::any_of(node.body->nodes, holds) : holds(node);
  }

  // `chain` and those before it, as many as pay together; of several before one group the first that leads to some.
  std::vector<int> best_chain(const std::vector<int>& chain) {
    if (chain.size() == (last_ == Role::kReduction ? 2 : kMaxGroups)) return {};
    for (const int p : producers_read_by(chain)) {
      const std::vector<int> longer = joined(std::vector{p}, chain);
      std::vector<int> best = best_chain(longer);
      if (!best.empty()) return best;
      if ((has(Role::kContraction, p) || may_be_operand(p, longer)) && pays_as_group(longer)) return longer;
    }
    return {};
  }

  // Whether element-wise `p` may be computed where a contraction reads it: raced, for its kernel then copies its
  // operand by threads, not by TMA.
  bool may_be_operand(int p, const std::vector<int>& chain) const {
    const bool asked = last_ == Role::kContraction && context_.variant == kOperandsComputed && chain.size() == 2;
    return asked && has(Role::kElementwise, p) && !has(Role::kReduction, p);
  }

  // Nodes that only `chain` reads and that compute what its first node reads. Rows that a reduction combines may leave
  // the group besides.
  std::vector<int> producers_read_by(const std::vector<int>& chain) {
    const auto inside = [&](int n) { return std::ranges::find(chain, n) != chain.end(); };
    std::vector<int> found;
    for (const ValueId in : graph_.nodes[chain.front()].inputs) {
      const int p = in == kAbsent ? -1 : producers_[in];
      if (p < 0 || is_taken(p)) continue;
      const bool alone = graph_.nodes[p].outputs.size() == 1;
      const bool only_here = !graph_.is_output(in) && std::ranges::all_of(readers_[in], inside);
      const bool may_leave = alone && last_ == Role::kReduction;
      const bool fits = (only_here && alone) || ((only_here || may_leave) && is_apart(p, chain));
      if (fits && computes(p)) found.push_back(p);
    }
    return found;
  }

  // Whether what `p` computes may leave the group of `chain` besides: no path leads from it there through others.
  bool is_apart(int p, const std::vector<int>& chain) {
    const auto leads_back = [&](int reader) {
      const int from = order_.of(reader);
      return std::ranges::any_of(chain, [&](int n) {
        const bool reads = std::ranges::any_of(graph_.nodes[n].inputs, [&](ValueId in) {
          return in != kAbsent && producers_[in] >= 0 && order_.of(producers_[in]) == from;
        });
        return reads || order_.between(from, order_.of(n)) != ClusterOrder::kNone;
      });
    };
    return std::ranges::all_of(graph_.nodes[p].outputs, [&](ValueId out) {
      return std::ranges::all_of(readers_[out], [&](int reader) {
        return std::ranges::find(chain, reader) != chain.end() || !leads_back(reader);
      });
    });
  }

  // Whether node `p` has stages worth a place in a chain: not a copy, not what no te describes.
  bool computes(int p) const {
    return has(Role::kContraction, p) || has(Role::kReduction, p) || has(Role::kElementwise, p);
  }

  // Asks whether `chain` pays as one group, and leaves the answer with each edge inside. A decline is one of rows that
  // one group hands to the next: of a residual pass fuse has said more.
  bool pays_as_group(const std::vector<int>& chain) const {
    Numbers compared;
    const RuleResult rule = pays(chain, compared);
    if (context_.log == nullptr) return rule.ok();
    const auto name = [&](int n) { return graph_.nodes[n].name; };
    Why why = !rule.ok()            ? because(rule.why().rule, "{} and {} as one kernel: {}", name(chain.front()),
                                              name(chain.back()), rule.why().text)
              : *rule == kChainRule ? because(*rule, "its rows are computed, a block at a time, where they are read")
                                    : because(*rule, "the tiles that compute the rows combine them{}",
                                              context_.variant == kAlways ? ": what was measured to be faster" : "");
    why.numbers = std::move(compared);
    for (size_t i = 0; i < chain.size(); ++i) {
      for (const ValueId in : graph_.nodes[chain[i]].inputs) {
        const int p = in == kAbsent ? -1 : producers_[in];
        if (std::ranges::find(chain, p) == chain.end()) continue;
        if (!rule.ok() && !is_answered(chain, i, in)) continue;
        context_.log->say_of_group(rule.ok() ? EdgeFate::kFused : EdgeFate::kApart, graph_, in, graph_.nodes[chain[i]],
                                   why);
      }
    }
    return rule.ok();
  }

  // Whether a decline of `chain` is one of the edge by which `value` comes to node `i` of it: the last one, of which no
  // more is known than that its ends are apart.
  bool is_answered(const std::vector<int>& chain, size_t i, ValueId value) const {
    const Node& reader = graph_.nodes[chain[i]];
    const Why* said = context_.log->find_of_group(EdgeFate::kApart, graph_, value, reader);
    return i + 1 == chain.size() && producers_[value] == chain[i - 1] && feeds_rows(value, chain[i]) &&
           (said == nullptr || said->rule != "layout");
  }

  // Whether only node `r` reads `value`, and nothing there that follows its sums: a residual is added behind them.
  bool feeds_rows(ValueId value, int r) const {
    if (last_ == Role::kReduction) return true;
    if (graph_.is_output(value) || !std::ranges::all_of(readers_[value], [&](int n) { return n == r; })) return false;
    const Node& group = graph_.nodes[r];
    if (!group.is_group()) return true;
    bool summed = false;
    for (const Node& inner : group.body->nodes) {
      for (size_t i = 0; summed && i < group.inputs.size(); ++i) {
        const bool reads = std::ranges::find(inner.inputs, group.body->inputs[i]) != inner.inputs.end();
        if (group.inputs[i] == value && reads) return false;
      }
      summed = summed || role_of(context_.ops, inner) == Role::kContraction;
    }
    return true;
  }

  // What is combined besides: rows of a reduction, or what an attention has of each row.
  bool may_leave_more() const { return last_ == Role::kReduction || context_.target.kind == DeviceKind::kCuda; }

  RuleResult pays(const std::vector<int>& chain, Numbers& compared) const {
    const std::string_view name = last_ == Role::kReduction ? kReducedRule : kChainRule;
    const Graph merged = merge_groups(graph_, {chain});
    const auto group = std::ranges::find_if(merged.nodes, [&](const Node& node) {
      return node.is_group() &&
             merged.value(node.outputs.back()).name == graph_.value(graph_.nodes[chain.back()].outputs[0]).name;
    });
    if (group == merged.nodes.end() || (!may_leave_more() && group->outputs.size() != 1))
      return because(name, "several values would leave the group");
    const auto winograd = std::ranges::find(group->body->nodes, "winograd_conv", &Node::op);
    if (winograd != group->body->nodes.end())
      return because(name, "{} is a Winograd convolution: its tiles are no rows", winograd->name);
    std::map<std::string, std::string> nodes;
    const te::Program program = stored_program(*group->body, context_.ops, &nodes);
    RuleResult rule = pays(program, compared);
    if (rule.ok()) return rule;
    Why why = rule.why();
    why.text = graph::in_words_of_graph(why.text, nodes);
    return why;
  }

  RuleResult pays(const te::Program& program, Numbers& compared) const {
    if (last_ == Role::kReduction) {
      const bool is_gpu = context_.target.kind == DeviceKind::kCuda;
      const Result<schedule::ReducedProduct> match =
          is_gpu ? schedule::match_reduced_product(program, cost::kMinFilled) : schedule::match_combined_rows(program);
      if (!match.ok()) return because(kReducedRule, "{}", match.reason());
      return is_gpu ? transform::pays(*match, context_, compared) : pays_near(*match, context_, compared);
    }
    if (context_.variant == kOperandsComputed && computes_operand(program)) return Rule("operand");
    schedule::Schedule inlined;
    const Result<schedule::Chain> match = schedule::match_chain(schedule::inline_chain(inlined, program));
    if (!match.ok()) return because(kChainRule, "{}", match.reason());
    return transform::pays(*match, context_, compared);
  }

  const Graph& graph_;
  const TransformContext& context_;
  Role last_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
  ClusterOrder order_;  // of the nodes, where chains are one
};

}  // namespace

Graph fuse_chains(const Graph& graph, const TransformContext& context) {
  const Graph sorted = graph::compact(graph);
  return merge_groups(sorted, ChainFuser(sorted, context, Role::kContraction).run());
}

Graph fuse_reductions(const Graph& graph, const TransformContext& context) {
  const Graph sorted = graph::compact(graph);
  return merge_groups(sorted, ChainFuser(sorted, context, Role::kReduction).run());
}

}  // namespace tw::transform
