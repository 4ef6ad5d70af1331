// Which products of a GPU share a kernel: rows of a thread, of a block, of a tile, and operands that are computed.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/target_info.h"
#include "schedule/match/chain.h"
#include "support/why.h"

namespace tw::transform {

inline constexpr std::string_view kChainRule = "chain";  // the name of a rule

using Numbers = std::vector<std::pair<std::string, double>>;  // as Why::numbers

/// Whether the products of `chain`, one after the other, take less time in one kernel of a GPU than each in its own:
/// what passes between them does not pass through memory then. What is compared is left in `compared`.
RuleResult pays_as_products(const schedule::Chain& chain, const TargetInfo& target, Numbers& compared);

/// Whether rows are so short that a thread computes all of each.
bool is_by_thread(const te::Program& program);

/// Whether a block of a GPU computes a whole row of `program`: where rows are few, in less time than kernels that each
/// wait for the one before.
bool is_by_block(const te::Program& program, const TargetInfo& target);

/// Whether a stage of `program` is an operand of its only contraction, which has all columns in one tile.
bool computes_operand(const te::Program& program);

}  // namespace tw::transform
