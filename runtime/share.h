// The part of a loop's units that belongs to one thread, claimed chunk by chunk: its owner takes from the front, a
// thread that has nothing left takes from the back. One word, no locks; it fills itself at the first claim of a loop,
// so nobody has to wait for an owner that has not come.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tw::runtime {

/// Units [begin, end) of a loop.
struct Units {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

/// Largest number of units of a loop: two bounds and a loop's number fit into 64 bits.
inline constexpr uint32_t kMaxUnits = 0xffff;

/// Part `index` of `count` parts of [0, units): contiguous, sizes differ by one at most, the first parts are the
/// larger.
inline Units part_of(uint32_t units, uint32_t index, uint32_t count) {
  const auto bound = [&](uint64_t i) { return static_cast<uint32_t>((i * units + count - 1) / count); };
  return {bound(index), bound(uint64_t{index} + 1)};
}

class alignas(64) Share {
 public:
  enum class Side : uint8_t { kFront, kBack };

  /// Claims at most `max` units of loop `loop`, from the back at most half of what is left; empty when nothing is left
  /// or the loop is over. `whole` is the share in that loop. Loops are numbered in the order in which they run, modulo
  /// 2^32; see forget.
  Units claim(uint32_t loop, Units whole, uint32_t max, Side side) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while (true) {
      const bool filled = loop_of(word) == loop;
      // A later loop's: the caller is late and everything of its loop was claimed by others.
      if (!filled && static_cast<int32_t>(loop - loop_of(word)) < 0) return {};
      const Units left = filled ? units_of(word) : whole;
      if (left.empty()) return {};
      const Units taken = cut(left, max, side);
      const Units rest = side == Side::kFront ? Units{taken.end, left.end} : Units{left.begin, taken.begin};
      // Success means that the word was not touched since it was read, hence that the loop still runs: it cannot end
      // before the units that are left have been claimed.
      if (word_.compare_exchange_weak(word, pack(loop, rest), std::memory_order_relaxed)) return taken;
    }
  }

  /// Makes the word that of an exhausted loop `loop`. Numbers are compared modulo 2^32: a share must not keep one that
  /// is more than 2^31 loops old.
  void forget(uint32_t loop) { word_.store(pack(loop, {}), std::memory_order_relaxed); }

 private:
  static uint32_t loop_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  static Units units_of(uint64_t word) {
    return {static_cast<uint32_t>(word >> 16 & kMaxUnits), static_cast<uint32_t>(word & kMaxUnits)};
  }
  static uint64_t pack(uint32_t loop, Units units) { return uint64_t{loop} << 32 | units.begin << 16 | units.end; }
  static Units cut(Units left, uint32_t max, Side side) {
    if (side == Side::kFront) return {left.begin, left.begin + std::min(max, left.size())};
    return {left.end - std::min(max, (left.size() + 1) / 2), left.end};
  }

  std::atomic<uint64_t> word_{0};
};

}  // namespace tw::runtime
