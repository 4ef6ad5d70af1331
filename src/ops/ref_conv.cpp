// Four output positions at a time: their windows are gathered, then multiplied with the filters of each group.
#include "ops/ref_product.h"

namespace tw::ops {
namespace {

// What `count` windows read of the channels of one group: panel[(ic * positions + position) * kPanel + j].
void gather_windows(const double* channels, int64_t channel_count, int64_t area,
                    const std::vector<std::vector<int64_t>>& windows, double* panel) {
  const size_t positions = windows[0].size();
  for (int64_t ic = 0; ic < channel_count; ++ic) {
    for (size_t position = 0; position < positions; ++position, panel += kPanel) {
      for (size_t j = 0; j < windows.size(); ++j)
        panel[j] = windows[j][position] < 0 ? 0 : channels[ic * area + windows[j][position]];
    }
  }
}

// The input offsets of the windows of `count` output positions from `first` on.
std::vector<std::vector<int64_t>> windows_from(const Window& window, int64_t first, int64_t count) {
  std::vector<std::vector<int64_t>> result;
  for (int64_t p = first; p < first + count; ++p) {
    std::vector<int64_t> position(window.rank());
    int64_t rest = p;
    for (size_t d = position.size(); d-- > 0; rest /= window.out[d]) position[d] = rest % window.out[d];
    result.push_back(window_offsets(window, position));
  }
  return result;
}

// y[n, oc, p] for output positions first .. first + kPanel - 1 that exist, all batches and channels.
void convolve_panel(const Window& window, const Channels& channels, const double* x, const double* w, double* y,
                    int64_t first) {
  const int64_t area = num_elements(window.in);
  const int64_t positions = num_elements(window.out);
  const int64_t k_count = channels.each() * num_elements(window.kernel);
  const int64_t out_channels = channels.out_each();
  const auto windows = windows_from(window, first, std::min<int64_t>(kPanel, positions - first));
  std::vector<double> panel(k_count * kPanel);
  std::vector<double> sums(out_channels * kPanel);
  for (int64_t ng = 0; ng < channels.batch * channels.group; ++ng) {
    gather_windows(x + ng * channels.each() * area, channels.each(), area, windows, panel.data());
    multiply_panel(w + ng % channels.group * out_channels * k_count, out_channels, k_count, panel.data(), sums.data());
    double* out = y + ng * out_channels * positions + first;
    for (int64_t oc = 0; oc < out_channels; ++oc) {
      for (size_t j = 0; j < windows.size(); ++j)
        out[oc * positions + static_cast<int64_t>(j)] = sums[oc * kPanel + static_cast<int64_t>(j)];
    }
  }
}

}  // namespace

void convolve(const Window& window, const Channels& channels, const double* x, const double* w, double* y) {
  const int64_t positions = num_elements(window.out);
  const int64_t cost = kPanel * num_elements(window.kernel) * channels.each() * channels.out_channels * channels.batch;
  parallel_ranges((positions + kPanel - 1) / kPanel, cost, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) convolve_panel(window, channels, x, w, y, p * kPanel);
  });
}

}  // namespace tw::ops
