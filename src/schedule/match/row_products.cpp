#include "schedule/match/row_products.h"

#include <bit>

#include "support/math.h"
#include "te/reads.h"

namespace tw::schedule {
namespace {

constexpr int64_t kMinThreads = 128, kMaxThreads = 1024;  // of a block
constexpr int64_t kMaxRows = 32;                          // of more, tiles of matrix instructions are full

// Bytes of the inputs that one row reads.
int64_t bytes_of_row(const te::Program& program, int64_t rows) {
  int64_t bytes = 0;
  for (const te::Tensor& t : program.inputs) {
    bool own = false;  // elements of its own
    for (const te::Compute& c : program.computes) {
      te::visit_reads(c, [&](const Expr& read) {
        own = own || (read->name == t.name && te::dim_of_axis(read, c.axes[0].name) >= 0);
      });
    }
    bytes += num_elements(t.shape) * t.type.bytes() / (own ? rows : 1);
  }
  return bytes;
}

// Why a stage is none of a row of elements.
std::string why_no_stage(const te::Compute& c, size_t rows) {
  if (c.outputs.size() != 1) return c.name() + " has several outputs";
  if (has_empty_axis(c)) return c.name() + " has an axis of extent 0";
  if (c.axes.size() != rows + 1 || c.reduce_axes.size() > 1)
    return c.name() + " has not one axis besides the rows, or several of terms";
  return "";
}

}  // namespace

int64_t RowProducts::elements(const te::Compute& c) const {
  return c.axes.size() > rows.rows ? c.axes[rows.rows].extent : 1;
}

int64_t RowProducts::warps(const te::Compute& c) const {
  int64_t warps = threads / kWarpThreads;
  while (elements(c) % warps != 0) --warps;
  return warps;
}

int64_t RowProducts::term_lanes(const te::Compute& c) const {
  int64_t together = 8;
  while (together > 1 && (c.reduce_axes[0].extent % together != 0 || c.reduce_axes[0].extent < kWarpThreads * together))
    together /= 2;
  return together;
}

Result<RowProducts> match_row_products(Schedule& s, const te::Program& program, const TargetInfo& target) {
  Result<RowProgram> rows = row_program(s, program);
  if (!rows.ok()) return Reason{rows.reason()};
  RowProducts out{std::move(rows).value()};
  const te::Program& p = out.rows.program;
  const te::Compute& last = p.computes.back();
  if (!out.rows.statistics.empty()) return declined("values leave the rows besides");
  if (why_not_by_thread(out.rows).empty()) return declined("rows so short that a thread has each");
  int64_t longest = 1;
  for (const te::Compute& c : p.computes) {
    if (const std::string reason = why_no_stage(c, out.rows.rows); !reason.empty()) return declined("{}", reason);
    out.products += c.is_reduction() ? 1 : 0;
    longest = std::max(longest, out.elements(c));
  }
  if (out.products < 2) return declined("no products of a row one after the other");
  const int64_t count = num_elements(last.outputs[0].shape) / out.elements(last);
  if (count > std::min<int64_t>(kMaxRows, std::max(1, target.compute_units)))
    return declined("rows that fill tiles of matrices, or more than SMs");
  out.row_bytes = bytes_of_row(p, count);
  out.lanes = out.elements(last) % 2 == 0 ? 2 : 1;
  const auto wanted = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(longest, out.lanes))));
  out.threads = std::clamp(wanted, kMinThreads, kMaxThreads);
  return out;
}

}  // namespace tw::schedule
