// Recognises Winograd convolution in a te program (ops/winograd_conv.cpp) by its stages.
#pragma once
#include <string>
#include <vector>

#include "construct/cpu/winograd_blocks.h"
#include "schedule/match/contraction.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::construct {

/// Names of the stages: rows and tiles transform the input, products are the contraction, columns and the first stage
/// after it transform back. `pad` is empty when rows read the input itself. Of the way round: the energies of cells,
/// whether a tile is uneven, the inputs of each tile and their direct sums, which the first stage takes instead.
struct WinogradStages {
  std::string pad, rows, tiles, products, columns, first;
  std::string energies, uneven, patches, direct;
  /// Whether `name` is one of these but the first one after the columns.
  bool contains(const std::string& name) const;
};

/// The stages in `program`, before or after inlining of others; a reason when it is no Winograd convolution.
Result<WinogradStages> match_winograd(const te::Program& program);

/// Axes of the stages after the columns, by what they are.
struct WinogradAxes {
  std::vector<te::Axis> rows;  // that products have too: images, depths
  te::Axis high, wide;         // of the image
  te::Axis channel;
};

/// Declines where one of the axes is missing: dims of one element have disappeared.
Result<WinogradAxes> match_winograd_axes(const te::Program& program, const WinogradStages& stages);

/// What is to be cut into blocks.
WinogradProblem winograd_problem(const te::Program& program, const WinogradStages& stages, const WinogradAxes& axes,
                                 int64_t lanes);

/// The dimension of what `stage` reads that its last axis, the channel, indexes; -1 when it is none. All its reads are
/// of one tensor.
int channel_dim(const te::Compute& stage);

}  // namespace tw::construct
