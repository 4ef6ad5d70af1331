// The loops of one product of matrices by the threads of a tile: of a kernel that is one (gpu/contraction.cpp), and of
// those in a chain (gpu/chain.cpp). The sums are stored in registers, the operands in shared memory.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "construct/gpu/product.h"

namespace tw::construct {

/// An operand: that of the rows or that of the columns.
enum class Side : uint8_t { kLeft, kRight };

class ProductLoops {
 public:
  /// `product` is one of `program`, before any of this is applied to it; primitives are appended to `s`.
  ProductLoops(const te::Program& program, const MatrixProduct& product, const ThreadBlockTile& tile,
               const TargetInfo& target, schedule::Schedule& s);

  /// How an operand is stored in shared memory: [line, step], [step, line], or for warp groups in blocks of 128 bytes:
  /// [steps / block, line, block], [lines / block, step, block].
  enum class Lines : uint8_t { kBehindEachOther, kBesideEachOther, kBlocksOfSteps, kBlocksOfLines };

  /// The product as one of matrices, the sums as the tile's threads hold them.
  void make_matrices();
  void set_layout(Side side, Lines lines);
  /// Operands of a tile of warp groups that lie so in memory in blocks of lines, behind make_matrices().
  void read_in_blocks();
  /// Everything from the sum up to what comes out is computed where that is; make_matrices() does so, too.
  void inline_epilogue();
  /// Splits what comes out into tiles and threads. Returns the loops of tiles: of the batch, of rows, of columns.
  std::vector<std::string> tile_output();
  /// Splits these loops of `stage` into tiles, inside `around`, and its elements over threads as the sums lie. Returns
  /// the loops of tiles: of rows, of columns.
  std::vector<std::string> tile_as_sums(const std::string& stage, const std::string& rows, const std::string& columns,
                                        const std::vector<std::string>& around = {});
  /// Tiles `stage`, of one axis of rows and one of columns as what comes out, so that warps take lines of its tiles.
  /// Returns the loops of tiles.
  std::vector<std::string> tile_lines(const std::string& stage);
  /// The sums, in loop `loop` of what comes out. Returns their loop of k-blocks.
  std::string attach_sums(const std::string& stage, const std::string& loop);
  /// An operand in a loop of `stage`, `steps` of it, copied by all threads.
  void attach_operand(Side side, const std::string& stage, const std::string& loop, int64_t steps);

  /// An operand in a loop of `stage`, all of its steps, a block behind the other, copied by all threads.
  void attach_blocks(Side side, const std::string& stage, const std::string& loop);
  /// The same by TMA, where it can: `all` are the lines, or the steps where these are, of all turns.
  void fetch_blocks(Side side, const std::string& stage, const std::string& loop);
  bool may_fetch_blocks(Side side, int64_t all) const;
  /// The sums with both operands, a k-block at a time, under way as the tile says.
  void attach_all(const std::string& stage, const std::string& loop);
  std::string describe() const;
  /// These loops of a stage as one; its name.
  std::string fused(const std::string& stage, const std::vector<std::string>& names);

  const ThreadBlockTile& tile() const { return tile_; }
  std::string sums() const { return p_.sum + ".acc"; }
  const Expr& read(Side side) const { return side == Side::kLeft ? p_.match.a : p_.match.b; }
  std::string operand(Side side) const { return p_.sum + (side == Side::kLeft ? ".lhs" : ".rhs"); }
  int64_t line_extent(Side side) const {
    return ThreadBlockTile::extent(side == Side::kLeft ? tile_.rows : tile_.columns);
  }
  /// How accesses move the operand.
  OperandAccess access(Side side) const;

 private:
  // Pixels that a row of windows reads where filter positions share them, else those it has; and the rows of all of
  // them.
  int64_t pixels_read() const { return sum_.axes[p_.rows.back()].extent + tile_.halo + p_.halo; }
  int64_t rows_read() const { return extent_at(sum_, p_.rows) / sum_.axes[p_.rows.back()].extent * pixels_read(); }

  // The loops of an axis that is tiled: that of tiles, then one for each factor.
  struct TiledAxis {
    std::string tile;
    std::vector<std::pair<std::string, FactorKind>> factors;
  };

  bool by_matrix() const { return tile_.by_matrix(); }
  bool lies_in_blocks(Side side) const;
  Layout packed_lines() const;
  Layout sums_layout() const;
  TiledAxis split(const std::string& stage, const std::string& loop, const std::vector<Factor>& factors);
  Lines& lines(Side side) { return side == Side::kLeft ? left_ : right_; }
  // Elements beside each other of an operand in blocks, or of one k-block.
  int64_t block_elements(Side side) const;
  // How the sums' loop of steps is split: blocks of what lies in a line, where operands are stored so.
  std::vector<int64_t> step_extents() const;
  // Those of both, around which `batch` has some of products beside each other.
  static void add_threads(const TiledAxis& batch, const TiledAxis& row, const TiledAxis& column,
                          std::vector<std::string>& order);
  // Splits these loops of `stage` into tiles, inside `around`, and its elements over threads as the sums lie.
  std::vector<std::string> tile_as_sums(const std::string& stage, const TiledAxis& batch, const TiledAxis& row,
                                        const TiledAxis& column, const std::vector<std::string>& around);
  void split_pairs(TiledAxis& column);
  std::string tile_sums();

  const te::Program& program_;
  const te::Compute& sum_;
  const MatrixProduct& p_;
  const ThreadBlockTile& tile_;
  const TargetInfo& target_;
  size_t first_;  // the first axis of matrices behind the batch
  schedule::Schedule& s_;
  Lines left_, right_;
};

/// Elements of `bytes` that a line of warp groups' operands has.
int64_t line_elements(int64_t bytes);

}  // namespace tw::construct
