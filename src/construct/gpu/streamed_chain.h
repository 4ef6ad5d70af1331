// Chains on GPUs whose rows are read block by block: attention of any length.
#pragma once
#include <string>

#include "construct/gpu/product_loops.h"
#include "schedule/match/tile_chain.h"
#include "te/axes.h"

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

/// Adds the schedules by tiles that read the keys block by block, where there are some: `base` with more behind it.
void add_streamed(const StreamedProducts& products, const Construction& base, const TargetInfo& target,
                  Candidates& candidates);

}  // namespace tw::construct
