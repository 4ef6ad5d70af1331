// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators): the same numbers on every machine.
#pragma once
#include <cstdint>

namespace tw {

/// What the generator's state grows by for each number.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15ull;

/// The number that belongs to state `z`; as a hash, every bit of it depends on every bit of z.
inline uint64_t split_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace tw
