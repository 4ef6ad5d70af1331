// Products of few rows, one after the other, on GPUs: a block has a row, and all stages of it in shared memory. What
// squeeze and excite is (Hu et al. 2018): two products of a few images' means, too small to fill tiles of matrices, and
// each a launch of its own elsewhere.
#include "construct/construct.h"
#include "construct/elementwise.h"
#include "cost/gpu_rows.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::construct {
namespace {

using schedule::RowProducts;

// Constants are stored so that neighbouring threads read neighbours: along the terms that lanes share, or along the
// elements of which each thread has some.
std::map<std::string, Layout> constant_layouts(const RowProducts& plan, const GroupTask& task) {
  std::map<std::string, Layout> layouts;
  for (const te::Compute& c : plan.rows.program.computes) {
    if (!c.is_reduction() || c.axes.size() <= plan.rows.rows) continue;
    const bool by_warps = cost::sums_by_warps(plan, c);
    const std::string& along = (by_warps ? c.reduce_axes[0] : c.axes[plan.rows.rows]).name;
    te::visit_reads(c, [&](const Expr& read) {
      const int dim = te::dim_of_axis(read, along);
      if (task.kept.contains(read->name) && dim >= 0 && dim + 1 < static_cast<int>(read->args.size()))
        layouts[read->name] = dim_last(read->args.size(), dim);
    });
  }
  return layouts;
}

class BlockRow {
 public:
  BlockRow(const RowProducts& plan, schedule::Schedule& s) : plan_(plan), s_(s) {}

  void run() {
    const te::Compute& output = plan_.rows.program.computes.back();
    std::vector<std::string> tiles = te::axis_names(output.axes);
    tiles.resize(plan_.rows.rows);
    std::vector<std::pair<std::string, const te::Compute*>> stages;  // from the last one to the first
    for (auto c = plan_.rows.program.computes.rbegin(); c != plan_.rows.program.computes.rend(); ++c) {
      const bool in_threads = c->is_reduction() && by_threads(*c);
      if (in_threads) s_.cache_write(c->name());
      if (c->name() != output.name()) s_.compute_at(c->name(), output.name(), tiles.back(), loop::Scope::kStack);
      if (in_threads || !c->is_reduction()) map_elements(*c);
      if (c->is_reduction()) in_threads ? sum_in_threads(*c) : sum_in_warps(*c);
    }
    s_.parallel(output.name(), tiles);
  }

 private:
  bool by_threads(const te::Compute& c) const { return !cost::sums_by_warps(plan_, c); }
  int64_t lanes(const te::Compute& c) const { return plan_.elements(c) % plan_.lanes == 0 ? plan_.lanes : 1; }
  std::string element(const te::Compute& c) const { return c.axes[plan_.rows.rows].name; }

  // Elements over all threads, neighbours in one.
  void map_elements(const te::Compute& c) {
    const std::string e = element(c);
    s_.split(c.name(), e, {plan_.threads, lanes(c)});
    s_.reorder(c.name(), {e + ".1", e + ".0", e + ".2"});
    s_.threads(c.name(), e + ".1");
    s_.vectorize(c.name(), e + ".2");
  }

  // In registers of the thread that has the elements.
  void sum_in_threads(const te::Compute& c) {
    constexpr int64_t kTogether = 8;  // terms on their way
    const std::string sums = c.name() + ".acc", e = element(c), r = c.reduce_axes[0].name;
    s_.compute_at(sums, c.name(), e + ".0", loop::Scope::kRegister);
    s_.split(sums, e, {lanes(c)}).split(sums, r, {kTogether});
    s_.reorder(sums, {e + ".0", r + ".0", r + ".1", e + ".1"});
    s_.unroll(sums, r + ".1").vectorize(sums, e + ".1");
  }

  // A warp an element at a time.
  void sum_in_warps(const te::Compute& c) {
    const std::string e = element(c), r = c.reduce_axes[0].name;
    const int64_t together = plan_.term_lanes(c);
    s_.split(c.name(), e, {plan_.warps(c)}).split(c.name(), r, {kWarpThreads, together});
    s_.reorder(c.name(), {e + ".0", e + ".1", r + ".1", r + ".0", r + ".2"});
    s_.threads(c.name(), e + ".1").threads(c.name(), r + ".1").vectorize(c.name(), r + ".2");
  }

  const RowProducts& plan_;
  schedule::Schedule& s_;
};

}  // namespace

Result<Candidates> construct_row_products(const GroupTask& task, const TargetInfo& target) {
  Construction out;
  schedule::Schedule unstored;
  const Result<RowProducts> plan = schedule::match_row_products(unstored, task.program, target);
  if (!plan.ok()) return Reason{plan.reason()};
  out.constant_layouts = constant_layouts(*plan, task);
  const Result<RowProducts> stored =
      schedule::match_row_products(out.schedule, te::apply_layouts(task.program, out.constant_layouts), target);
  if (!stored.ok()) return Reason{stored.reason()};
  if (const std::string reason = cost::why_products_apart(*stored, target); !reason.empty())
    return declined("{}", reason);
  BlockRow(*stored, out.schedule).run();
  out.predicted_ns = cost::row_products_ns(*stored, target);
  out.trace = {fmt::format("a row by {} threads, all products of it", stored->threads)};
  return Candidates{std::move(out)};
}

}  // namespace tw::construct
