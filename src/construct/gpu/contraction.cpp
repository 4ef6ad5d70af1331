// Sums of products on devices whose tiles have threads: matrix products, convolutions, their batched and grouped forms.
// Every one becomes a product of two matrices (kMatrices). A tile of sums lies in registers; its operands pass through
// memory that its threads share, a block of steps at a time, with whatever padding and gathering their maths says done
// on the way.
#include "schedule/match/contraction.h"

#include <algorithm>
#include <set>

#include "construct/column_sums.h"
#include "construct/gpu/product_loops.h"
#include "core/model_units.h"
#include "schedule/match/stages.h"
#include "te/reads.h"

namespace tw::construct {
namespace {

// Results lie in shared memory until all of a tile are there. Then warps store lines of them: threads that hold sums
// would each store single elements, of many lines at a time, where lines begin between words.
void schedule_kept(const StoredProduct& in, const BlockTile& tile, const TargetInfo& target, Construction& out) {
  const std::string root = in.product.output, kept = root + ".acc";
  schedule::Schedule caching;
  te::Program program = schedule::rewritten(in.program, caching.cache_write(root));
  std::erase_if(program.computes, [&](const te::Compute& c) { return c.name() == root; });
  program.outputs = {kept};
  Product product = in.product;
  product.output = kept;
  schedule::Schedule& s = out.schedule;
  s.cache_write(root);
  ProductLoops loops(program, product, tile, target, s);
  loops.make_matrices();
  const std::vector<std::string> tiles = loops.cut_lines(root);
  s.parallel(root, tiles);
  s.compute_at(kept, root, tiles.back(), loop::Scope::kStack, kBankBytes / tile.kept_bytes);
  loops.cut_output();
  loops.attach_all(root, tiles.back());
  out.trace = {loops.describe() + ", stored by lines"};
}

// The schedule of a kernel that is `product`.
void schedule_product(const StoredProduct& in, const BlockTile& tile, const TargetInfo& target, Construction& out) {
  if (tile.kept_bytes > 0) return schedule_kept(in, tile, target, out);
  const Product& p = in.product;
  schedule::Schedule& s = out.schedule;
  ProductLoops loops(in.program, p, tile, target, s);
  loops.make_matrices();
  const std::vector<std::string> tiles = loops.cut_output();
  std::vector<int64_t> factors = {tile.row_cluster * tile.column_cluster};
  if (tile.units > 0) factors.insert(factors.end(), {tile.units, tile.together});
  if (tile.units == 0 && factors.front() == 1) factors.clear();
  s.parallel(p.output, tiles, factors);
  loops.attach_all(p.output, tiles.back());
  out.trace = {loops.describe()};
}

// One tile of one way to sum.
struct Choice {
  const StoredProduct* product;
  BlockProblem problem;
  BlockTile tile;
  double cycles;
};

// The schedule of the kernel that adds the parts of sums.
Result<schedule::Schedule> adding(const te::Program& rest, const TargetInfo& target) {
  const Result<Candidates> columns = add_parts_on_gpu({rest, {}}, target);
  if (!columns.ok()) return Reason{columns.reason()};
  return columns->front().schedule;
}

// `whole`, and what of it can be summed in parts.
std::vector<StoredProduct> ways_to_sum(const StoredProduct& whole, const te::Program& program, const GroupTask& task,
                                       const TargetInfo& target) {
  std::vector<StoredProduct> ways = {whole};
  if (std::optional<StoredProduct> shared = with_taps(whole, program, task, target)) ways.push_back(*std::move(shared));
  for (const Parts& parts : parts_of(whole, problem_of(whole, task, target), target)) {
    StoredProduct split = stored(program, whole.product.sum, whole.layouts, parts);
    if (adding(split.rest, target).ok()) ways.push_back(std::move(split));
  }
  return ways;
}

// Tiles of all of them, best predicted first: at most half of them sum parts, the best of a kind for each count.
std::vector<Choice> choices_of(const std::vector<StoredProduct>& ways, const GroupTask& task,
                               const TargetInfo& target) {
  constexpr size_t kMost = 12, kMostSplit = 6;
  std::vector<Choice> all, chosen;
  for (const StoredProduct& way : ways) {
    const BlockProblem problem = problem_of(way, task, target);
    for (const BlockTile& tile : block_tiles(problem, target))
      all.push_back({&way, problem, tile, predicted_cycles(tile, problem, target)});
  }
  std::ranges::stable_sort(all, {}, &Choice::cycles);
  std::set<std::tuple<int64_t, bool, bool>> split;
  for (const Choice& c : all) {
    const bool whole = c.problem.parts == 1, clusters = c.tile.row_cluster * c.tile.column_cluster > 1;
    if (chosen.size() == kMost || (!whole && split.size() == kMostSplit)) continue;
    if (whole || split.insert({c.problem.parts, c.tile.boxes, clusters}).second) chosen.push_back(c);
  }
  return chosen;
}

}  // namespace

Result<Candidates> construct_gpu_contraction(const GroupTask& task, const TargetInfo& target) {
  Construction base;
  const te::Program program = schedule::inline_stages(base.schedule, task.program);
  const te::Compute* found = schedule::find_contraction(program);
  if (found == nullptr) return declined("no sum of products");
  const std::string name = found->name();
  if (schedule::has_empty_axis(*found)) return declined("{} has an axis of extent 0", name);
  for (const te::Compute& c : program.computes) {
    if (c.name() != name && !te::depends_on(program, c, name)) return declined("{} comes before {}", c.name(), name);
  }
  const Result<Product> product = product_of(program, *found);
  if (!product.ok()) return Reason{product.reason()};
  const std::vector<StoredProduct> ways =
      ways_to_sum(stored(program, name, constant_layouts(*product, *found, task), {}), program, task, target);
  Candidates candidates;
  for (const Choice& choice : choices_of(ways, task, target)) {
    const StoredProduct dealt = stored_for(choice.tile, *choice.product, program, task);
    Construction candidate = base;
    candidate.constant_layouts = dealt.layouts;
    if (dealt.parts.count > 1) {
      for (const schedule::Schedule& s : {dealt.split, adding(dealt.rest, target).value()}) {
        for (const schedule::Primitive& p : s.primitives()) candidate.schedule.add(p);
      }
    }
    schedule_product(dealt, choice.tile, target, candidate);
    if (dealt.parts.count > 1)
      candidate.trace.front() += fmt::format(", sums in {} parts, which a second kernel adds", dealt.parts.count);
    candidate.predicted_ns = choice.cycles / kCyclesPerNs;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace tw::construct
