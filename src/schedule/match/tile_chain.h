// Chains whose rows the threads of one tile of a GPU compute: attention, and products one after the other.
#pragma once
#include <string>
#include <vector>

#include "core/target_info.h"
#include "schedule/match/chain.h"

namespace tw::schedule {

/// Why the threads of a tile cannot compute rows of `chain` in the memory that they share; empty when they can. They
/// do where rows of 16-bit floats are a product, its elements are combined along each row, and multiply others.
std::string why_tile_declined(const Chain& chain, const TargetInfo& target);

/// Whether all that stands between the products of `chain` is computed point by point.
bool is_products(const Chain& chain);
/// Why a tile cannot pass rows of all columns of each product on to the next; empty when it can.
std::string why_resident_declined(const Chain& chain, const TargetInfo& target);
/// Columns of each of them but the last: at most.
inline constexpr int64_t kMaxResidentColumns = 256;

/// Why the last product cannot multiply what the others leave a block of columns at a time; empty when it can. All but
/// the last one have the same rows and columns, and the last one's left operand is made of them point by point.
std::string why_blockwise_declined(const Chain& chain, const TargetInfo& target);
/// Registers of a thread of a warp that has `rows` times 16 rows of `columns` of the result and, beside them, of
/// `steps` at a time the sums of `products` and the 16 bits that are made of them.
int64_t blockwise_registers(int64_t rows, int64_t steps, int64_t products, int64_t columns);

/// What leaves `chain` besides its output: of an attention what there is once a row, its maximum or what is made of one
/// of its sums.
std::vector<std::string> row_outputs(const Chain& chain);

/// The stage that is the maximum of the rows between the two products; empty when there is none.
std::string maximum_of(const Chain& chain);
/// Registers of a thread of a warp that has `rows` times 16 rows, of which it holds its part in f32: `columns` of the
/// result, and beside them a block's scores, over `keys`, which become exponentials and these 16 bits. So many are
/// there at most.
int64_t streamed_registers(int64_t rows, int64_t keys, int64_t columns);
inline constexpr int64_t kMaxStreamedRegisters = 250;

/// Blocks of rows that a tile computes, one after the other, with second operands that it reads once: at most.
inline constexpr int64_t kMaxRowBlocks = 16;

/// Shared memory that a tile of such a chain takes at most: all of both second operands, and its rows.
int64_t tile_bytes(const Chain& chain, int64_t rows, int64_t warps);

}  // namespace tw::schedule
