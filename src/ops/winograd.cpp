#include "ops/winograd.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace tw::ops {
namespace {

using Points = std::vector<double>;  // 0, then pairs p, -p
using Polynomial = std::vector<double>;

// (x - p) * a, lowest coefficient first.
Polynomial times_root(const Polynomial& a, double p) {
  Polynomial out(a.size() + 1, 0.0);
  for (size_t i = 0; i < a.size(); ++i) {
    out[i + 1] += a[i];
    out[i] -= p * a[i];
  }
  return out;
}

// Row j of B^T: the product of x - p over all points but the j-th; of all for infinity, j = points.size().
Polynomial product_without(const Points& points, size_t j) {
  Polynomial out{1};
  for (size_t k = 0; k < points.size(); ++k) {
    if (k != j) out = times_root(out, points[k]);
  }
  return out;
}

Winograd make(const Points& points) {
  Winograd w;
  w.m = static_cast<int64_t>(points.size()) - 1;
  const size_t n = points.size();
  w.output.assign(w.m, std::vector<double>(n + 1, 0.0));
  for (size_t j = 0; j <= n; ++j) {
    Polynomial row = product_without(points, j);
    row.resize(n + 1);
    w.input.push_back(std::move(row));
  }
  for (size_t j = 0; j < n; ++j) {
    double divisor = 1;
    for (size_t k = 0; k < n; ++k) divisor *= k == j ? 1 : points[j] - points[k];
    w.weights.push_back({1 / divisor, points[j] / divisor, points[j] * points[j] / divisor});
    for (int64_t i = 0; i < w.m; ++i) w.output[i][j] = i == 0 ? 1 : std::pow(points[j], static_cast<double>(i));
  }
  w.weights.push_back({0, 0, 1});
  w.output[w.m - 1][n] = 1;
  return w;
}

Expr scaled(const Expr& x, double factor) {
  if (factor == 1) return x;
  return factor == -1 ? -x : x * imm(x.type(), factor);
}

// sum + factor * x; sum may be null.
Expr add_scaled(const Expr& sum, const Expr& x, double factor) {
  if (!sum) return scaled(x, factor);
  if (factor == 1) return sum + x;
  return factor == -1 ? sum - x : fma(x, imm(x.type(), factor), sum);
}

// sum of row[k] * x[k] / divisor over k = first, first + step, ..; the last term first, so that it needs no product
// where its quotient is 1.
Expr combination(const std::vector<double>& row, const std::vector<Expr>& x, size_t first, size_t step,
                 double divisor = 1) {
  Expr sum;
  for (size_t k = x.size(); k-- > 0;) {
    if (k >= first && (k - first) % step == 0 && row[k] != 0) sum = add_scaled(sum, x[k], row[k] / divisor);
  }
  return sum;
}

// out[p, ..] = sum over r of matrix[p][r] * in[r, ..], both row-major with 3 rows in `in`.
void apply_rows(const Winograd::Matrix& matrix, const std::vector<double>& in, std::vector<double>& out) {
  const size_t run = in.size() / 3;
  for (size_t p = 0; p < matrix.size(); ++p) {
    const std::vector<double>& g = matrix[p];
    for (size_t i = 0; i < run; ++i) out[p * run + i] = g[0] * in[i] + g[1] * in[run + i] + g[2] * in[2 * run + i];
  }
}

double last_of_odd(const std::vector<double>& row) {
  for (size_t k = row.size(); k-- > 0;) {
    if (k % 2 == 1 && row[k] != 0) return row[k];
  }
  return 1;
}

}  // namespace

const Winograd& winograd(int64_t m) {
  static const Winograd two = make({0, 1, -1});
  static const Winograd four = make({0, 0.625, -0.625, 1.625, -1.625});
  TW_CHECK(m == 2 || m == 4, "there is no Winograd convolution with tiles of {} x {}", m, m);
  return m == 2 ? two : four;
}

double winograd_growth(int64_t m) {
  const Winograd& w = winograd(m);
  double worst = 0;
  for (const std::vector<double>& out : w.output) {
    double sum = 0;
    for (size_t p = 0; p < w.input.size(); ++p) {
      double g = 0;
      double b = 0;
      for (const double x : w.weights[p]) g = std::max(g, std::fabs(x));
      for (const double x : w.input[p]) b += std::fabs(x);
      sum += std::fabs(out[p]) * g * b;
    }
    worst = std::max(worst, sum);
  }
  return worst * worst;
}

Shape winograd_weights_shape(const Shape& w, int64_t m) {
  Shape u{m + 2, m + 2};
  if (w.size() == 5) u.push_back(w[2]);
  u.push_back(w[1]);
  u.push_back(w[0]);
  return u;
}

// For one (position, channel) after the other, all output channels together: rows of u are contiguous along them.
void transform_winograd_weights(const Shape& w_shape, int64_t m, const float* w, float* u) {
  const Winograd& matrices = winograd(m);
  const int64_t n = matrices.points();
  const int64_t out_channels = w_shape[0];
  const int64_t channels = w_shape[1];
  const int64_t depth = w_shape.size() == 5 ? w_shape[2] : 1;
  const int64_t each = depth * channels * out_channels;
  std::vector<double> kernels(9 * out_channels);        // [r, s, oc]
  std::vector<double> rows(3 * n * out_channels, 0.0);  // [p, s, oc]
  for (int64_t k = 0; k < depth * channels; ++k) {
    const float* first = w + (k % channels * depth + k / channels) * 9;
    for (int64_t oc = 0; oc < out_channels; ++oc) {
      for (int64_t rs = 0; rs < 9; ++rs) kernels[rs * out_channels + oc] = first[oc * channels * depth * 9 + rs];
    }
    apply_rows(matrices.weights, kernels, rows);
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = 0; q < n; ++q) {
        const std::vector<double>& g = matrices.weights[q];
        const double* row = &rows[p * 3 * out_channels];
        float* out = u + (p * n + q) * each + k * out_channels;
        for (int64_t oc = 0; oc < out_channels; ++oc) {
          const double y = g[0] * row[oc] + g[1] * row[out_channels + oc] + g[2] * row[2 * out_channels + oc];
          out[oc] = static_cast<float>(y);
        }
      }
    }
  }
}

std::vector<Expr> winograd_input(const Winograd& w, const std::vector<Expr>& d) {
  std::vector<Expr> out;
  out.push_back(combination(w.input[0], d, 0, 1));
  for (size_t row = 1; row + 1 < d.size(); row += 2) {  // of p and -p: even part plus and minus odd part
    const double divisor = last_of_odd(w.input[row]);
    const Expr even = combination(w.input[row], d, 0, 2);
    const Expr odd = combination(w.input[row], d, 1, 2, divisor);
    out.push_back(add_scaled(even, odd, divisor));
    out.push_back(add_scaled(even, odd, -divisor));
  }
  out.push_back(combination(w.input.back(), d, 0, 1));
  return out;
}

std::vector<Expr> winograd_output(const Winograd& w, const std::vector<Expr>& v) {
  std::vector<Expr> sums;
  std::vector<Expr> differences;
  for (size_t p = 1; p + 1 < v.size(); p += 2) {
    sums.push_back(v[p] + v[p + 1]);
    differences.push_back(v[p] - v[p + 1]);
  }
  std::vector<Expr> out;
  for (int64_t i = 0; i < w.m; ++i) {
    const std::vector<double>& row = w.output[i];
    Expr sum = row[0] != 0 ? v[0] : Expr();
    if (row.back() != 0) sum = sum ? sum + v.back() : v.back();
    const std::vector<Expr>& pairs = i % 2 == 0 ? sums : differences;
    for (size_t q = 0; q < pairs.size(); ++q) sum = add_scaled(sum, pairs[q], row[2 * q + 1]);
    out.push_back(sum);
  }
  return out;
}

}  // namespace tw::ops
