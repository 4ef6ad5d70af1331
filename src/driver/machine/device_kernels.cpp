#include "driver/machine/device_kernels.h"

#include "support/error.h"

namespace tw::driver::machine {
namespace {

constexpr int64_t kBlocksPerSm = 4;  // blocks of kMoveThreads threads: full occupancy
constexpr int64_t kVectorThreads = 256;
constexpr int64_t kVectorBlocks = 8;  // of an SM
constexpr int64_t kChains = 8;        // independent sums of a thread
constexpr int64_t kSteps = 4096;
constexpr int64_t kWarp = 32;
constexpr int64_t kGroupSteps = 512;    // of a warp group: four instructions each
constexpr int64_t kGroupColumns = 256;  // of its instruction, the widest there is
constexpr int64_t kGroupRows = 64;
constexpr int64_t kGroups = 2;  // of a block: one issues while the other waits
constexpr int64_t kLine = 128;  // bytes of a row of operands in shared memory
constexpr int64_t kGroupShared = (kGroupRows + kGroupColumns) * kLine + 1024;  // and room to align it

// Volatile: neither moved out of the passes nor left out.
constexpr std::string_view kMoves = R"(
__device__ __forceinline__ uint4 tw_load(const uint4* from) {
  uint4 x;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
  return x;
}
template <long Bytes, int Passes> __device__ void tw_read(const uint4* from, uint4* out) {
  uint4 sum = {0, 0, 0, 0};
  const long threads = (long)gridDim.x * blockDim.x, at = (long)blockIdx.x * blockDim.x + threadIdx.x;
  for (int pass = 0; pass < Passes; ++pass)
#pragma unroll 4
    for (long i = at; i < Bytes / 16; i += threads) {
      const uint4 x = tw_load(from + i);
      sum.x ^= x.x; sum.y ^= x.y; sum.z ^= x.z; sum.w ^= x.w;
    }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) out[at] = sum;
}
template <long Bytes, int Passes> __device__ void tw_write(uint4* out) {
  const long threads = (long)gridDim.x * blockDim.x, at = (long)blockIdx.x * blockDim.x + threadIdx.x;
  for (int pass = 0; pass < Passes; ++pass)
#pragma unroll 4
    for (long i = at; i < Bytes / 16; i += threads)
      asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" : : "l"(out + i), "r"((unsigned)i + pass) : "memory");
}
template <long Bytes, int Passes> __device__ void tw_copy(const uint4* from, uint4* to) {
  const long threads = (long)gridDim.x * blockDim.x, at = (long)blockIdx.x * blockDim.x + threadIdx.x;
  for (int pass = 0; pass < Passes; ++pass)
#pragma unroll 4
    for (long i = at; i < Bytes / 32; i += threads) {
      const uint4 x = tw_load(from + i);
      asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" : : "l"(to + i), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
    }
}
extern "C" __global__ void tw_nothing(const unsigned*) {}
)";

// One step of one chain: {1} words a register, operands x and y.
std::string vector_step(const std::string& type) {
  if (type == "f32") return "asm volatile(\"fma.rn.f32 %0, %0, %1, %2;\" : \"+f\"(sum[c]) : \"f\"(x), \"f\"(y));";
  if (type == "f64") return "asm volatile(\"fma.rn.f64 %0, %0, %1, %2;\" : \"+d\"(sum[c]) : \"d\"(x), \"d\"(y));";
  return fmt::format("asm volatile(\"fma.rn.{}x2 %0, %0, %1, %2;\" : \"+r\"(sum[c]) : \"r\"(x), \"r\"(y));", type);
}

std::string vector_kernel(const ComputeKernel& kernel) {
  const std::string& type = kernel.peak.type;
  const std::string word = type == "f32" ? "float" : type == "f64" ? "double" : "unsigned";
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({0}) {1}({2}* seeds, {2}* out) {{
  {2} sum[{3}];
  const {2} x = seeds[0], y = seeds[1];
#pragma unroll
  for (int c = 0; c < {3}; ++c) sum[c] = seeds[threadIdx.x % 32 + c];
  for (int k = 0; k < {4}; ++k) {{
#pragma unroll
    for (int c = 0; c < {3}; ++c) {5}
  }}
  {2} all = sum[0];
#pragma unroll
  for (int c = 1; c < {3}; ++c) all = all + sum[c];
  if (all == ({2})0x1234567) out[threadIdx.x] = all;
}}
)",
                     kernel.threads, kernel.name, word, kChains, kSteps, vector_step(type));
}

// An instruction of one warp: its shape, and how many registers hold each operand.
struct WarpMatrix {
  std::string_view type;
  std::string_view instruction;
  int64_t m, n, k;
  int sums, left, right;
  std::string_view word;  // of a register: of the sums, and of the factors of f64
  char constraint;
};
constexpr WarpMatrix kWarpMatrices[] = {
    {"f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 4, 4, 2, "float", 'f'},
    {"bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 4, 4, 2, "float", 'f'},
    {"tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 4, 4, 2, "float", 'f'},
    {"i8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, 4, 4, 2, "int", 'r'},
    {"f64", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 2, 1, 1, "double", 'd'},
};
// Since sm_90 there is a larger one, four times as much in one instruction.
constexpr WarpMatrix kWideF64 = {
    "f64", "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", 16, 8, 16, 4, 8, 4, "double", 'd'};

WarpMatrix warp_matrix(const std::string& type, const TargetInfo& target) {
  if (type == "f64" && has_feature(target, "wgmma")) return kWideF64;
  for (const WarpMatrix& row : kWarpMatrices) {
    if (row.type == type) return row;
  }
  throw InternalError("no matrix instruction of " + type);
}

// "%4, %5, %6", from register `first` on.
std::string registers(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}", i > 0 ? ", " : "", first + i);
  return text;
}

std::string operands(std::string_view constraint, std::string_view array, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}\"{}\"({}[{}])", i > 0 ? ", " : "", constraint, array, i);
  return text;
}

std::string warp_kernel(const ComputeKernel& kernel, const WarpMatrix& row) {
  const bool is_f64 = row.type == "f64";
  const std::string factor = is_f64 ? "double" : "unsigned", constraint = is_f64 ? "d" : "r";
  const std::string instruction =
      fmt::format("asm volatile(\"{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\" : {} : {}, {});", row.instruction,
                  registers(0, row.sums), registers(row.sums, row.left), registers(row.sums + row.left, row.right),
                  registers(0, row.sums), operands(fmt::format("+{}", row.constraint), "sum[c]", row.sums),
                  operands(constraint, "a", row.left), operands(constraint, "b", row.right));
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({0}) {1}(const {2}* seeds, {3}* out) {{
  {2} a[{4}], b[{5}];
  {3} sum[{6}][{7}];
#pragma unroll
  for (int i = 0; i < {4}; ++i) a[i] = seeds[threadIdx.x % 32 * 2 + i];
#pragma unroll
  for (int i = 0; i < {5}; ++i) b[i] = seeds[threadIdx.x % 32 * 2 + 3 + i];
#pragma unroll
  for (int c = 0; c < {6}; ++c)
#pragma unroll
    for (int i = 0; i < {7}; ++i) sum[c][i] = 0;
  for (int k = 0; k < {8}; ++k) {{
#pragma unroll
    for (int c = 0; c < {6}; ++c) {9}
  }}
  {3} all = 0;
#pragma unroll
  for (int c = 0; c < {6}; ++c)
#pragma unroll
    for (int i = 0; i < {7}; ++i) all = all + sum[c][i];
  if (all == ({3})0x1234567) out[threadIdx.x] = all;
}}
)",
                     kernel.threads, kernel.name, factor, row.word, row.left, row.right, kChains, row.sums, kSteps,
                     instruction);
}

// An instruction of a warp group: 32 bytes of each row of its operands, which are stored in swizzled lines of 128
// bytes.
struct GroupMatrix {
  std::string_view type;
  std::string_view instruction;  // without its shape
  int64_t k;
  bool integers;
  std::string_view word;  // of a random word `x` in shared memory: numbers of moderate size
};
constexpr GroupMatrix kGroupMatrices[] = {
    {"f16", "f32.f16.f16", 16, false, "(x & 0x83ff83ffu) | 0x3c003c00u"},
    {"bf16", "f32.bf16.bf16", 16, false, "(x & 0x807f807fu) | 0x3f803f80u"},
    {"tf32", "f32.tf32.tf32", 8, false, "(x & 0x807fe000u) | 0x3f800000u"},
    {"i8", "s32.s8.s8", 32, true, "x"},
};

const GroupMatrix* group_matrix(const std::string& type, const TargetInfo& target) {
  if (!has_feature(target, "wgmma")) return nullptr;
  for (const GroupMatrix& row : kGroupMatrices) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

// PTX ISA, "Asynchronous warpgroup level matrix instructions": descriptors name the address in 16 bytes, the distance
// of eight rows (1024 bytes) and the swizzle of 128 bytes. f16 and bf16 also say how their operands are transposed:
// not.
std::string group_kernel(const ComputeKernel& kernel, const GroupMatrix& row) {
  const int sums = kGroupColumns / 2;
  const std::string sum = row.integers ? "int" : "float", constraint = row.integers ? "+r" : "+f";
  const std::string tail = row.integers ? "p" : row.type == "tf32" ? "p, 1, 1" : "p, 1, 1, 0, 0";
  const std::string instruction = fmt::format(
      "asm volatile(\"{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n{}k{}.{} {{{}}}, %{}, "
      "%{}, {}; }}\" : {} : \"l\"(a + 2 * s), \"l\"(b + 2 * s));",
      kGroupColumns, row.k, row.instruction, registers(0, sums), sums, sums + 1, tail,
      operands(constraint, "sum", sums));
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({0}) {1}(const unsigned* seeds, {2}* out) {{
  extern __shared__ unsigned char tw_memory[];
  const unsigned base = ((unsigned)__cvta_generic_to_shared(tw_memory) + 1023u) / 1024u * 1024u;
  for (unsigned i = threadIdx.x; i < {3}; i += {0}) {{
    unsigned x = seeds[i % 1024] + i * 2654435761u;
    x ^= x >> 15; x *= 2246822519u; x ^= x >> 13;
    x = {4};
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(base + i * 4), "r"(x) : "memory");
  }}
  asm volatile("fence.proxy.async;" : : : "memory");
  __syncthreads();
  const unsigned long long kind = (unsigned long long)(64u | 1u << 30) << 32 | 1u << 16;
  const unsigned long long a = kind | base / 16, b = kind | (base + {5}) / 16;
  {2} sum[{6}];
#pragma unroll
  for (int i = 0; i < {6}; ++i) sum[i] = 0;
  for (int k = 0; k < {7}; ++k) {{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#pragma unroll
    for (int s = 0; s < 4; ++s) {8}
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
  }}
  {2} all = 0;
#pragma unroll
  for (int i = 0; i < {6}; ++i) all = all + sum[i];
  if (all == ({2})0x1234567) out[threadIdx.x] = all;
}}
)",
                     kernel.threads, kernel.name, sum, (kGroupRows + kGroupColumns) * kLine / 4, row.word,
                     kGroupRows * kLine, sums, kGroupSteps, instruction);
}

std::string move_kernel(const MoveKernel& kernel) {
  const std::string shape = fmt::format("<{}l, {}>", kernel.bytes, kernel.passes);
  const std::string head =
      fmt::format("\nextern \"C\" __global__ void __launch_bounds__({}) {}", kMoveThreads, kernel.name);
  switch (kernel.move) {
    case Move::kRead:
      return fmt::format("{}(const uint4* from, uint4* out) {{ tw_read{}(from, out); }}\n", head, shape);
    case Move::kWrite:
      return fmt::format("{}(uint4* out) {{ tw_write{}(out); }}\n", head, shape);
    case Move::kCopy:
      return fmt::format("{}(const uint4* from, uint4* to) {{ tw_copy{}(from, to); }}\n", head, shape);
  }
  return {};
}

ComputeKernel vector_of(const std::string& type, const TargetInfo& target) {
  ComputeKernel kernel{"tw_vector_" + type, {type, false, 0}, kVectorThreads, kVectorBlocks * target.compute_units};
  const double lanes = type == "f16" || type == "bf16" ? 2 : 1;
  kernel.operations = 2 * lanes * static_cast<double>(kernel.threads * kernel.blocks * kChains * kSteps);
  return kernel;
}

ComputeKernel matrix_of(const std::string& type, const TargetInfo& target) {
  ComputeKernel kernel{"tw_matrix_" + type, {type, true, 0}, kVectorThreads, 2 * target.compute_units};
  if (const GroupMatrix* row = group_matrix(type, target)) {
    kernel.threads = kGroups * 4 * kWarp;
    kernel.blocks = target.compute_units;
    kernel.shared_bytes = kGroupShared;
    kernel.operations =
        2.0 * static_cast<double>(kGroupRows * kGroupColumns * row->k * 4 * kGroupSteps * kGroups * kernel.blocks);
    return kernel;
  }
  const WarpMatrix row = warp_matrix(type, target);
  const int64_t warps = kernel.threads * kernel.blocks / kWarp;
  kernel.operations = 2.0 * static_cast<double>(row.m * row.n * row.k * kChains * kSteps * warps);
  return kernel;
}

}  // namespace

int64_t move_blocks(const TargetInfo& target) { return kBlocksPerSm * target.compute_units; }

std::vector<ComputeKernel> compute_kernels(const TargetInfo& target) {
  std::vector<ComputeKernel> kernels;
  for (const char* type : {"f16", "bf16", "tf32", "i8", "f64"}) kernels.push_back(matrix_of(type, target));
  // Fused multiply-adds of bf16 came with sm_80, like everything here.
  for (const char* type : {"f16", "bf16", "f32", "f64"}) kernels.push_back(vector_of(type, target));
  return kernels;
}

std::string device_source(const TargetInfo& target, const std::vector<MoveKernel>& moves,
                          const std::vector<ComputeKernel>& computes) {
  std::string text(kMoves);
  for (const MoveKernel& kernel : moves) text += move_kernel(kernel);
  for (const ComputeKernel& kernel : computes) {
    const GroupMatrix* group = kernel.peak.matrix ? group_matrix(kernel.peak.type, target) : nullptr;
    text += !kernel.peak.matrix ? vector_kernel(kernel)
            : group != nullptr  ? group_kernel(kernel, *group)
                                : warp_kernel(kernel, warp_matrix(kernel.peak.type, target));
  }
  return text;
}

}  // namespace tw::driver::machine
