// Whether one kernel may compute all outputs of a program: what fusion asks before values leave a group beside its last
// one.
#pragma once
#include <cstdint>

#include "support/error.h"
#include "te/te.h"

namespace tw::schedule {

/// How the outputs beside the owner of the tiles leave.
enum class Beside : uint8_t {
  kPoints,   // at the owner's points
  kRows,     // some once for each row
  kColumns,  // sums of columns, in parts which a second kernel adds
  kSums,     // beside each other: sums of the same columns
  kRowSums,  // sums of columns of rows that are reduced, in parts, too
};

/// What a kernel of rows combines: anything, or elements of a row alone, as the threads of a block do that share one.
enum class Combines : uint8_t { kAny, kRowsAlone };

/// Of a program after te::join_outputs. Declines where some output needs a kernel of its own.
Result<Beside> one_kernel(const te::Program& program, Combines combines = Combines::kAny);

}  // namespace tw::schedule
