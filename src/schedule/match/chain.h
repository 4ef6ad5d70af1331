// Chains: a contraction whose rows are computed, a block of rows at a time, by contractions, windows and reductions
// before it in the same group. Attention: scores, softmax, product with the values.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "schedule/match/contraction.h"
#include "schedule/schedule.h"
#include "support/error.h"

namespace tw::schedule {

/// Stages that are tiled together: a contraction with its epilogue, or row reductions with the stages around them.
struct ChainSegment {
  std::string sum;                  // the contraction; empty: rows
  std::vector<std::string> stages;  // in order; readers outside read the last one only
  const std::string& output() const { return stages.back(); }
};

struct Chain {
  te::Program program;                    // with `layouts`
  std::map<std::string, Layout> layouts;  // of stages: axes of the last contraction's rows come first, in its order
  std::string last;                       // the last contraction
  std::string output;                     // stage that owns its tiles
  std::vector<ChainSegment> segments;     // before the last contraction, in order

  bool contains(const std::string& stage) const;  // as a stage of one of the segments
};

/// Inlines what need not be a stage of a chain: all that is read once, except operands of contractions, what padding
/// reads, and what is computed once a row.
te::Program inline_chain(Schedule& s, const te::Program& program);

/// The chain that `program`, after inline_chain, is; or why it cannot be computed block by block.
Result<Chain> match_chain(const te::Program& program);

/// The program of one block: axes that are batch or row axes of the last contraction have the extents that a block of
/// its output needs, `block` for its own. Inputs keep their shapes. For models, and for loops inside the block.
te::Program block_program(const Chain& chain, const std::map<std::string, int64_t>& block);

/// Bytes that pass from one segment to the next, and to the last contraction, in a program of the chain.
int64_t bytes_between(const Chain& chain, const te::Program& block);

/// A contraction whose rows a reduction, which alone reads them in the group, combines: means over pixels or tokens.
/// The rows may leave the group, too.
struct ReducedProduct {
  te::Program program;                    // with `layouts`
  std::map<std::string, Layout> layouts;  // of the segment's stages: columns come last
  ChainSegment segment;                   // the contraction and its epilogue
  std::string reduction, output;          // which keeps the columns, and what follows it point by point
  std::vector<size_t> rows;               // dims of the segment's output that are combined, as the reduction's axes
  std::map<int64_t, double> parts;        // into which the first of them may be cut; how much of a tile one fills
};

/// Without parts.
Result<ReducedProduct> match_combined_rows(const te::Program& program);

/// Why a unit of a CPU does not compute the rows in the caches near it; empty when it does.
std::string why_near_declined(const ReducedProduct& match);

/// With the parts whose rows fill tiles of a GPU, at least `min_filled` of one; declines where there are none.
Result<ReducedProduct> match_reduced_product(const te::Program& program, double min_filled);

/// Whether a segment sums or combines elements: more than point by point.
bool is_heavy(const te::Program& program, const ChainSegment& segment);

/// The stages of a segment as a program of their own.
te::Program segment_program(const te::Program& program, const ChainSegment& segment);

}  // namespace tw::schedule
