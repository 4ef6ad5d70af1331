// Words of the text form of te programs, shared by printer and parser (tools/tw-opt).
//
//   te NAME
//   input A: f32[128, 768]
//   C: f32[128, 768] = sum(r0 in 768) over (i0, i1) of (A[i0, r0] * B[r0, i1])
//   Y: f32[128, 768] (i0, i1) = max((C[i0, i1] + bias[i1]), 0:f32)
//   V: f32[8], K: i64[8] = tuple(r0 in 9) from (-inf:f32, 0) over (i0) of (X[i0, r0], r0) by (a, i), (b, j) -> (.., ..)
//   output Y, V
// `from` states an identity that is not the combiner's own. Several outputs have their expressions in parentheses.
#pragma once
#include <array>
#include <string_view>

#include "te/te.h"

namespace tw::te {

inline constexpr std::array<std::string_view, 7> kCombinerNames = {"sum", "prod", "min", "max", "and", "or", "tuple"};

std::string_view combiner_name(CombinerKind kind);

}  // namespace tw::te
