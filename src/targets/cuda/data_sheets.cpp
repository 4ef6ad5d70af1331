#include <algorithm>
#include <array>
#include <string>

#include "targets/registry.h"

namespace tw::targets {
namespace {

// Dense matrix instructions, boost clock; TFLOP/s are flop a ns times 1000. Sources: NVIDIA A100 Tensor Core GPU data
// sheet (2021), H100 Tensor Core GPU data sheet (2023), H200 Tensor Core GPU data sheet (2024).
struct Row {
  std::string_view name;  // prefix of the driver's name
  std::string_view architecture;
  double dram_gb_s;
  double f16_matrix, tf32_matrix, i8_matrix, f64_matrix;  // TFLOP/s of matrix instructions (i8: TOP/s); bf16 as f16
  double f16, f32, f64;                                   // TFLOP/s without matrix instructions
};
// The first row of an architecture stands for it.
constexpr std::array kRows = {
    Row{"NVIDIA A100-SXM4-40GB", "sm_80", 1555, 312, 156, 624, 19.5, 78, 19.5, 9.7},
    Row{"NVIDIA A100-PCIE-40GB", "sm_80", 1555, 312, 156, 624, 19.5, 78, 19.5, 9.7},
    Row{"NVIDIA A100 80GB PCIe", "sm_80", 1935, 312, 156, 624, 19.5, 78, 19.5, 9.7},
    Row{"NVIDIA A100-SXM4-80GB", "sm_80", 2039, 312, 156, 624, 19.5, 78, 19.5, 9.7},
    Row{"NVIDIA H100 80GB HBM3", "sm_90a", 3350, 989.4, 494.7, 1978.9, 66.9, 133.8, 66.9, 33.5},
    Row{"NVIDIA H100 PCIe", "sm_90a", 2000, 756, 378, 1513, 51, 102.4, 51, 26},
    Row{"NVIDIA H200", "sm_90a", 4800, 989.4, 494.7, 1978.9, 66.9, 133.8, 66.9, 33.5},
};

}  // namespace

DeviceRates data_sheet(std::string_view gpu, std::string_view architecture) {
  const Row* row = std::ranges::find_if(kRows, [&](const Row& r) { return gpu.starts_with(r.name); });
  if (row == kRows.end())
    row = std::ranges::find_if(kRows, [&](const Row& r) { return r.architecture == architecture; });
  if (row == kRows.end()) return {};
  constexpr double kPerNs = 1000;  // operations a ns of a TFLOP/s
  DeviceRates rates;
  rates.levels = {{"DRAM", row->dram_gb_s, row->dram_gb_s, row->dram_gb_s}};
  for (const auto& [type, peak] : {std::pair{"f16", row->f16_matrix},
                                   {"bf16", row->f16_matrix},
                                   {"tf32", row->tf32_matrix},
                                   {"i8", row->i8_matrix},
                                   {"f64", row->f64_matrix}})
    rates.peaks.push_back({type, true, peak * kPerNs});
  for (const auto& [type, peak] : {std::pair{"f16", row->f16}, {"f32", row->f32}, {"f64", row->f64}})
    rates.peaks.push_back({type, false, peak * kPerNs});
  rates.from = "data sheet of " + std::string(row->name);
  return rates;
}

}  // namespace tw::targets
