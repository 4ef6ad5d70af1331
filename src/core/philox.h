// Philox4x32-10, a random generator without a state: four words that depend on a counter and a key alone, so that every
// element of a tensor has its own, whoever computes it, wherever and in whatever order. Source: Salmon, Moraes, Dror,
// Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace tw {

inline constexpr int kPhiloxRounds = 10;
inline constexpr std::array<uint32_t, 2> kPhiloxMultipliers = {0xD2511F53, 0xCD9E8D57};
inline constexpr std::array<uint32_t, 2> kPhiloxWeyl = {0x9E3779B9, 0xBB67AE85};  // what the key grows by, each round

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t left = uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const uint64_t right = uint64_t{kPhiloxMultipliers[1]} * counter[2];
    const auto high = [](uint64_t product) { return static_cast<uint32_t>(product >> 32); };
    counter = {high(right) ^ counter[1] ^ key[0], static_cast<uint32_t>(right), high(left) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(left)};
    for (size_t k = 0; k < key.size(); ++k) key[k] += kPhiloxWeyl[k];
  }
  return counter;
}

}  // namespace tw
