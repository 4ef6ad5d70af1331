#include "cost/nest.h"

#include "cost/calibrated.h"
#include "expr/affine.h"
#include "expr/elementary.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::cost {
namespace {

constexpr int64_t kFallbackLine = 64;  // of targets without described caches

int64_t span_of(const AccessDim& dim, std::span<const int64_t> tile) {
  if (dim.terms.empty()) return 1;
  int64_t span = 1;
  for (const auto& [axis, coefficient] : dim.terms) span += std::abs(coefficient) * (tile[axis] - 1);
  return std::min(span, dim.extent);
}

bool depends(const Access& access, size_t axis) {
  return std::ranges::any_of(access.dims, [&](const AccessDim& dim) {
    return std::ranges::any_of(dim.terms, [&](const auto& term) { return term.first == axis; });
  });
}

// Bytes of one access: its part of the sub-nest from `first` inwards, for each iteration outside that changes it.
double access_traffic(const Nest& nest, const Access& access, size_t first, int64_t line_bytes) {
  const std::vector<int64_t> tile = covered(nest, first);
  double bytes = static_cast<double>(footprint_bytes(access, tile, line_bytes));
  bool stays = true;  // until a loop outside changes what is loaded
  for (size_t i = first; i-- > 0;) {
    stays = stays && !depends(access, nest.loops[i].axis);
    if (!stays) bytes *= static_cast<double>(nest.loops[i].trips);
  }
  return bytes;
}

bool fits(const Nest& nest, size_t first, int64_t capacity, int64_t line_bytes) {
  return footprint_bytes(nest, covered(nest, first), line_bytes) <= capacity;
}

// The nest with loop `at` split in two, so that as many of its iterations as fit are a loop of their own: what lies on
// one line is loaded once by a loop that walks along the line.
Nest tiled_to_fit(Nest nest, size_t at, int64_t capacity, int64_t line_bytes) {
  const NestLoop whole = nest.loops[at];
  nest.loops.insert(nest.loops.begin() + static_cast<std::ptrdiff_t>(at) + 1, whole);
  const auto tile = [&](int64_t inner) {
    nest.loops[at] = {whole.axis, ceil_div(whole.trips, inner), inner * whole.step};
    nest.loops[at + 1].trips = inner;
  };
  int64_t inner = 1;
  tile(inner);
  while (inner < whole.trips && (tile(2 * inner), fits(nest, at + 1, capacity, line_bytes))) inner *= 2;
  tile(std::min(inner, whole.trips));
  return nest;
}

double bandwidth(const MemoryLevel& level, int units) {
  if (!level.shared || units <= 1 || level.all_per_ns <= 0) return level.read_per_ns;
  return std::min(level.read_per_ns, level.all_per_ns / units);
}

double cycles_of(const Expr& e) {
  if (e.op() == Op::kLoad) return 1;  // addresses cost nothing: they are counters
  double cycles = 0;
  for (const Expr& arg : e->args) cycles += cycles_of(arg);
  if (e->args.empty()) return 0;
  if (e.op() == Op::kCall) return cycles + (e->name == kPhilox ? kRandomCycles : kFunctionCycles);
  return cycles + (e.op() == Op::kDiv && e.type().is_float() ? kDivisionCycles : 1);
}

// Of all compute units together, their beginning and end included.
double shared_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  const int64_t units = std::max(1, target.compute_units);
  const auto working = static_cast<int>(std::min(tiles, units));
  const double share = static_cast<double>(ceil_div(tiles, units)) / static_cast<double>(tiles);
  return nest_ns(nest, arithmetic_ns, target, working) * share + target.fork_join_ns;
}

bool can_be_shared(int64_t tiles, const TargetInfo& target) { return tiles > 1 && target.compute_units > 1; }

}  // namespace

Access make_access(const te::Tensor& tensor, const Expr& read, std::span<const te::Axis> axes) {
  Access access{tensor.name, tensor.type.bytes(), {}};
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    AccessDim dim{tensor.shape[d], {}};
    for (size_t a = 0; a < axes.size(); ++a) {
      if (!uses_var(read.arg(d), axes[a].name)) continue;
      // Where it is not linear one step may lead anywhere.
      dim.terms.emplace_back(a, coefficient_of(read.arg(d), axes[a].name).value_or(tensor.shape[d]));
    }
    access.dims.push_back(std::move(dim));
  }
  return access;
}

int64_t footprint_bytes(const Access& access, std::span<const int64_t> tile, int64_t line_bytes) {
  int64_t run = access.element_bytes;  // contiguous bytes
  bool whole = true;                   // so far all of every inner dimension
  int64_t runs = 1;
  for (size_t d = access.dims.size(); d-- > 0;) {
    const int64_t span = span_of(access.dims[d], tile);
    (whole ? run : runs) *= span;
    whole = whole && span == access.dims[d].extent;
  }
  return runs * round_up(run, line_bytes);
}

int64_t footprint_bytes(const Nest& nest, std::span<const int64_t> tile, int64_t line_bytes) {
  int64_t bytes = 0;
  for (const Access& access : nest.accesses) bytes += footprint_bytes(access, tile, line_bytes);
  return bytes;
}

std::vector<int64_t> covered(const Nest& nest, size_t first) {
  std::vector<int64_t> tile(nest.axes.size(), 1);
  for (size_t i = nest.loops.size(); i-- > first;) {
    const NestLoop& l = nest.loops[i];
    tile[l.axis] = std::min(nest.axes[l.axis].extent, l.trips * l.step);
  }
  return tile;
}

double traffic_bytes(const Nest& nest, int64_t capacity, int64_t line_bytes) {
  size_t first = 0;
  while (first < nest.loops.size() && !fits(nest, first, capacity, line_bytes)) ++first;
  const Nest tiled = first == 0 ? nest : tiled_to_fit(nest, first - 1, capacity, line_bytes);
  double bytes = 0;
  for (const Access& access : tiled.accesses) bytes += access_traffic(tiled, access, first, line_bytes);
  return bytes;
}

double nest_ns(const Nest& nest, double arithmetic_ns, const TargetInfo& target, int units) {
  double near_ns = 0;
  double deep_ns = 0;
  for (size_t i = 0; i + 1 < target.levels.size(); ++i) {
    const MemoryLevel& cache = target.levels[i];
    const int64_t share = cache.capacity_bytes / (cache.shared ? units : 1);
    const int64_t line = std::max(cache.line_bytes, kFallbackLine);
    const double bytes = traffic_bytes(nest, static_cast<int64_t>(kCacheShare * static_cast<double>(share)), line);
    const double from = bandwidth(target.levels[i + 1], units);
    if (from <= 0) continue;
    (i == 0 ? near_ns : deep_ns) += bytes / from;
  }
  return std::max(arithmetic_ns, near_ns) + kExposedTraffic * deep_ns;
}

double body_cycles(const te::Compute& compute) {
  double cycles = 1;
  for (const Expr& body : compute.body) cycles += cycles_of(body);
  return cycles;
}

double run_ns(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  const double serial_ns = nest_ns(nest, arithmetic_ns, target, 1);
  if (!can_be_shared(tiles, target)) return serial_ns;
  return std::min(serial_ns, shared_ns(nest, arithmetic_ns, tiles, target));
}

bool threads_pay(const Nest& nest, double arithmetic_ns, int64_t tiles, const TargetInfo& target) {
  if (!can_be_shared(tiles, target)) return true;  // nothing is lost
  const double serial_ns = nest_ns(nest, arithmetic_ns, target, 1);
  // One thread computes what is short, next to what comes before and behind it.
  if (serial_ns > kShortRegions * target.fork_join_ns) return true;
  return shared_ns(nest, arithmetic_ns, tiles, target) < kSharedWorthIt * serial_ns;
}

Nest streaming_nest(const te::Program& program, const te::Compute& output, const std::vector<te::Axis>& reduced) {
  Nest nest;
  nest.axes = output.axes;
  nest.axes.insert(nest.axes.end(), reduced.begin(), reduced.end());
  for (const te::Tensor& out : output.outputs)
    nest.accesses.push_back(make_access(out, out(te::variables(output.axes)), nest.axes));
  for (const te::Compute& c : program.computes) {
    te::visit_reads(c, [&](const Expr& read) {
      const Access access = make_access(program.tensor(read->name), read, nest.axes);
      const auto same = [&](const Access& a) { return a.tensor == access.tensor; };
      if (program.find_compute(read->name) == nullptr && std::ranges::none_of(nest.accesses, same))
        nest.accesses.push_back(access);
    });
  }
  for (size_t a = 0; a < nest.axes.size(); ++a) nest.loops.push_back({a, nest.axes[a].extent, 1});
  return nest;
}

}  // namespace tw::cost
