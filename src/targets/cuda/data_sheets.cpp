#include <algorithm>

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

// What one SM does in a cycle. Products of threads and of matrix instructions of warps and warp groups: NVIDIA, "CUDA
// C++ Programming Guide", arithmetic throughput; A100 and H100 data sheets over SMs and boost clock. Shared memory: 32
// banks of 4 bytes; registers: occupancy tables. L2: 64 bytes of an SM (both architecture white papers); of all, A100's
// white paper (5,120), H100's as DeepGEMM's heuristics have it (6,154); the share of each was measured on an H100, and
// is A100's part of all. DRAM: of an H100 measured, 94 % of its data sheet's; that part of the data sheet's of the
// others. Clock: of an H100 under load; boost clock of an A100. A kernel: 2 us, measured on an H100. Reserved: 1 KiB by
// the hardware (Programming Guide), 2 KiB for barriers and what threads combine.
struct SmRow {
  std::string_view name, architecture;
  SmRates rates;  // in the order of its fields
};
constexpr std::array kSmRows = {
    SmRow{"NVIDIA A100-SXM4-40GB", "sm_80", {1.41, 64, 1024, 0, 128, 64, 5120, 47, 9.6, 2820, 65536, 3072}},
    SmRow{"NVIDIA A100 80GB PCIe", "sm_80", {1.41, 64, 1024, 0, 128, 64, 5120, 47, 12, 2820, 65536, 3072}},
    SmRow{"NVIDIA A100-SXM4-80GB", "sm_80", {1.41, 64, 1024, 0, 128, 64, 5120, 47, 12.6, 2820, 65536, 3072}},
    SmRow{"NVIDIA H100 80GB HBM3", "sm_90a", {1.7, 128, 1024, 2048, 128, 64, 6154, 48, 14, 3400, 65536, 3072}},
    SmRow{"NVIDIA H200", "sm_90a", {1.7, 128, 1024, 2048, 128, 64, 6154, 48, 20, 3400, 65536, 3072}},
};

// The row of the GPU that calls itself `gpu`, else the first of `architecture`, else none.
template <typename Rows>
const typename Rows::value_type* find_row(const Rows& rows, std::string_view gpu, std::string_view architecture) {
  const auto named = std::ranges::find_if(rows, [&](const auto& r) { return gpu.starts_with(r.name); });
  if (named != rows.end()) return &*named;
  const auto first = std::ranges::find(rows, architecture, &Rows::value_type::architecture);
  return first == rows.end() ? nullptr : &*first;
}

}  // namespace

SmRates sm_rates(std::string_view gpu, std::string_view architecture) {
  const SmRow* row = find_row(kSmRows, gpu, architecture);
  return row == nullptr ? SmRates() : row->rates;
}

DeviceRates data_sheet(std::string_view gpu, std::string_view architecture) {
  const Row* row = find_row(kRows, gpu, architecture);
  if (row == nullptr) return {};
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
