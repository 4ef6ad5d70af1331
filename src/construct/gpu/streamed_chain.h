// Chains on GPUs whose rows are read block by block: attention of any length.
#pragma once
#include <string>

#include "construct/gpu/product_loops.h"
#include "schedule/match/chain.h"
#include "te/axes.h"

namespace tw::construct {

/// One product of a chain: `program` has nothing behind what it leaves.
struct Link {
  te::Program program;
  MatrixProduct product;
  int64_t m, n, k, batch;

  Link(te::Program p, const std::string& sum) : program(std::move(p)) {
    const te::Compute& c = *program.find_compute(sum);
    product = product_of(program, c).value();
    m = extent_at(c, product.rows), n = extent_at(c, product.columns), batch = extent_at(c, product.batch);
    k = te::num_points(product.steps);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
};

/// Adds the schedules of `chain` by tiles that read its keys block by block, where schedule::streams(chain): `base`
/// with more behind it. `scores` is its first product, `output` the last one, with what it leaves.
void add_streamed(const schedule::Chain& chain, const Link& scores, const MatrixProduct& output,
                  const Construction& base, const TargetInfo& target, Candidates& candidates);

}  // namespace tw::construct
