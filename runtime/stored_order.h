// States whose dims are stored in another order than row-major: to rows, as callers see them, and back.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/format/container.h"

namespace tw::runtime {

/// All elements of `state`, which `stored` has in the order State::order, row by row; and in that order those that
/// `rows` has row by row.
std::vector<uint8_t> rows_of(const format::State& state, format::Bytes stored);
std::vector<uint8_t> stored_of(const format::State& state, format::Bytes rows);

}  // namespace tw::runtime
