#include "schedule/match/tile_chain.h"

#include "expr/analyzer.h"
#include "support/join.h"
#include "support/math.h"
#include "te/online.h"
#include "te/reads.h"

namespace tw::schedule {

namespace {

constexpr int64_t kMinLines = 8;   // of a matrix
constexpr int64_t kRows = 16;      // of an instruction, and its steps; a warp has no more of them along columns
constexpr int64_t kColumns = 8;    // of an instruction
constexpr int64_t kGap = 16;       // bytes between lines in shared memory
constexpr int64_t kWarps = 4;      // of the smallest tile
constexpr int64_t kMaxRows = 128;  // of a tile

// Why `sum` is no product of 16-bit matrices, of `min_rows` at least.
std::string why_product_declined(const te::Program& program, const std::string& sum, int64_t min_rows = kMinLines) {
  const Contraction m = *match_contraction(*program.find_compute(sum));
  const bool halves = m.a.type().is_half() && m.a.type() == m.b.type();
  if (!halves || m.words || m.compute->outputs[0].type != DataType::f32()) return sum + " multiplies no 16-bit floats";
  if (m.condition || m.a_uses_column) return sum + " is no product of two matrices";
  const bool small = te::num_points(m.rows) < min_rows || m.column.extent < kMinLines;
  return small ? sum + " is no product of matrices but of vectors" : "";
}

// Why `sum` has not `batch` axes in front of one of rows and one of columns.
std::string why_batches_declined(const te::Program& program, const std::string& sum, size_t batch) {
  const Contraction m = *match_contraction(*program.find_compute(sum));
  const auto of_both = [&](const te::Axis& axis) { return te::uses_axis(m.a, axis.name); };
  const bool fits = m.rows.size() == 1 && m.batch.size() == batch && std::ranges::all_of(m.batch, of_both);
  return fits ? "" : sum + " has not one axis of rows in each batch";
}

// Steps of the first product.
int64_t depth_of(const Chain& chain) {
  return te::num_points(chain.program.find_compute(chain.segments[0].sum)->reduce_axes);
}

// Why the stages are not rows of `length` elements, or one for each row, behind `rows` axes.
std::string why_rows_declined(const te::Program& program, size_t rows, int64_t length) {
  for (const te::Compute& c : program.computes) {
    const bool sums = c.is_reduction();
    bool fits = c.outputs.size() == 1 && c.axes.size() >= rows && c.axes.size() <= rows + (sums ? 0 : 1) &&
                (!sums || (c.reduce_axes.size() == 1 && c.reduce_axes[0].extent == length)) &&
                (c.axes.size() == rows || c.axes[rows].extent == length);
    te::visit_reads(c, [&](const Expr& load) {
      if (program.find_compute(load->name) == nullptr || load->args.size() <= rows) return;
      fits = fits && load.arg(static_cast<int>(rows)).is_var();
    });
    if (!fits) return c.name() + " has other elements than its rows";
  }
  const te::Compute& out = program.computes.back();
  return out.is_reduction() || out.axes.size() == rows ? out.name() + " has no elements" : "";
}

// Why a tile cannot read the keys block by block; empty when it can: a few of each operand fit shared memory then.
std::string why_streaming_declined(const Chain& chain, int64_t columns) {
  constexpr int64_t kMinKeys = 32, kMaxDepth = 256;
  const std::string maximum = maximum_of(chain);
  if (maximum.empty()) return "no maximum of the rows stands between the products";
  if (depth_of(chain) > kMaxDepth || streamed_registers(1, kMinKeys, columns) > kMaxStreamedRegisters)
    return fmt::format("{} has more columns, or {} more steps, than a warp holds", chain.last, chain.segments[0].sum);
  const Result<te::Online> online = te::online(chain.program, maximum, {.block = kMinKeys});
  return online.ok() ? "" : online.reason();
}

// Why a tile does not hold whole rows.
std::string why_whole_rows_declined(const Chain& chain, const TargetInfo& target) {
  const Contraction last = *match_contraction(*chain.program.find_compute(chain.last));
  const te::Tensor& scores = chain.program.tensor(chain.segments[0].output());
  int64_t rows = kRows;
  const auto fits = [&](int64_t n) { return tile_bytes(chain, n, kWarps) <= target.levels.front().capacity_bytes; };
  if (!fits(rows)) return "rows and operands do not fit shared memory";
  while (rows < kMaxRows && fits(2 * rows)) rows *= 2;
  // Where tiles are many, their operands come again and again in place of what passes through memory otherwise. Then a
  // tile computes several blocks of rows.
  const int64_t tiles = ceil_div(last.rows[0].extent, rows) * te::num_points(last.batch);
  rows *= std::clamp<int64_t>(tiles / std::max(1, target.compute_units), 1, kMaxRowBlocks);
  const int64_t half = last.a.type().bytes(), apart = 2 * rows * (scores.type.bytes() + half);
  if (tiles > target.compute_units && (depth_of(chain) + last.column.extent) * half > 2 * apart)
    return "tiles of so few rows read the operands too often";
  return "";
}

// Why rows of two products with a reduction of the rows between them are not computed by a tile.
std::string why_attention_declined(const Chain& chain, const TargetInfo& target) {
  const te::Program& program = chain.program;
  const auto& segments = chain.segments;
  for (const ChainSegment& s : segments) {
    if (!is_heavy(program, s))
      return s.output() + " stands between the products: not all that one multiplies is one row of the other";
  }
  if (segments.size() != 2 || segments[0].sum.empty() || !segments[1].sum.empty())
    return "a tile holds products one after the other, or two with a reduction of the rows between them";
  const Contraction last = *match_contraction(*program.find_compute(chain.last));
  for (const std::string& sum : {segments[0].sum, chain.last}) {
    if (std::string reason = why_batches_declined(program, sum, last.batch.size()); !reason.empty()) return reason;
    if (std::string reason = why_product_declined(program, sum, 1); !reason.empty()) return reason;
  }
  const te::Compute& scores = *program.find_compute(segments[0].output());
  const int64_t keys = scores.axes.back().extent;
  if (std::string reason = why_rows_declined(segment_program(program, segments[1]), last.batch.size() + 1, keys);
      !reason.empty())
    return reason;
  if (last.column.extent > kRows * kColumns * kWarps) return chain.last + " has more columns than a tile";
  if (last.compute->reduce_axes.size() != 1 || scores.outputs[0].shape.size() != last.batch.size() + 2)
    return "rows of several axes";
  const std::string streaming = why_streaming_declined(chain, last.column.extent);
  for (const std::string& name : row_outputs(chain)) {
    const te::Compute& c = *program.find_compute(name);
    if (!chain.contains(name) || c.axes.size() != last.batch.size() + 1) return name + " leaves the tiles besides";
    if (chain.layouts.contains(name)) return name + " leaves the tiles with its axes in another order";
    if (!streaming.empty()) return fmt::format("{} leaves the tiles besides, and {}", name, streaming);
  }
  const std::string whole = streaming.empty() ? "" : why_whole_rows_declined(chain, target);
  return whole.empty() ? "" : fmt::format("{}, and block by block of a row: {}", whole, streaming);
}

// Why `sum` does not multiply the rows that `before` leaves, all of their elements, each row by itself.
std::string why_link_declined(const te::Program& program, const ChainSegment& before, const std::string& sum) {
  const Contraction m = *match_contraction(*program.find_compute(sum));
  const Shape& rows = program.tensor(before.output()).shape;
  Analyzer ranges;
  for (const te::Axis& r : m.compute->reduce_axes) ranges.bind(r.name, 0, r.extent);
  const auto is_axis = [&](const Expr& index, const te::Axis& axis, int64_t extent) {
    return axis.extent == extent && ranges.simplify(index - axis.var()).is_int(0);
  };
  const std::vector<te::Axis> lines = joined(m.batch, m.rows);
  bool fits = m.a->name == before.output() && rows.size() == lines.size() + 1 && !m.guarded;
  for (size_t d = 0; fits && d < lines.size(); ++d)
    fits = is_axis(m.a->args[d], lines[d], rows[d]) || (rows[d] == 1 && lines[d].extent == 1);
  fits = fits && std::ranges::any_of(m.compute->reduce_axes, [&](const te::Axis& r) {
           return is_axis(m.a->args.back(), r, rows.back()) && te::num_points(m.compute->reduce_axes) == r.extent;
         });
  return fits ? "" : fmt::format("{} multiplies other than the rows of {} one by one", sum, before.output());
}

// Shared memory of the smallest tile: all second operands but the first, and two k-blocks of the first product.
int64_t resident_bytes(const Chain& chain) {
  constexpr int64_t kBlock = 64, kStages = 2;
  const auto columns = [&](const std::string& sum) {
    return round_up(match_contraction(*chain.program.find_compute(sum))->column.extent, kRows);
  };
  const int64_t half = match_contraction(*chain.program.find_compute(chain.last))->a.type().bytes();
  int64_t before = columns(chain.segments[0].sum);
  int64_t bytes = kStages * (kWarps * kRows + before) * (kBlock * half + kGap) + kReservedShared;
  for (size_t i = 1; i <= chain.segments.size(); ++i) {
    const int64_t n = columns(i < chain.segments.size() ? chain.segments[i].sum : chain.last);
    bytes += n * (before * half + kGap);
    before = n;
  }
  return bytes;
}

// Whether each product but the first multiplies what the one before leaves, without batches.
bool follow_one_another(const Chain& chain) {
  return std::ranges::none_of(chain.segments, [](const ChainSegment& s) { return s.sum.empty(); }) &&
         match_contraction(*chain.program.find_compute(chain.segments[0].sum))->batch.empty();
}

// Why the products before the last one are not alike, or what follows them is not computed of their own points.
std::string why_not_alike(const Chain& chain, size_t batch) {
  const te::Program& program = chain.program;
  const Shape& middle = program.tensor(chain.segments.back().output()).shape;
  for (const ChainSegment& segment : chain.segments) {
    if (program.tensor(segment.output()).shape != middle) return segment.output() + " has other rows than the others";
    if (!segment.sum.empty()) {
      if (std::string reason = why_batches_declined(program, segment.sum, batch); !reason.empty()) return reason;
      if (std::string reason = why_product_declined(program, segment.sum); !reason.empty()) return reason;
      continue;
    }
    for (const std::string& stage : segment.stages) {
      const te::Compute& c = *program.find_compute(stage);
      bool own = c.outputs.size() == 1 && c.outputs[0].shape == middle;
      te::visit_reads(c, [&](const Expr& load) {
        own = own && (!chain.contains(load->name) || te::reads_own_point(c, load->name));
      });
      if (!own) return stage + " is not computed point by point";
    }
  }
  return "";
}

}  // namespace

int64_t tile_bytes(const Chain& chain, int64_t rows, int64_t warps) {
  constexpr int64_t kKept = 64, kLanes = 4;  // elements of a row in a thread's registers, and of one access
  const Contraction last = *match_contraction(*chain.program.find_compute(chain.last));
  const te::Tensor& scores = chain.program.tensor(chain.segments[0].output());
  const int64_t half = last.a.type().bytes(), keys = scores.shape.back();
  const int64_t share = kColumns * warps / std::min(rows / kRows, warps), of_row = warps * kWarpThreads / rows;
  const int64_t padded = round_up(keys, share * ceil_div(keys, share * kRows));
  const int64_t columns = round_up(last.column.extent, share);
  const int64_t operands = (padded + rows) * (round_up(depth_of(chain), kRows) * half + kGap) +
                           std::max(padded * (columns * half + kGap), columns * (padded * half + kGap));
  const bool kept = keys % (of_row * kLanes) == 0 && keys <= of_row * kKept;
  const int64_t of_key = scores.type.bytes() + half + (kept ? 0 : DataType::f32().bytes());
  return operands + rows * (padded * of_key + 3 * kGap) + kReservedShared;
}

std::string maximum_of(const Chain& chain) {
  for (const ChainSegment& segment : chain.segments) {
    for (const std::string& stage : segment.stages) {
      const te::Compute& c = *chain.program.find_compute(stage);
      if (c.is_reduction() && c.combiner.kind == te::CombinerKind::kMax) return stage;
    }
  }
  return "";
}

std::vector<std::string> row_outputs(const Chain& chain) {
  std::vector<std::string> names = chain.program.outputs;
  std::erase(names, chain.output);
  return names;
}

int64_t streamed_registers(int64_t rows, int64_t keys, int64_t columns) {
  constexpr int64_t kOthers = 48;
  const int64_t result = round_up(columns, kColumns) / 2;
  return rows * (result + keys / 2) + kOthers;
}

std::string why_resident_declined(const Chain& chain, const TargetInfo& target) {
  if (std::ranges::any_of(chain.segments, [](const ChainSegment& s) { return s.sum.empty(); }))
    return "two of its products come before the same one";
  const Contraction first = *match_contraction(*chain.program.find_compute(chain.segments[0].sum));
  if (!first.batch.empty()) return chain.segments[0].sum + " is several products, one of each batch or group";
  for (size_t i = 0; i < chain.segments.size(); ++i) {
    const ChainSegment& segment = chain.segments[i];
    const std::string& next = i + 1 < chain.segments.size() ? chain.segments[i + 1].sum : chain.last;
    if (std::string reason = why_product_declined(chain.program, segment.sum); !reason.empty()) return reason;
    if (std::string reason = why_link_declined(chain.program, segment, next); !reason.empty()) return reason;
    if (chain.program.tensor(segment.output()).shape.back() > kMaxResidentColumns)
      return segment.sum + " has more columns than a warp holds";
  }
  if (std::string reason = why_product_declined(chain.program, chain.last); !reason.empty()) return reason;
  const bool fits = resident_bytes(chain) <= target.levels.front().capacity_bytes;
  return fits ? "" : "second operands of the products do not fit shared memory";
}

bool is_products(const Chain& chain) {
  return !chain.segments[0].sum.empty() && std::ranges::all_of(chain.segments, [&](const ChainSegment& s) {
    return !s.sum.empty() || !is_heavy(chain.program, s);
  });
}

int64_t blockwise_registers(int64_t rows, int64_t steps, int64_t products, int64_t columns) {
  constexpr int64_t kOthers = 48;
  return rows * (round_up(columns, kColumns) / 2 + products * steps / 2 + steps / 4) + kOthers;
}

std::string why_blockwise_declined(const Chain& chain, const TargetInfo& target) {
  constexpr int64_t kMinSteps = 32, kMaxDepth = 256, kStages = 2;
  const Contraction last = *match_contraction(*chain.program.find_compute(chain.last));
  const size_t batch = last.batch.size();
  if (std::string reason = why_batches_declined(chain.program, chain.last, batch); !reason.empty()) return reason;
  if (std::string reason = why_product_declined(chain.program, chain.last); !reason.empty()) return reason;
  if (std::string reason = why_not_alike(chain, batch); !reason.empty()) return reason;
  const ChainSegment& middle = chain.segments.back();
  if (last.compute->reduce_axes.size() != 1) return chain.last + " sums along several axes";
  if (std::string reason = why_link_declined(chain.program, middle, chain.last); !reason.empty()) return reason;
  int64_t products = 0, depth = 0;
  for (const ChainSegment& segment : chain.segments) {
    if (segment.sum.empty()) continue;
    const int64_t steps = te::num_points(chain.program.find_compute(segment.sum)->reduce_axes);
    if (steps > kMaxDepth) return segment.sum + " has more steps than a tile holds";
    ++products, depth += round_up(steps, kRows);
  }
  if (blockwise_registers(1, kMinSteps, products, last.column.extent) > kMaxStreamedRegisters)
    return chain.last + " has more columns than a warp holds";
  const int64_t half = last.a.type().bytes();
  const int64_t bytes = (kWarps * kRows + kStages * kMinSteps) * depth * half +
                        kStages * kMinSteps * round_up(last.column.extent, kColumns) * half + kReservedShared;
  return bytes <= target.levels.front().capacity_bytes ? "" : "operands of a tile do not fit shared memory";
}

std::string why_tile_declined(const Chain& chain, const TargetInfo& target) {
  for (const te::Compute& c : chain.program.computes) {
    if (!chain.contains(c.name()) && c.name() != chain.last && !te::depends_on(chain.program, c, chain.last))
      return c.name() + " is computed beside the chain";
  }
  if (!is_products(chain)) return why_attention_declined(chain, target);
  if (chain.program.outputs.size() > 1) return "more than the last product's result leaves the group";
  const std::string resident = why_resident_declined(chain, target);
  if (resident.empty()) return "";
  const std::string blockwise = why_blockwise_declined(chain, target);
  return blockwise.empty() || !follow_one_another(chain) ? blockwise : resident;
}

}  // namespace tw::schedule
