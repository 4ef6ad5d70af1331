#include "schedule/reduced_product.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "schedule/chain.h"
#include "schedule/stages.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::schedule {
namespace {

constexpr int64_t kLeastRows = 16;   // of a tile
constexpr int64_t kMostRows = 128;   // which tiles of all kinds may have
constexpr int64_t kMostParts = 128;  // that a thread adds one by one
constexpr double kLeastFilled = 0.6;

// The stage that `reduction` reads, at one point each time.
Result<const te::Compute*> read_by(const te::Program& program, const te::Compute& reduction, const te::Compute& sum) {
  const te::Compute* value = nullptr;
  bool same = true;
  te::visit_reads(reduction, [&](const Expr& load) {
    const te::Compute* source = program.find_compute(load->name);
    same = same && source != nullptr && (value == nullptr || value == source) &&
           std::ranges::all_of(load->args, [](const Expr& index) { return index.is_var(); });
    value = source;
  });
  if (!same || value == nullptr || (value != &sum && !te::depends_on(program, *value, sum.name())))
    return declined("{} reads more than the result of {}", reduction.name(), sum.name());
  for (const te::Compute& c : program.computes) {
    if (&c != &reduction && te::count_reads(c, value->name()) > 0)
      return declined("{} is read by {} too", value->name(), c.name());
  }
  return value;
}

// The dim of the value that each axis of `reduction` runs along.
std::map<std::string, size_t> dims_read(const te::Compute& reduction) {
  std::map<std::string, size_t> dims;
  te::visit_reads(reduction, [&](const Expr& load) {
    for (size_t d = 0; d < load->args.size(); ++d) dims[load.arg(d)->name] = d;
  });
  return dims;
}

std::vector<int64_t> parts_of(const te::Compute& value, const std::vector<size_t>& rows) {
  int64_t beside = 1;  // rows at each point of the first axis
  for (size_t i = 1; i < rows.size(); ++i) beside *= value.axes[rows[i]].extent;
  const int64_t extent = value.axes[rows.front()].extent;
  std::vector<int64_t> parts;
  for (int64_t count = 1; count <= std::min(extent, kMostParts); ++count) {
    const int64_t part = extent / count * beside;
    const auto filled = static_cast<double>(part) / static_cast<double>(rows_of_tile(part));
    if (extent % count == 0 && part <= kMostRows && filled >= kLeastFilled) parts.push_back(count);
  }
  return parts;
}

// Finds the stages, by name.
Result<ReducedProduct> find_stages(const te::Program& program) {
  const te::Compute* sum = find_contraction(program);
  if (sum == nullptr) return declined("no sum of products");
  const te::Compute* reduction = nullptr;
  for (const te::Compute& c : program.computes) {
    if (has_empty_axis(c)) return declined("{} has an axis of extent 0", c.name());
    if (&c == sum || !c.is_reduction()) continue;
    if (reduction != nullptr) return declined("{} is a second reduction", c.name());
    reduction = &c;
  }
  if (reduction == nullptr) return declined("no reduction of the rows of {}", sum->name());
  if (reduction->outputs.size() != 1 || reduction->axes.empty())
    return declined("{} has no columns or several results", reduction->name());
  const Result<const te::Compute*> value = read_by(program, *reduction, *sum);
  if (!value.ok()) return Reason{value.reason()};
  const Result<std::string> output = epilogue_output(program, *reduction);
  if (!output.ok()) return Reason{output.reason()};
  ReducedProduct found{program, {}, sum->name(), (*value)->name(), reduction->name(), *output, {}, {}, {}};
  for (const te::Compute& c : program.computes) {
    const bool behind = &c == sum || te::depends_on(program, c, found.sum);
    if (behind && (&c == *value || te::depends_on(program, **value, c.name()))) found.stages.push_back(c.name());
  }
  const Result<std::string> end = epilogue_output(segment_program(program, {found.sum, found.stages}), *sum);
  if (!end.ok()) return Reason{end.reason()};
  return found;
}

// The order that brings dim `d` of `rank` to the end.
Layout last(size_t d, size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + static_cast<int64_t>(d), order.begin() + static_cast<int64_t>(d) + 1, order.end());
  return Layout().reorder(std::move(order));
}

}  // namespace

int64_t rows_of_tile(int64_t rows) {
  return std::max(kLeastRows, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))));
}

Result<ReducedProduct> match_reduced_product(const te::Program& program) {
  Result<ReducedProduct> found = find_stages(program);
  if (!found.ok()) return found;
  ReducedProduct out = std::move(found).value();
  const te::Compute& reduction = *program.find_compute(out.reduction);
  const size_t rank = program.tensor(out.value).shape.size();
  const std::map<std::string, size_t> read = dims_read(reduction);
  const auto column = read.find(reduction.axes.back().name);
  if (column == read.end() || read.size() != rank) return declined("{} has columns of its own", out.reduction);
  if (column->second + 1 != rank) {
    for (const std::string& stage : out.stages) out.layouts[stage] = last(column->second, rank);
    out.program = te::apply_layouts(program, out.layouts);
  }
  const te::Compute& value = *out.program.find_compute(out.value);
  const Result<Contraction> match = match_contraction(*out.program.find_compute(out.sum));
  if (!match.ok()) return Reason{match.reason()};
  if (match->words || match->a_uses_column) return declined("{} multiplies no matrices", out.sum);
  const std::map<std::string, size_t> dims = dims_read(*out.program.find_compute(out.reduction));
  for (const te::Axis& r : out.program.find_compute(out.reduction)->reduce_axes) {
    const auto d = dims.find(r.name);
    if (d == dims.end() ||
        std::ranges::find(match->rows, match->compute->axes[d->second].name, &te::Axis::name) == match->rows.end())
      return declined("{} combines columns or batches of {}", out.reduction, out.value);
    out.rows.push_back(d->second);
  }
  out.parts = parts_of(value, out.rows);
  if (out.parts.empty()) return declined("parts of the rows of {} do not fill tiles", out.value);
  return out;
}

}  // namespace tw::schedule
