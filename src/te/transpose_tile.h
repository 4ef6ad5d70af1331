// The inner two loops of a transpose: a plane whose rows are contiguous in the source and whose columns are contiguous
// in the destination. Written with vector extensions of GCC and Clang, which every target of ours has.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>

namespace tw::te {

/// One loop of a copy, strides in elements.
struct Loop {
  int64_t extent;
  int64_t from;  // stride in the source
  int64_t to;    // stride in the destination
};

struct Pair {
  uint64_t halves[2];
};
/// What is copied for elements of 1, 2, 4, 8 or 16 bytes.
template <size_t kBytes>
using ElementOf =
    std::tuple_element_t<std::countr_zero(kBytes), std::tuple<uint8_t, uint16_t, uint32_t, uint64_t, Pair>>;

/// Transposes kLanes x kLanes elements held in 16-byte vectors: log2(kLanes) rounds, each of which interleaves vector k
/// with vector k + kLanes / 2.
template <typename T>
struct VectorBlock {
  static constexpr int64_t kLanes = 16 / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(16)));
  Vector rows[kLanes];

  [[gnu::always_inline]] void transpose() {
    for (int64_t round = 1; round < kLanes; round *= 2) {
      Vector next[kLanes];
      for (int64_t k = 0; k < kLanes / 2; ++k) zip(rows[k], rows[k + kLanes / 2], next[2 * k], next[2 * k + 1]);
      for (int64_t k = 0; k < kLanes; ++k) rows[k] = next[k];
    }
  }

 private:
  [[gnu::always_inline]] static void zip(Vector a, Vector b, Vector& low, Vector& high) {
    if constexpr (kLanes == 2) {
      low = __builtin_shufflevector(a, b, 0, 2);
      high = __builtin_shufflevector(a, b, 1, 3);
    } else if constexpr (kLanes == 4) {
      low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    } else if constexpr (kLanes == 8) {
      low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    } else {
      low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
  }
};

/// Tiles of one cache line squared go through a small buffer: each source line is read whole and each destination line
/// written whole, so that power-of-two strides, which map all lines of a tile to one cache set, cost no second miss.
template <size_t kBytes>
class TileTranspose {
 public:
  using T = ElementOf<kBytes>;
  static constexpr int64_t kTile = std::max<int64_t>(64 / static_cast<int64_t>(kBytes), 4);

  /// From tile[column][row] at `from`, column stride `from_stride`, to tile[row][column] at `to`.
  static void full(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    alignas(64) T buffer[kTile][kTile];
    if constexpr (kBytes <= 8) {
      constexpr int64_t kLanes = VectorBlock<T>::kLanes;
      for (int64_t c = 0; c < kTile; c += kLanes) {
        for (int64_t r = 0; r < kTile; r += kLanes) {
          VectorBlock<T> block;
          for (int64_t k = 0; k < kLanes; ++k) std::memcpy(&block.rows[k], from + (c + k) * from_stride + r, 16);
          block.transpose();
          for (int64_t k = 0; k < kLanes; ++k) std::memcpy(&buffer[r + k][c], &block.rows[k], 16);
        }
      }
    } else {
      for (int64_t c = 0; c < kTile; ++c) {
        for (int64_t r = 0; r < kTile; ++r) buffer[r][c] = from[c * from_stride + r];
      }
    }
    for (int64_t r = 0; r < kTile; ++r) std::memcpy(to + r * to_stride, buffer[r], sizeof(buffer[r]));
  }

  static void part(const T* from, const Loop& row, T* to, const Loop& column) {
    for (int64_t r = 0; r < row.extent; ++r) {
      for (int64_t c = 0; c < column.extent; ++c) to[r * row.to + c] = from[c * column.from + r];
    }
  }
};

/// to[r * row.to + c] = from[c * column.from + r] for elements of kBytes bytes; row.from = column.to = 1.
template <size_t kBytes>
void transpose_plane(const std::byte* from_bytes, std::byte* to_bytes, const Loop& row, const Loop& column) {
  using Tile = TileTranspose<kBytes>;
  const auto* from = reinterpret_cast<const typename Tile::T*>(from_bytes);
  auto* to = reinterpret_cast<typename Tile::T*>(to_bytes);
  for (int64_t r = 0; r < row.extent; r += Tile::kTile) {
    const int64_t rows = std::min(Tile::kTile, row.extent - r);
    for (int64_t c = 0; c < column.extent; c += Tile::kTile) {
      const int64_t columns = std::min(Tile::kTile, column.extent - c);
      const auto* source = from + r + c * column.from;
      auto* target = to + r * row.to + c;
      if (rows == Tile::kTile && columns == Tile::kTile)
        Tile::full(source, column.from, target, row.to);
      else
        Tile::part(source, {rows, 1, row.to}, target, {columns, column.from, 1});
    }
  }
}

}  // namespace tw::te
