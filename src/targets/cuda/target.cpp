// NVIDIA architectures. Registers and shared memory of one multiprocessor from NVIDIA's occupancy tables, memory from
// the data sheets of the A100 (40 GB) and the H100 SXM (80 GB).
#include "targets/registry.h"

namespace tw::targets {
namespace {

TargetInfo make_architecture(const std::string& name, int multiprocessors, int64_t l1_bytes, int64_t l2_bytes,
                             int64_t dram_bytes) {
  TargetInfo info;
  info.kind = DeviceKind::kCuda;
  info.name = "cuda:" + name;
  info.vector_bytes = 16;  // widest access of one thread
  info.vector_registers = 255;
  info.compute_units = multiprocessors;
  info.levels = {{"L1", l1_bytes, 128, 4}, {"L2", l2_bytes, 128, 16}, {"DRAM", dram_bytes, 128, 0}};
  info.levels[1].shared = info.levels[2].shared = true;
  info.sm = sm_rates("", name);
  info.device = data_sheet("", name);
  info.parameters_from = "defaults of " + name;
  return info;
}

const construct::Constructor kFamilies[] = {
    {"row-products", construct::construct_row_products},
    {"chain", construct::construct_gpu_chain},
    {"reduced", construct::construct_gpu_reduced},
    {"packed", construct::construct_gpu_packed},
    {"contraction", construct::construct_gpu_contraction, construct::sample_gpu_contraction},
    {"sums", construct::construct_gpu_sums},
    {"row-sums", construct::construct_gpu_row_sums},
    {"scatter", construct::construct_gpu_scatter},
    {"columns", construct::construct_gpu_columns},
    {"rows", construct::construct_gpu_rows},
    {"thread-rows", construct::construct_thread_rows},
    {"transpose", construct::construct_gpu_transpose},
    {"point", construct::construct_point},
    {"cutlass", construct_templates, nullptr, construct::FamilyKind::kJoins},
    {"cublaslt", construct::construct_cublaslt, nullptr, construct::FamilyKind::kJoins},
    {"cudnn", construct::construct_cudnn, nullptr, construct::FamilyKind::kJoins},
};

}  // namespace

std::vector<TargetInfo> cuda_architectures() {
  std::vector<TargetInfo> all = {make_architecture("sm_80", 108, 164 * 1024, 40 * 1024 * 1024, int64_t{40} << 30),
                                 make_architecture("sm_90a", 132, 228 * 1024, 50 * 1024 * 1024, int64_t{80} << 30)};
  // Matrix instructions of f32 rounded to tf32; those of four warps and TMA copies, both asynchronous; kernels that
  // start before the last one ends.
  all.front().features = {"tf32"};
  all.back().features = {"tf32", "wgmma", "tma", "dependent-launch"};
  return all;
}

std::span<const construct::Constructor> cuda_families() { return kFamilies; }

}  // namespace tw::targets
