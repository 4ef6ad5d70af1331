#include "ops/ref_product.h"

namespace tw::ops {
namespace {

// A block of `rows` rows; all sums stay in registers.
template <int rows>
void multiply_rows(const double* __restrict a, int64_t k_count, const double* __restrict panel,
                   double* __restrict out) {
  double sum[rows][kPanel] = {};
  for (int64_t k = 0; k < k_count; ++k) {
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < kPanel; ++j) sum[r][j] += a[r * k_count + k] * panel[k * kPanel + j];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < kPanel; ++j) out[r * kPanel + j] = sum[r][j];
  }
}

}  // namespace

void multiply_panel(const double* a, int64_t rows, int64_t k_count, const double* panel, double* out) {
  constexpr int kRows = 4;
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) multiply_rows<kRows>(a + row * k_count, k_count, panel, out + row * kPanel);
  for (; row < rows; ++row) multiply_rows<1>(a + row * k_count, k_count, panel, out + row * kPanel);
}

}  // namespace tw::ops
