// Banks of a GPU's shared memory, and the padding of lines that keeps neighbours in different ones.
#pragma once
#include <cstdint>

namespace tw::cost {

/// What threads access at once: `bytes` of each of `lines` lines of `line_bytes`, every `apart`-th.
struct BankAccess {
  int64_t line_bytes = 0;
  int64_t lines = 1;
  int64_t apart = 1;
  int64_t bytes = 4;
};

/// Words of the bank that has most of them: so many times shared memory is accessed. Lines have `pad` bytes more.
int64_t conflict_degree(const BankAccess& access, int64_t pad);

/// The fewest bytes behind each line, a multiple of `vector_bytes`, with the least conflict degree that any has.
/// Source: Roller, section 3.1, alignment with memory banks; by trying them, not by its formula.
int64_t bank_padding(const BankAccess& access, int64_t vector_bytes);

}  // namespace tw::cost
