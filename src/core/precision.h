// How far a compiled model may depart from the operators as the model states them: a contract that the user chooses.
#pragma once
#include <cstdint>

namespace tw {

enum class Precision : uint8_t {
  kStrict,   // sums in another order at most: no algorithm whose error bound is larger than the operator's own
  kDefault,  // algorithms with a larger, documented bound, as Winograd convolution: verify knows the bound of each and
             // of the operator; NaN, infinities and numbers far larger than others reach only the outputs that read
             // them; on GPUs functions whose approximation hides in a rounding to 16 bits
             // (docs/internals/vector-math.md); on CPUs results below the smallest normal number are zero: some compute
             // a hundred times slower with them
  kFast,  // as default, and matrix products of f32 may round their operands where the target multiplies those faster,
          // and the compiler says so: on CPUs products with constant weights to bf16, a relative error of 2^-7 in each
          // product, on GPUs also convolutions to tf32, constants to the nearest, others toward zero: 2^-9
};

}  // namespace tw
