// Chains on GPUs whose rows are read block by block: attention of any length.
#pragma once
#include <string>

#include "construct/gpu/product_loops.h"
#include "schedule/match/tile_chain.h"
#include "te/axes.h"
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

}  // namespace tw::construct
