#include "cost/banks.h"

#include <algorithm>
#include <array>

#include "support/math.h"

namespace tw::cost {
namespace {

constexpr int64_t kBanks = 32, kWord = 4;  // of every NVIDIA GPU; bytes of a bank's word

}  // namespace

int64_t conflict_degree(const BankAccess& access, int64_t pad) {
  std::array<int64_t, kBanks> words = {};
  for (int64_t line = 0; line < access.lines; ++line) {
    const int64_t first = line * access.apart * (access.line_bytes + pad) / kWord;
    for (int64_t word = 0; word < ceil_div(access.bytes, kWord); ++word) ++words[(first + word) % kBanks];
  }
  return *std::ranges::max_element(words);
}

int64_t bank_padding(const BankAccess& access, int64_t vector_bytes) {
  const int64_t bound = ceil_div(access.lines * ceil_div(access.bytes, kWord), kBanks);  // no padding is below it
  int64_t least = 0, degree = conflict_degree(access, 0);
  for (int64_t pad = vector_bytes; pad < kBanks * kWord && degree > bound; pad += vector_bytes) {
    const int64_t padded = conflict_degree(access, pad);
    if (padded < degree) least = pad, degree = padded;
  }
  return least;
}

}  // namespace tw::cost
