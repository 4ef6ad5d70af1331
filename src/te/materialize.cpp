#include "te/materialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "support/error.h"

namespace tw::te {
namespace {

constexpr int64_t kCacheLine = 64;  // bytes

// One loop of a copy, strides in elements. The output of a transpose is dense: its strides follow from the extents.
struct Loop {
  int64_t extent;
  int64_t from;  // stride in the source
  int64_t to;    // stride in the destination
};

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

// Calls f(source offset, destination offset) for every point of the loops but the two at `skip`.
template <typename F>
void for_each_point(const std::vector<Loop>& loops, const std::array<size_t, 2>& skip, const F& f) {
  std::vector<Loop> outer;
  for (size_t k = 0; k < loops.size(); ++k) {
    if (k != skip[0] && k != skip[1]) outer.push_back(loops[k]);
  }
  std::vector<int64_t> index(outer.size(), 0);
  int64_t from = 0;
  int64_t to = 0;
  while (true) {
    f(from, to);
    size_t k = outer.size();
    while (k-- > 0) {
      from += outer[k].from;
      to += outer[k].to;
      if (++index[k] < outer[k].extent) break;
      from -= outer[k].from * outer[k].extent;
      to -= outer[k].to * outer[k].extent;
      index[k] = 0;
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

template <size_t kBytes>
struct Element {
  std::byte bytes[kBytes];
};

// Tiles of one cache line squared go through a small buffer: each source line is read whole and each destination line
// written whole, so that power-of-two strides, which map all lines of a tile to one cache set, cost no second miss.
template <size_t kBytes>
class TileTranspose {
 public:
  using T = Element<kBytes>;
  static constexpr int64_t kTile = std::max<int64_t>(kCacheLine / static_cast<int64_t>(kBytes), 4);

  // `row` runs along the source (from == 1), `column` along the destination (to == 1).
  TileTranspose(Loop row, Loop column) : row_(row), column_(column) {}

  void operator()(const T* from, T* to) const {
    for (int64_t r = 0; r < row_.extent; r += kTile) {
      for (int64_t c = 0; c < column_.extent; c += kTile) {
        const T* source = from + r + c * column_.from;
        T* target = to + r * row_.to + c;
        const int64_t rows = std::min(kTile, row_.extent - r);
        const int64_t columns = std::min(kTile, column_.extent - c);
        if (rows == kTile && columns == kTile) tile(source, target, kTile, kTile);
        else tile(source, target, rows, columns);
      }
    }
  }

 private:
  [[gnu::always_inline]] void tile(const T* from, T* to, int64_t rows, int64_t columns) const {
    T buffer[kTile][kTile];
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = 0; r < rows; ++r) buffer[r][c] = from[c * column_.from + r];
    }
    for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * row_.to, buffer[r], static_cast<size_t>(columns) * sizeof(T));
  }

  Loop row_;
  Loop column_;
};

template <size_t kBytes>
void run_tiles(const std::byte* from, std::byte* to, const std::vector<Loop>& loops) {
  size_t row = 0;
  while (loops[row].from != 1) ++row;
  const size_t column = loops.size() - 1;
  const TileTranspose<kBytes> transpose(loops[row], loops[column]);
  const auto* source = reinterpret_cast<const Element<kBytes>*>(from);
  auto* target = reinterpret_cast<Element<kBytes>*>(to);
  for_each_point(loops, {row, column}, [&](int64_t f, int64_t t) { transpose(source + f, target + t); });
}

void run_rows(const std::byte* from, std::byte* to, size_t element_size, const std::vector<Loop>& loops) {
  const size_t last = loops.size() - 1;
  const size_t row_bytes = static_cast<size_t>(loops[last].extent) * element_size;
  const auto size = static_cast<int64_t>(element_size);
  for_each_point(loops, {last, last}, [&](int64_t f, int64_t t) { std::memcpy(to + t * size, from + f * size, row_bytes); });
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
  switch (element_size) {
    case 1: return run_tiles<1>(from, to, loops);
    case 2: return run_tiles<2>(from, to, loops);
    case 4: return run_tiles<4>(from, to, loops);
    case 8: return run_tiles<8>(from, to, loops);
    case 16: return run_tiles<16>(from, to, loops);
    default: break;
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
  for (size_t k = 0; k < bytes; k += fill.size()) std::memcpy(to + k, fill.data(), fill.size());
}

// A tensor seen as `outer` rows along the padded dimension, each of `row` bytes in steps of `step` bytes.
struct RowsView {
  size_t outer = 1;
  size_t row = 0;
  size_t step = 0;
};

RowsView rows_along(const Shape& shape, int dim, size_t element_size) {
  RowsView view;
  for (int d = 0; d < dim; ++d) view.outer *= static_cast<size_t>(shape[d]);
  view.step = element_size;
  for (size_t d = dim + 1; d < shape.size(); ++d) view.step *= static_cast<size_t>(shape[d]);
  view.row = view.step * static_cast<size_t>(shape[dim]);
  return view;
}

std::vector<std::byte> pad_rows(std::span<const std::byte> data, const RowsView& view, const LayoutPrimitive& p,
                                std::span<const std::byte> fill) {
  const size_t before = static_cast<size_t>(p.args[0]) * view.step;
  const size_t after = static_cast<size_t>(p.args[1]) * view.step;
  std::vector<std::byte> out(view.outer * (before + view.row + after));
  const bool zero = std::all_of(fill.begin(), fill.end(), [](std::byte b) { return b == std::byte{0}; });
  std::byte* to = out.data();
  for (size_t k = 0; k < view.outer; ++k) {
    if (!zero) fill_bytes(to, before, fill);
    if (view.row > 0) std::memcpy(to + before, data.data() + k * view.row, view.row);
    if (!zero) fill_bytes(to + before + view.row, after, fill);
    to += before + view.row + after;
  }
  return out;
}

std::vector<std::byte> unpad_rows(std::span<const std::byte> data, const RowsView& view, const LayoutPrimitive& p) {
  const size_t before = static_cast<size_t>(p.args[0]) * view.step;
  const size_t kept = view.row - before - static_cast<size_t>(p.args[1]) * view.step;
  std::vector<std::byte> out(view.outer * kept);
  for (size_t k = 0; kept > 0 && k < view.outer; ++k) {
    std::memcpy(out.data() + k * kept, data.data() + k * view.row + before, kept);
  }
  return out;
}

}  // namespace

std::vector<std::byte> transpose(std::span<const std::byte> data, size_t element_size, const Shape& shape,
                                 const std::vector<int64_t>& order) {
  apply_primitive({LayoutOp::kReorder, 0, order}, shape);
  TW_CHECK(data.size() == static_cast<size_t>(num_elements(shape)) * element_size, "{} bytes for shape {}", data.size(), to_string(shape));
  std::vector<std::byte> out(data.size());
  if (!data.empty()) run_loops(data.data(), out.data(), element_size, transpose_loops(shape, order));
  return out;
}

std::vector<std::byte> materialize(std::span<const std::byte> data, size_t element_size, const Shape& logical,
                                   const Layout& layout, std::span<const std::byte> fill) {
  TW_CHECK(data.size() == static_cast<size_t>(num_elements(logical)) * element_size, "{} bytes for shape {}", data.size(), to_string(logical));
  TW_CHECK(fill.empty() || fill.size() == element_size, "fill of {} bytes for elements of {}", fill.size(), element_size);
  std::vector<std::byte> moved;
  bool is_moved = false;
  Shape shape = logical;
  for (const LayoutPrimitive& p : layout.primitives()) {
    const Shape next = apply_primitive(p, shape);
    if (p.op != LayoutOp::kSplit && p.op != LayoutOp::kFuse) {
      const std::span<const std::byte> now = is_moved ? std::span<const std::byte>(moved) : data;
      if (p.op == LayoutOp::kReorder) moved = transpose(now, element_size, shape, p.args);
      else if (p.op == LayoutOp::kPad) moved = pad_rows(now, rows_along(shape, p.dim, element_size), p, fill);
      else if (p.op == LayoutOp::kUnpad) moved = unpad_rows(now, rows_along(shape, p.dim, element_size), p);
      else throw InternalError("materialize: " + to_string(Layout({p})) + " belongs to the joint layout search");
      is_moved = true;
    }
    shape = next;
  }
  return is_moved ? moved : std::vector<std::byte>(data.begin(), data.end());
}

}  // namespace tw::te
