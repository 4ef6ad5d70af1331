// How a Winograd convolution is cut into blocks: enumerated, ranked by a closed-form model.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "cost/register_tile.h"

namespace tw::construct {

/// An axis that input tiles and output tiles have in common besides the plane: images, or depths.
struct WinogradRows {
  int64_t outputs = 1;
  int64_t inputs = 1;  // more than outputs for depths that a sum of several filter positions reads
};

struct WinogradProblem {
  int64_t m = 2;
  std::vector<WinogradRows> rows;
  int64_t tiles_high = 1, tiles_wide = 1;  // of m x m outputs, of a plane
  int64_t channels = 1, out_channels = 1;
  int64_t kernel_depth = 1;  // depths that are summed over
  int64_t lanes = 1;
  int64_t points() const { return (m + 2) * (m + 2); }
};

/// Which loop is outside in the storage of transformed tiles and of products: the block of channels and then tiles, so
/// that the points of a tile are stored together, or points, so that the matrix of a point does.
enum class WinogradOrder : uint8_t { kTiles, kPoints };

/// A block is rows x high x wide tiles by `channels` output channels. Tiles of a block are neighbours: it has whole
/// rows of tiles (wide = tiles_wide) or lies in one (high = 1).
struct WinogradBlocks {
  std::vector<int64_t> rows;  // of each of WinogradProblem::rows
  int64_t high = 1, wide = 1;
  int64_t channels = 1;       // a multiple of the register tile's columns
  bool tiles_before = false;  // the input is transformed before, by a kernel of its own
  WinogradOrder order = WinogradOrder::kTiles;
  cost::RegisterTile tile;  // outer: of the last of `rows`; inner: of the tiles of a block
  double predicted_ns = 0;  // all of it, on all cores
  std::vector<std::string> trace;
};

/// The `limit` best ways that the model finds, best first; at least one.
/// Time = arithmetic of the products (register tiles) and of both transforms, plus the share of the traffic that is not
/// hidden: transformed tiles and products to and fro, lines that are stored scattered. Weights pass by once a block of
/// tiles beside all that: the longer of the two, plus a share of the shorter.
std::vector<WinogradBlocks> block_winograd(const WinogradProblem& problem, const TargetInfo& target, size_t limit);

}  // namespace tw::construct
