// Small te programs of every kind, random values and random layouts for the te tests.
#pragma once
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "te/te.h"
#include "tests/harness/te_evaluate.h"

namespace tw::te::samples {

using Random = std::mt19937_64;

/// lo..hi, both included.
int64_t pick(Random& random, int64_t lo, int64_t hi);

/// How a body keeps off the elements outside its tensor.
enum class Guard { kSelect, kPredicate };
enum class Padding { kNone, kAllowed };

Program matmul_bias_relu(int64_t m, int64_t n, int64_t k);
/// Convolution with stride, dilation and zero padding by a guarded read, then bias.
Program conv(int64_t channels, int64_t size, int64_t out_channels, int64_t stride, int64_t dilation, Guard guard);
/// Maximum over 3x3 windows with stride 2 and -inf outside.
Program max_pool(int64_t channels, int64_t size);
/// transpose, then add with the operand transposed.
Program transpose_add(int64_t a, int64_t b, int64_t c);
/// Largest value and its first index along the last dimension.
Program argmax(int64_t rows, int64_t columns);
/// exp(x - max) / sum over the last dimension: two reductions and element-wise computes.
Program softmax(int64_t rows, int64_t columns);
/// Integer gather with an index tensor, concatenation by select, product and min reductions.
Program gather_concat(int64_t rows, int64_t columns);
/// One program of each kind with random odd extents.
std::vector<Program> all(Random& random);

/// Small integers, exact under any order of summation. Index inputs (named "index") stay below `rows`.
ValueMap random_inputs(const Program& program, Random& random, int64_t rows);
/// A random sequence of split, reorder, fuse and, with padding, pad, partial unpad, unfold and fold that fits `shape`.
Layout random_layout(const Shape& shape, Random& random, Padding padding);

/// The values brought into a layout by materialize(); padding holds `fill`, and what is attached is one of `slices`.
TensorValues in_layout(const TensorValues& values, const Layout& layout, double fill, const ValueMap& slices = {});
/// Same type, shape and values (NaN equals NaN).
bool same(const TensorValues& a, const TensorValues& b);

}  // namespace tw::te::samples
