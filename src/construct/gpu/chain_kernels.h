// The kernels of chains on GPUs, each added to the candidates by a function of its own, and what those share that read
// operands block by block.
#pragma once
#include <string>

#include "construct/gpu/product_loops.h"
#include "cost/gpu_chains.h"
#include "schedule/match/tile_chain.h"
#include "te/online.h"

namespace tw::construct {

/// One product of a chain: `program` has nothing behind what it leaves.
struct Link {
  te::Program program;
  MatrixProduct product;
  int64_t m, n, k, batch;

  Link(te::Program p, const std::string& sum) : program(std::move(p)) {
    const te::Compute& c = *program.find_compute(sum);
    product = product_of(program, c, 1).value();
    m = extent_at(c, product.rows), n = extent_at(c, product.columns), batch = extent_at(c, product.batch);
    k = te::num_points(product.steps);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
};

using cost::StreamedTile, cost::StreamedWork;

/// Whether instructions of warp groups read so many columns of a product's right operand in one piece: steps beside
/// each other, a line for each column, or columns in one line.
bool reads_in_lines(const Link& link, int64_t columns, const TargetInfo& target);

/// Whether registers and shared memory hold a tile, and no more than half of one is empty.
bool fits(const StreamedTile& tile, const StreamedWork& work, const TargetInfo& target);

/// The tile of a product of `rows` by `warps`, all columns: warps have equal shares, one share after the other where
/// one would have too many.
ThreadBlockTile product_tile(int64_t columns, int64_t rows, int64_t warps);
/// The tile of a product with `columns` in the registers of a tile's own warps; and of the last one, whose columns are
/// stored in whole lines for warp groups.
ThreadBlockTile rows_tile(const StreamedTile& tile, int64_t columns);
ThreadBlockTile last_tile(const StreamedTile& tile, int64_t columns);

/// A chain of two products: the first one, and the last one with what it leaves.
struct StreamedProducts {
  const schedule::Chain& chain;
  const Link& scores;
  const MatrixProduct& output;
};

/// Adds the schedules of a Kernel that fits, for each of `shapes`, each with the blocks that cut_of(shape) says: `base`
/// with more behind it.
template <typename Kernel, typename Shapes, typename CutOf>
void add_by_blocks(const StreamedProducts& products, const Shapes& shapes, const CutOf& cut_of,
                   const Construction& base, const TargetInfo& target, Candidates& candidates) {
  const std::string maximum = schedule::maximum_of(products.chain);
  if (maximum.empty()) return;
  for (const auto& shape : shapes) {
    const Result<te::Online> online = te::online(products.chain.program, maximum, cut_of(shape));
    if (!online.ok()) return;
    Kernel kernel(products, *online, shape, target);
    if (!kernel.fits()) continue;
    candidates.push_back(base);
    kernel.schedule(candidates.back());
  }
}

/// Adds the schedules by tiles that read the keys block by block, where there are some: `base` with more behind it.
void add_streamed(const StreamedProducts& products, const Construction& base, const TargetInfo& target,
                  Candidates& candidates);

/// Adds the schedules by tiles of all rows with a part of the keys each, whose results a second kernel combines: `base`
/// with more behind it. None where rows fill tiles.
void add_split(const StreamedProducts& products, const Construction& base, const TargetInfo& target,
               Candidates& candidates);

/// Adds the schedules by tiles that compute what the last product multiplies block by block of its steps, where there
/// are some: `base` with more behind it.
void add_blockwise(const schedule::Chain& chain, const Construction& base, const TargetInfo& target,
                   Candidates& candidates);

/// Adds the schedules by tiles that hold rows of all products of `chain`: `base` with more behind it.
void add_resident(const schedule::Chain& chain, const GroupTask& task, const Construction& base,
                  const TargetInfo& target, Candidates& candidates);

}  // namespace tw::construct
