// Sums of products on GPUs: matrix products, convolutions, their batched and grouped forms. Every one becomes a product
// of two matrices (kMatrices). A tile of sums is stored in registers; its operands pass through shared memory, a
// k-block at a time, with whatever padding and gathering their maths says done on the way.

#include <algorithm>
#include <random>

#include "construct/column_sums.h"
#include "construct/gpu/product_loops.h"
#include "schedule/match/stages.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

// Operands that are computed are so as threads copy them.
void begin(ProductLoops& loops, const te::Program& program, schedule::Schedule& s) {
  loops.make_matrices();
  loops.read_in_blocks();
  for (const te::Compute& c : program.computes) {
    if (schedule::is_computed_operand(program, c)) s.inline_stage(c.name());
  }
}

// Results are stored in shared memory until all of a tile are there. Then warps store lines of them: threads that hold
// sums would each store single elements, of many lines at a time, where lines begin between words.
void schedule_kept(const StoredProduct& in, const ThreadBlockTile& tile, const TargetInfo& target, Construction& out) {
  const std::string root = in.product.output, kept = root + ".acc";
  schedule::Schedule caching;
  te::Program program = schedule::rewritten(in.program, caching.cache_write(root));
  std::erase_if(program.computes, [&](const te::Compute& c) { return c.name() == root; });
  program.outputs = {kept};
  MatrixProduct product = in.product;
  product.output = kept;
  schedule::Schedule& s = out.schedule;
  s.cache_write(root);
  ProductLoops loops(program, product, tile, target, s);
  begin(loops, program, s);
  const std::vector<std::string> tiles = loops.tile_lines(root);
  s.parallel(root, tiles);
  s.compute_at(kept, root, tiles.back(), loop::Scope::kStack, tile.kept_pad_bytes() / tile.kept_bytes);
  loops.tile_output();
  loops.attach_all(root, tiles.back());
  out.trace = {loops.describe() + ", stored by lines"};
}

// The schedule of a kernel that is `product`.
void schedule_product(const StoredProduct& in, const ThreadBlockTile& tile, const TargetInfo& target,
                      Construction& out) {
  if (tile.kept_bytes > 0) return schedule_kept(in, tile, target, out);
  const MatrixProduct& p = in.product;
  schedule::Schedule& s = out.schedule;
  ProductLoops loops(in.program, p, tile, target, s);
  begin(loops, in.program, s);
  const std::vector<std::string> tiles = loops.tile_output();
  std::vector<int64_t> factors = {tile.row_cluster * tile.column_cluster};
  if (tile.persistent_blocks > 0) factors.insert(factors.end(), {tile.persistent_blocks, tile.together});
  if (tile.persistent_blocks == 0 && factors.front() == 1) factors.clear();
  s.parallel(p.output, tiles, factors);
  loops.attach_all(p.output, tiles.back());
  out.trace = {loops.describe()};
}

// A tile of the whole sum, of shared filter positions or of a split-K.
struct Choice {
  const StoredProduct* product;
  GemmProblem problem;
  ThreadBlockTile tile;
  double cycles;
};

// The schedule of the kernel that adds the parts of sums.
Result<schedule::Schedule> adding(const te::Program& rest, const TargetInfo& target) {
  const Result<Candidates> columns = add_parts_on_gpu({rest, {}}, target);
  if (!columns.ok()) return Reason{columns.reason()};
  return columns->front().schedule;
}

// `whole`, and its split-K forms.
std::vector<StoredProduct> sums_of(const StoredProduct& whole, const te::Program& program, const GroupTask& task,
                                   const TargetInfo& target) {
  std::vector<StoredProduct> sums = {whole};
  if (std::optional<StoredProduct> shared = with_filter_positions(whole, program, task, target))
    sums.push_back(*std::move(shared));
  for (const SplitK& split_k : split_ks_of(whole, problem_of(whole, task, target), target)) {
    StoredProduct split = stored(program, whole.product.sum, whole.layouts, split_k);
    if (adding(split.rest, target).ok()) sums.push_back(std::move(split));
  }
  return sums;
}

// Whether tiles may have several products of a batch.
enum class Packing : uint8_t { kNone, kWhereNarrow };

// Tiles of all of them, best predicted first: at most half of them are split-K, the best of a kind for each count. Or
// any, drawn at random.
std::vector<Choice> choices_of(const std::vector<StoredProduct>& sums, const GroupTask& task, const TargetInfo& target,
                               Packing packing, const Sampling& sampling) {
  constexpr size_t kMax = 12, kMaxSplit = 6;
  std::vector<Choice> all, chosen;
  for (const StoredProduct& sum : sums) {
    GemmProblem problem = problem_of(sum, task, target);
    problem.packs = problem.packs && packing == Packing::kWhereNarrow;
    for (const ThreadBlockTile& tile : thread_block_tiles(problem, target, sampling))
      all.push_back({&sum, problem, tile, predicted_cycles(tile, problem, target)});
  }
  if (sampling.count > 0) {
    std::ranges::shuffle(all, std::mt19937_64(sampling.seed));
    all.resize(std::min(all.size(), sampling.count));
    return all;
  }
  std::ranges::stable_sort(all, {}, &Choice::cycles);
  std::set<std::tuple<int64_t, bool, bool>> split;
  for (const Choice& c : all) {
    const bool whole = c.problem.split_k == 1, clusters = c.tile.row_cluster * c.tile.column_cluster > 1;
    if (chosen.size() == kMax || (!whole && split.size() == kMaxSplit)) continue;
    if (whole || split.insert({c.problem.split_k, c.tile.tma, clusters}).second) chosen.push_back(c);
  }
  return chosen;
}

Result<Candidates> construct_product(const GroupTask& task, const TargetInfo& target, Packing packing,
                                     const Sampling& sampling = {}) {
  Construction base;
  const te::Program program = schedule::inline_stages(base.schedule, task.program, [&](const te::Compute& c) {
    return schedule::is_computed_operand(task.program, c);
  });
  const te::Compute* found = schedule::find_contraction(program);
  if (found == nullptr) return declined("no sum of products");
  const std::string name = found->name();
  if (schedule::has_empty_axis(*found)) return declined("{} has an axis of extent 0", name);
  for (const te::Compute& c : program.computes) {
    const bool is_operand = schedule::is_computed_operand(program, c);
    if (c.name() != name && !is_operand && !te::depends_on(program, c, name))
      return declined("{} comes before {}", c.name(), name);
  }
  const Result<MatrixProduct> product = product_of(program, *found);
  if (!product.ok()) return Reason{product.reason()};
  if (packing == Packing::kWhereNarrow && !product->packs) return declined("{} is no batch of narrow products", name);
  if (packing == Packing::kNone && product->narrow)
    return declined("{} is no product of matrices but of vectors", name);
  const std::vector<StoredProduct> sums =
      sums_of(stored(program, name, constant_layouts(*product, *found, task), {}), program, task, target);
  Candidates candidates;
  for (const Choice& choice : choices_of(sums, task, target, packing, sampling)) {
    const StoredProduct fitted = stored_for(choice.tile, *choice.product, program, task);
    Construction candidate = base;
    candidate.constant_layouts = fitted.layouts;
    if (fitted.split_k.count > 1) {
      for (const schedule::Schedule& s : {fitted.split, adding(fitted.rest, target).value()}) {
        for (const schedule::Primitive& p : s.primitives()) candidate.schedule.add(p);
      }
    }
    schedule_product(fitted, choice.tile, target, candidate);
    if (fitted.split_k.count > 1)
      candidate.trace.front() += fmt::format(", split-K by {}, added by a second kernel", fitted.split_k.count);
    candidate.predicted_ns = choice.cycles / target.sm.cycles_per_ns;
    candidates.push_back(std::move(candidate));
  }
  if (candidates.empty()) return declined("no tile of {} fits", name);
  return candidates;
}

}  // namespace

Result<Candidates> construct_gpu_contraction(const GroupTask& task, const TargetInfo& target) {
  return construct_product(task, target, Packing::kNone);
}

Result<Candidates> sample_gpu_contraction(const GroupTask& task, const TargetInfo& target, const Sampling& sampling) {
  return construct_product(task, target, Packing::kNone, sampling);
}

Result<Candidates> construct_gpu_packed(const GroupTask& task, const TargetInfo& target) {
  return construct_product(task, target, Packing::kWhereNarrow);
}

}  // namespace tw::construct
