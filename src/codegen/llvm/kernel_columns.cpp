// Strided loads without a load for each lane.
//
// Vectors along a dimension that is not contiguous come in neighbours: unrolled statements read element k, k + 1, ..
// of the same rows. Such loads are columns of a block of memory whose rows are contiguous: the rows are loaded and the
// block is transposed in registers.
#include <bit>

#include "codegen/llvm/kernel_emitter.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::codegen::cpu {
namespace {

constexpr int kSegmentBytes = 16;  // x86 shuffles at full rate inside segments of this size

bool is_same_place(const LinearIndex& a, const LinearIndex& b) {
  if (a.lane_stride != b.lane_stride || a.terms.size() != b.terms.size()) return false;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].scale != b.terms[i].scale || !equal(a.terms[i].atom, b.terms[i].atom)) return false;
  }
  return true;
}

// Whether one index is a vector that may step over other elements: a cheap test before the index is linearised.
bool may_stride(const Expr& read) {
  if (read.op() != Op::kLoad || read->predicated || !read.type().is_vector()) return false;
  const size_t last = read->args.size() - 1;
  for (size_t d = 0; d <= last; ++d) {
    const Expr& index = read.arg(d);
    if (index.op() == Op::kRamp && index.arg(1).op() == Op::kIntImm && (d < last || !index.arg(1).is_int(1)))
      return true;
  }
  return false;
}

using Rows = std::vector<Value*>;

// rows[k] interleaved with rows[k + n/2] inside each segment, log2(n) times: n x n elements of every segment are
// transposed.
void transpose_segments(Builder& builder, Rows& rows, int lanes) {
  const int n = static_cast<int>(rows.size());
  std::vector<int> low(static_cast<size_t>(lanes)), high(static_cast<size_t>(lanes));
  for (int lane = 0; lane < lanes; ++lane) {
    const int segment = lane / n * n;
    const int within = lane % n;
    low[lane] = segment + within / 2 + (within % 2) * lanes;
    high[lane] = low[lane] + n / 2;
  }
  for (int round = 1; round < n; round *= 2) {
    Rows next;
    for (int k = 0; k < n / 2; ++k) {
      next.push_back(builder.CreateShuffleVector(rows[k], rows[k + n / 2], low));
      next.push_back(builder.CreateShuffleVector(rows[k], rows[k + n / 2], high));
    }
    rows = std::move(next);
  }
}

}  // namespace

// The reads of `stmts` that are not protected, of buffers that none of them writes. `stmts` are stores.
std::vector<KernelEmitter::Access> KernelEmitter::strided_reads(std::span<const loop::Stmt> stmts) {
  std::vector<Access> reads;
  const auto is_written = [&](const std::string& name) {
    return std::ranges::any_of(stmts, [&](const loop::Stmt& s) { return s->buffer == name; });
  };
  const auto collect = [&](const Expr& read) {
    if (!may_stride(read) || is_written(read->name)) return;
    Access made = access(read->name, read->args, read.type().lanes());
    if (made.buffer->info->scope == loop::Scope::kRegister) return;
    if (made.index.is_strided() && made.index.lane_stride > 1) reads.push_back(std::move(made));
  };
  for (const loop::Stmt& s : stmts) {
    bool guarded = false;
    visit(s->value, [&](const Expr& e) { guarded = guarded || e.op() == Op::kSelect; });
    if (!guarded) visit(s->value, collect);
  }
  return reads;
}

// Finds the blocks that the stores `stmts` read by columns. Loaded where their first column is used: before later
// stores, which is why no store may write what is read.
void KernelEmitter::find_column_blocks(std::span<const loop::Stmt> stmts) {
  column_blocks_.clear();
  if (stmts.size() < 2 || options_.aliasing != ParamAliasing::kDistinct) return;
  std::vector<Access> reads = strided_reads(stmts);
  while (!reads.empty()) {
    const Access first = reads.front();
    const auto same = [&](const Access& a) {
      return a.buffer == first.buffer && a.type == first.type && is_same_place(a.index, first.index);
    };
    std::vector<int64_t> places;
    for (const Access& a : reads) {
      if (same(a)) places.push_back(a.index.constant);
    }
    std::erase_if(reads, same);
    add_column_blocks(first, std::move(places));
  }
}

// Cuts every run of neighbours among `places` into blocks as wide as a segment.
void KernelEmitter::add_column_blocks(const Access& access, std::vector<int64_t> places) {
  const int64_t width = kSegmentBytes / access.type.element().bytes();
  const auto segments = static_cast<uint64_t>(access.type.lanes() / width);
  if (width < 2 || access.type.lanes() % width != 0 || !std::has_single_bit(segments)) return;
  if (access.index.lane_stride < width) return;  // rows overlap
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  size_t begin = 0;
  while (begin + static_cast<size_t>(width) <= places.size()) {
    if (places[begin + static_cast<size_t>(width) - 1] != places[begin] + width - 1) {
      ++begin;
      continue;
    }
    ColumnBlock block{access, {}};
    block.first.index.constant = places[begin];
    column_blocks_.push_back(std::move(block));
    begin += static_cast<size_t>(width);
  }
}

// One segment of the row of each lane is loaded; vector i holds those of lanes i, width + i, 2 width + i, .., so that
// transposing inside segments leaves column c in vector c.
void KernelEmitter::load_columns(ColumnBlock& block) {
  const int lanes = block.first.type.lanes();
  const int width = kSegmentBytes / block.first.type.element().bytes();
  ::llvm::Type* segment = memory_type(context_, block.first.type.element().with_lanes(width));
  Access row = block.first;
  row.index.lanes = 1;
  for (int i = 0; i < width; ++i) {
    std::vector<Value*> parts;
    for (int lane = i; lane < lanes; lane += width) {
      auto* part = builder_.CreateAlignedLoad(segment, pointer(row, lane), alignment(row, lane));
      parts.push_back(tagged(row, part));
    }
    block.columns.push_back(concatenated(std::move(parts)));
  }
  transpose_segments(builder_, block.columns, lanes);
  for (Value*& column : block.columns) column = from_memory(builder_, block.first.type, column);
}

// The column that `source` reads, or null when no block has it.
Value* KernelEmitter::column(const Access& source) {
  for (ColumnBlock& block : column_blocks_) {
    const int64_t at = source.index.constant - block.first.index.constant;
    const int64_t width = kSegmentBytes / source.type.element().bytes();
    if (block.first.buffer != source.buffer || block.first.type != source.type || at < 0 || at >= width ||
        !is_same_place(block.first.index, source.index))
      continue;
    // Columns that a branch loads do not exist behind it.
    if (block.columns.empty() && memo_.size() > 1) return nullptr;
    if (block.columns.empty()) load_columns(block);
    return block.columns[static_cast<size_t>(at)];
  }
  return nullptr;
}

// Vectors of equal length, one after the other, as many as a power of two.
Value* KernelEmitter::concatenated(std::vector<Value*> parts) {
  TW_CHECK(std::has_single_bit(parts.size()), "kernel {}: {} parts of a vector", kernel_.name, parts.size());
  while (parts.size() > 1) {
    std::vector<Value*> longer;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      const auto n = ::llvm::cast<::llvm::FixedVectorType>(parts[i]->getType())->getNumElements();
      std::vector<int> order = sequence<int>(2 * n);
      longer.push_back(builder_.CreateShuffleVector(parts[i], parts[i + 1], order));
    }
    parts = std::move(longer);
  }
  return parts.front();
}

}  // namespace tw::codegen::cpu
