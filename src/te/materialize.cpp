#include "te/materialize.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support/error.h"
#include "support/join.h"
#include "te/transpose_tile.h"

namespace tw::te {
namespace {

// Source pages in use at once: far fewer than a second-level TLB has entries (1,024 and more), and lines enough to
// fill whole cache lines of the destination.
constexpr int64_t kColumnBlock = 128;

// Loops of the transpose, outermost first, without unit loops and with neighbours merged that stay neighbours.
std::vector<Loop> transpose_loops(const Shape& shape, const std::vector<int64_t>& order) {
  const Shape strides = row_major_strides(shape);
  std::vector<Loop> loops;
  for (int64_t d : order) {
    if (shape[d] == 1) continue;
    if (!loops.empty() && loops.back().from == strides[d] * shape[d]) {
      loops.back() = {loops.back().extent * shape[d], strides[d], 0};
    } else {
      loops.push_back({shape[d], strides[d], 0});
    }
  }
  int64_t stride = 1;
  for (size_t k = loops.size(); k-- > 0;) {
    loops[k].to = stride;
    stride *= loops[k].extent;
  }
  return loops;
}

// Calls f(source offset, destination offset) for every point of the loops.
template <typename F>
void for_each_point(const std::vector<Loop>& loops, const F& f) {
  std::vector<int64_t> index(loops.size(), 0);
  int64_t from = 0;
  int64_t to = 0;
  while (true) {
    f(from, to);
    size_t k = loops.size();
    while (k-- > 0) {
      from += loops[k].from;
      to += loops[k].to;
      if (++index[k] < loops[k].extent) break;
      from -= loops[k].from * loops[k].extent;
      to -= loops[k].to * loops[k].extent;
      index[k] = 0;
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

template <size_t kBytes>
void run_tiles(const std::byte* from, std::byte* to, std::vector<Loop> loops) {
  size_t r = 0;
  while (loops[r].from != 1) ++r;
  const Loop row = loops[r];
  const Loop column = loops.back();
  loops.pop_back();
  loops.erase(loops.begin() + static_cast<int64_t>(r));
  // Few columns at a time through all other loops: each column is a page of the source, and its next elements are
  // needed while the page's translation is still at hand.
  const auto size = static_cast<int64_t>(kBytes);
  for (int64_t c = 0; c < column.extent; c += kColumnBlock) {
    const Loop columns{std::min(kColumnBlock, column.extent - c), column.from, 1};
    for_each_point(loops, [&](int64_t f, int64_t t) {
      transpose_plane<kBytes>(from + (f + c * column.from) * size, to + (t + c) * size, row, columns);
    });
  }
}

void run_rows(const std::byte* from, std::byte* to, size_t element_size, std::vector<Loop> loops) {
  const size_t row_bytes = static_cast<size_t>(loops.back().extent) * element_size;
  const auto size = static_cast<int64_t>(element_size);
  loops.pop_back();
  for_each_point(loops, [&](int64_t f, int64_t t) { std::memcpy(to + t * size, from + f * size, row_bytes); });
}

bool is_word(int64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }

// A short innermost row that stays contiguous becomes one larger element, as long as that is a word.
void widen_elements(std::vector<Loop>& loops, size_t& element_size) {
  if (loops.size() < 2 || loops.back().from != 1) return;
  const int64_t row = loops.back().extent;
  if (!is_word(row * static_cast<int64_t>(element_size))) return;
  element_size *= static_cast<size_t>(row);
  loops.pop_back();
  for (Loop& loop : loops) {
    loop.from /= row;
    loop.to /= row;
  }
}

void run_loops(const std::byte* from, std::byte* to, size_t element_size, std::vector<Loop> loops) {
  widen_elements(loops, element_size);
  if (loops.empty()) {
    std::memcpy(to, from, element_size);
    return;
  }
  if (loops.back().from == 1) return run_rows(from, to, element_size, loops);
  if (is_word(static_cast<int64_t>(element_size))) {
    constexpr decltype(&run_tiles<1>) kRuns[] = {run_tiles<1>, run_tiles<2>, run_tiles<4>, run_tiles<8>, run_tiles<16>};
    return kRuns[std::countr_zero(element_size)](from, to, loops);
  }
  // Elements of any other size are rows of bytes.
  for (Loop& loop : loops) {
    loop.from *= static_cast<int64_t>(element_size);
    loop.to *= static_cast<int64_t>(element_size);
  }
  loops.push_back({static_cast<int64_t>(element_size), 1, 1});
  run_rows(from, to, 1, loops);
}

void fill_bytes(std::byte* to, size_t bytes, std::span<const std::byte> fill) {
  const bool zero = std::ranges::all_of(fill, [](std::byte b) { return b == std::byte{0}; });
  if (zero && bytes > 0) std::memset(to, 0, bytes);
  if (zero) return;
  for (size_t k = 0; k < bytes; k += fill.size()) std::memcpy(to + k, fill.data(), fill.size());
}

// Elements along one dim that are copied as one: `count` from `from` on to `to` on.
struct Run {
  int64_t from, to, count;
};

// What primitives that add or leave out elements copy along their dim, which is seen as one of `extent` elements.
std::vector<Run> runs_of(const LayoutPrimitive& p, int64_t extent, const Shape& shape) {
  switch (p.op) {
    case LayoutOp::kPad:
      return {{0, p.args[0], extent}};
    case LayoutOp::kUnpad:
      return {{p.args[0], 0, extent - p.args[0] - p.args[1]}};
    case LayoutOp::kUnfold:
      return by_index(apply_primitive(p, shape)[p.dim], [&](int64_t t) {
        return Run{t * p.args[1], t * p.args[0], std::min(p.args[0], extent - t * p.args[1])};
      });
    case LayoutOp::kFold:  // what tiles have in common is copied again, and is the same
      return by_index(shape[p.dim], [&](int64_t t) {
        const int64_t tile = shape[p.dim + 1], to = t * p.args[1];
        return Run{t * tile, to, std::min(tile, p.args[0] - to)};
      });
    default:
      return {{0, 0, p.op == LayoutOp::kDecoupleAt ? extent - 1 : extent}};
  }
}

// What lies between runs is filled, unless `fill` is null.
void copy_runs(std::span<const std::byte> rows, std::span<std::byte> to, size_t count, const std::vector<Run>& runs,
               size_t step, const std::span<const std::byte>* fill) {
  const size_t row_bytes = rows.size() / count, to_bytes = to.size() / count;
  for (size_t k = 0; k < count; ++k, to = to.subspan(to_bytes)) {
    size_t end = 0;
    const auto fill_until = [&](size_t next) {
      if (fill != nullptr && next > end) fill_bytes(to.data() + end, next - end, *fill);
    };
    for (const Run& run : runs) {
      const size_t first = static_cast<size_t>(run.to) * step, bytes = static_cast<size_t>(run.count) * step;
      fill_until(first);
      if (bytes > 0)
        std::memcpy(to.data() + first, rows.data() + k * row_bytes + static_cast<size_t>(run.from) * step, bytes);
      end = first + bytes;
    }
    fill_until(to_bytes);
  }
}

bool moves(const LayoutPrimitive& p) { return p.op != LayoutOp::kSplit && p.op != LayoutOp::kFuse; }

// `data` of shape `shape` after one primitive that moves something, in `to`.
void move(std::span<const std::byte> data, std::span<std::byte> to, size_t element_size, const Shape& shape,
          const LayoutPrimitive& p, const Added& added) {
  if (p.op == LayoutOp::kReorder) {
    if (!data.empty()) run_loops(data.data(), to.data(), element_size, transpose_loops(shape, p.args));
    return;
  }
  if (to.empty()) return;
  const auto rows = static_cast<size_t>(num_elements(Shape(shape.begin(), shape.begin() + p.dim)));
  const int64_t behind = num_elements(Shape(shape.begin() + p.dim + (p.op == LayoutOp::kFold ? 2 : 1), shape.end()));
  const size_t step = static_cast<size_t>(behind) * element_size;
  const auto extent = static_cast<int64_t>(data.size() / rows / step);
  copy_runs(data, to, rows, runs_of(p, extent, shape), step, &added.fill);
  if (p.op != LayoutOp::kStoreAt) return;
  const auto slice = added.slices.find(p.tensor);
  TW_CHECK(slice != added.slices.end() && slice->second.size() == rows * step,
           "{}: no bytes of the tensor, or too many or few", to_string(p));
  copy_runs(slice->second, to, rows, {{0, shape[p.dim], 1}}, step, nullptr);
}

}  // namespace

void materialize_into(std::span<std::byte> to, std::span<const std::byte> data, size_t element_size,
                      const Shape& logical, const Layout& layout, const Added& added) {
  TW_CHECK(data.size() == static_cast<size_t>(num_elements(logical)) * element_size, "{} bytes for shape {}",
           data.size(), to_string(logical));
  TW_CHECK(added.fill.empty() || added.fill.size() == element_size, "fill of {} bytes for elements of {}",
           added.fill.size(), element_size);
  TW_CHECK(to.size() == static_cast<size_t>(num_elements(layout.storage_shape(logical))) * element_size,
           "{} bytes of storage for shape {} under {}", to.size(), to_string(logical), to_string(layout));
  auto left = std::ranges::count_if(layout.primitives(), moves);
  if (left == 0 && !data.empty()) std::memcpy(to.data(), data.data(), data.size());
  std::vector<std::byte> moved;
  Shape shape = logical;
  for (const LayoutPrimitive& p : layout.primitives()) {
    Shape next = apply_primitive(p, shape);
    if (moves(p)) {
      std::vector<std::byte> between(--left == 0 ? 0 : static_cast<size_t>(num_elements(next)) * element_size);
      move(data, left == 0 ? to : std::span(between), element_size, shape, p, added);
      moved = std::move(between);
      data = moved;
    }
    shape = std::move(next);
  }
}

std::vector<std::byte> materialize(std::span<const std::byte> data, size_t element_size, const Shape& logical,
                                   const Layout& layout, const Added& added) {
  std::vector<std::byte> storage(static_cast<size_t>(num_elements(layout.storage_shape(logical))) * element_size);
  materialize_into(storage, data, element_size, logical, layout, added);
  return storage;
}

}  // namespace tw::te
