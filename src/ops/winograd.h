// The matrices of Winograd convolution F(m x m, 3 x 3): a tile of m x m outputs from (m + 2) x (m + 2) inputs d and the
// 3 x 3 kernel w, with (m + 2)^2 multiplications instead of 9 m^2:
//   Y = A^T [(G w G^T) * (B^T d B)] A        (* element by element)
// Made by Toom and Cook's rule from interpolation points p_0 .. p_m and infinity. Source: Lavin and Gray, Fast
// Algorithms for Convolutional Neural Networks, 2016.
//
// The transforms mix all inputs of a tile, and their rounding errors are those of the largest one: of an output that
// does not read it, too. A tile is uneven where that matters: where some output reads less than 1/kWinogradSpread of
// the tile's energy, the sum over its inputs of (scale x)^2, scale the size of the weights of x's channel; where the
// energy is no finite number; of NaN and infinities both. Outputs of uneven tiles are computed by direct sums. Energies
// are those of squares of 2 x 2 inputs: every 3 x 3 window of a tile holds one of them. Inputs below some 1e-19 in
// magnitude have an energy of 0.
#pragma once
#include <vector>

#include "expr/expr.h"
#include "graph/op.h"

namespace tw::ops {

struct Winograd {
  using Matrix = std::vector<std::vector<double>>;
  int64_t m = 2;   // outputs along each axis of a tile
  Matrix input;    // B^T, (m + 2) x (m + 2); its entries are exact in f32
  Matrix weights;  // G, (m + 2) x 3
  Matrix output;   // A^T, m x (m + 2); exact in f32
  int64_t points() const { return m + 2; }
};

/// The matrices for m = 2 (points 0, 1, -1) and m = 4 (points 0, 5/8, -5/8, 13/8, -13/8); InternalError for another m.
/// The points of m = 4 were chosen among the pairs of multiples of 1/8 for the least rounding error: 1.7 times that of
/// direct summation on normal data, where the usual 1 and 2 give 3.8 times.
const Winograd& winograd(int64_t m);

/// How much larger than that of direct summation the error may be: an output element differs from its exact value by at
/// most winograd_growth(m) * u * sqrt(9 C) * sum over channels of (max|d| over the tile * sum|w|), u the unit roundoff.
/// The product of both axes of max_i sum_p |A^T_ip| max_r |G_pr| sum_q |B^T_pq|.
double winograd_growth(int64_t m);

/// B^T d and A^T v for columns of expressions. Rows of points p and -p share their even and odd parts, as the same
/// nodes; there is no multiplication by 0, 1 or -1.
std::vector<Expr> winograd_input(const Winograd& w, const std::vector<Expr>& d);
std::vector<Expr> winograd_output(const Winograd& w, const std::vector<Expr>& v);

/// The shape of the transformed weights of w [OC, C, (KD,) 3, 3]: [m + 2, m + 2, (KD,) C, OC].
Shape winograd_weights_shape(const Shape& w, int64_t m);

/// u[p, q, .., c, oc] = (G w G^T)[p, q] of every kernel, computed in f64 and rounded once. Row-major arrays of the
/// shapes above.
void transform_winograd_weights(const Shape& w_shape, int64_t m, const float* w, float* u);

/// The energy of a tile over that of what one output reads, at most. The size of an output is about sqrt(energy of what
/// it reads * squares of weights), its error sqrt(energy of the tile ..) times a few units roundoff: at most 2^6 times
/// as large as of inputs of one size, 1e-4 of the output's size.
inline constexpr double kWinogradSpread = 4096;

/// Inputs of winograd_conv.
inline constexpr size_t kWinogradX = 0, kWinogradTransformed = 1, kWinogradKernels = 2, kWinogradScales = 3,
                        kWinogradBias = 4;

/// The sizes of the weights w [OC, C, (KD,) 3, 3] of each channel: root mean squares over the largest of them.
std::vector<float> winograd_scales(const Shape& w_shape, const float* w);

/// Whether kernels are as even as tiles must be: finite, far from overflow, and those filter positions that an output
/// at an edge does not multiply by padding hold 1/kWinogradSpread of each output channel's energy.
bool suits_winograd(const Shape& w_shape, const float* w);

/// For a call of winograd_conv, what multiplies u * sqrt(9 C) in the bound of the error of each output element: of an
/// even tile winograd_growth(m) * the sum over channels (and depth positions) of max|d| over the tile's inputs times
/// the sum of |w| over the kernel; of an uneven one direct_magnitude, the sum of |x w|.
std::vector<double> winograd_magnitude(const graph::OpCall& call, std::span<const graph::RefTensor> inputs);
std::vector<double> direct_magnitude(const graph::OpCall& call, std::span<const graph::RefTensor> inputs);

}  // namespace tw::ops
