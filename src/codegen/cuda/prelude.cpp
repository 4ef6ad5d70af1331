// The device functions that emitted text calls. Those that a kernel does not call leave nothing in its code.
#include <fmt/format.h>

#include "codegen/cuda/emit_expr.h"

namespace tw::codegen {
namespace {

// min and max give NaN when either side is NaN; floor division rounds to minus infinity; float to integer saturates.
constexpr std::string_view kArithmetic = R"(
template <typename T> __device__ inline T tw_min(T a, T b) { return (a < b || a != a) ? a : b; }
template <typename T> __device__ inline T tw_max(T a, T b) { return (a > b || a != a) ? a : b; }
__device__ inline float tw_min(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
__device__ inline float tw_max(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
__device__ inline float tw_sqrt(float x) { return __fsqrt_rn(x); }
__device__ inline double tw_sqrt(double x) { return __dsqrt_rn(x); }
// Approximations of a few units in the last place: without branches to slow paths (src/expr/elementary.cpp has the bounds).
__device__ inline float tw_exp2_approx(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ inline float tw_quotient_approx(float a, float b) { float y; asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
__device__ inline float tw_reciprocal_approx(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
template <typename T> __device__ inline T tw_floor_div(T a, T b) { T q = a / b; return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q; }
template <typename T> __device__ inline T tw_floor_mod(T a, T b) { return a - b * tw_floor_div(a, b); }
template <typename To, typename From> __device__ inline To tw_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "same width");
  To out; memcpy(&out, &x, sizeof(out)); return out;
}
template <typename To, typename From> __device__ inline To tw_saturate(From x, double low, double high, To lowest, To highest) {
  if (x != x) return To(0);
  if (double(x) <= low) return lowest;
  if (double(x) >= high) return highest;
  return To(x);
}
__device__ inline float tw_f16_to_f32(unsigned short x) {
  float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y;
}
__device__ inline unsigned short tw_f32_to_f16(float x) {
  unsigned short y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y;
}
__device__ inline float tw_bf16_to_f32(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
__device__ inline unsigned short tw_f32_to_bf16(float x) {
  unsigned short y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y;
}
)";

// Kernels may start while the blocks of the last one end, and wait for what it has stored (PTX ISA, "griddepcontrol").
// Blocks that start earlier, when the last kernel allows it from its begin on, cost more than they win (H100: BERT-base
// .88 ms instead of .81).
constexpr std::string_view kBegin = R"(
__device__ inline void tw_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}
)";

constexpr std::string_view kVectors = R"(
// N elements; whole ones move in accesses of up to 16 bytes.
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) tw_vec { T v[N]; };
// Words of memory that nothing writes, where they are wanted: a load without a branch, whose words stay whole until their
// elements are used. It stays behind tw_begin().
template <int N> __device__ inline void tw_words_if(unsigned* to, bool wanted, const unsigned* from) {
  if constexpr (N > 4) {
    tw_words_if<4>(to, wanted, from);
    tw_words_if<N - 4>(to + 4, wanted, from + 4);
  } else if constexpr (N == 4) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
        : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3]) : "l"(__cvta_generic_to_global(from)), "r"((int)wanted));
  } else if constexpr (N == 2) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
        : "+r"(to[0]), "+r"(to[1]) : "l"(__cvta_generic_to_global(from)), "r"((int)wanted));
  } else {
    static_assert(N == 1, "a power of two");
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.b32 %0, [%1]; }"
        : "+r"(to[0]) : "l"(__cvta_generic_to_global(from)), "r"((int)wanted));
  }
}
// A vector of such memory, or one of equal elements.
template <typename T, int N> __device__ inline tw_vec<T, N> tw_load_if(bool wanted, const tw_vec<T, N>& from, T otherwise) {
  tw_vec<T, N> all;
#pragma unroll
  for (int l = 0; l < N; ++l) all.v[l] = otherwise;
  if constexpr (sizeof(all) % 4 == 0) {
    unsigned words[sizeof(all) / 4];
    memcpy(words, &all, sizeof(all));
    tw_words_if<sizeof(all) / 4>(words, wanted, reinterpret_cast<const unsigned*>(&from));
    memcpy(&all, words, sizeof(all));
  } else if (wanted) all = from;
  return all;
}
template <typename T> __device__ inline T tw_shuffle(T x, int distance) {
  if constexpr (sizeof(T) < 4) return T(__shfl_xor_sync(0xffffffffu, int(x), distance));
  else return __shfl_xor_sync(0xffffffffu, x, distance);
}
// Combines x over aligned runs of `Run` threads: within warps by shuffles, between them through `scratch` (one element a
// warp). Every thread of the block calls it and gets its run's result.
template <int Run, typename T, typename Combine> __device__ inline T tw_combine(T x, Combine combine, T* scratch) {
#pragma unroll
  for (int distance = (Run < 32 ? Run : 32) / 2; distance > 0; distance /= 2) x = combine(x, tw_shuffle(x, distance));
  if constexpr (Run > 32) {
    constexpr int kWarps = Run / 32;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) scratch[warp] = x;
    __syncthreads();
    const T* run = scratch + warp / kWarps * kWarps;
    x = run[0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) x = combine(x, run[w]);
    __syncthreads();
  }
  return x;
}
// Two 16-bit floats in one instruction. A sum is the same rounded from f32, which has more than twice their digits. PTX
// has sums of bf16 for sm_90 on, fused ones for sm_80.
template <int N> __device__ inline unsigned tw_pair_at(const tw_vec<unsigned short, N>& x, int l) { unsigned y; memcpy(&y, &x.v[l], 4); return y; }
template <int N, typename Pair> __device__ inline tw_vec<unsigned short, N> tw_pairs(Pair pair) {
  tw_vec<unsigned, N / 2> all;
#pragma unroll
  for (int l = 0; l < N; l += 2) all.v[l / 2] = pair(l);
  return tw_bits<tw_vec<unsigned short, N>>(all);
}
__device__ inline unsigned tw_round_f16(float low, float high) { unsigned y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y; }
__device__ inline unsigned tw_round_bf16(float low, float high) { unsigned y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low)); return y; }
__device__ inline unsigned tw_add_f16(unsigned a, unsigned b) { unsigned y; asm("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b)); return y; }
__device__ inline unsigned tw_add_bf16(unsigned a, unsigned b) { unsigned y; asm("fma.rn.bf16x2 %0, %1, %3, %2;" : "=r"(y) : "r"(a), "r"(b), "r"(0x3f803f80)); return y; }
__device__ inline unsigned tw_max_f16(unsigned a, unsigned b) { unsigned y; asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b)); return y; }
__device__ inline unsigned tw_max_bf16(unsigned a, unsigned b) { unsigned y; asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b)); return y; }
)";

constexpr std::string_view kMatrices = R"(
// D[16, 8] += A[16, 16] * B[16, 8] by a warp; each lane holds its part of them as the instruction wants it.
__device__ inline void tw_mma_f16(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ inline void tw_mma_bf16(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Of f32, of which the instruction reads all but the last 13 bits: rows, those 8 below them, columns, at four steps.
__device__ inline void tw_mma_tf32(float& d0, float& d1, float& d2, float& d3, tw_vec<float, 4> a, tw_vec<float, 4> below, tw_vec<float, 4> b) {
#pragma unroll
  for (int s = 0; s < 4; s += 2)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(__float_as_uint(a.v[s])), "r"(__float_as_uint(below.v[s])), "r"(__float_as_uint(a.v[s + 1])),
          "r"(__float_as_uint(below.v[s + 1])), "r"(__float_as_uint(b.v[s])), "r"(__float_as_uint(b.v[s + 1])));
}
// Matrices of 8 x 8 elements in shared memory, of which each lane names a row, dealt out as operands (PTX ISA, "ldmatrix").
template <bool Transposed> __device__ inline void tw_load_matrix(unsigned (&to)[2], const void* row) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if constexpr (Transposed) asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
  else asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at));
}
template <bool Transposed> __device__ inline void tw_load_matrix(unsigned (&to)[4], const void* row) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(row);
  if constexpr (Transposed) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
  else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at));
}
__device__ inline unsigned tw_pair(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }
)";

// Copies and matrix instructions that go on while their threads do something else (PTX ISA, "Asynchronous operations").
constexpr std::string_view kAsynchronous = R"(
// Where element `at` of lines of 128 bytes lies.
template <int Bytes, typename T> __device__ inline T tw_swizzle(T at) { return at ^ (at >> 3 & 7 * 16 / Bytes); }
// The address in shared memory of an element, whose number is a sum: the constant becomes part of instructions.
template <typename T> __device__ inline unsigned tw_shared_at(const T* buffer, unsigned varying, unsigned constant) {
  return (unsigned)__cvta_generic_to_shared(buffer) + varying * (unsigned)sizeof(T) + constant * (unsigned)sizeof(T);
}
// What a matrix instruction of a warp group wants to know of such lines, from an element on: where they are in 16 bytes,
// that eight lines are 1024 bytes, and after how many 16 bytes the next block of lines follows.
template <int Block, typename T> __device__ inline unsigned long long tw_matrix(const T* lines, unsigned varying, unsigned constant) {
  // Above the 18 bits of a place in its memory an address has the number of its tile in a cluster, which would be taken
  // for a part of the distance between blocks.
  constexpr unsigned own = Block > 1 ? (1u << 18) - 1 : ~0u;
  const unsigned at = (tw_shared_at(lines, varying, 0) & own) / 16 + (constant * (unsigned)sizeof(T) / 16 + ((unsigned)Block << 16));
  return (unsigned long long)(64u | 1u << 30) << 32 | at;
}
__device__ inline void tw_matrix_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
__device__ inline void tw_matrix_end() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
// Waits until no more than the last N groups of instructions are under way.
template <int N> __device__ inline void tw_matrix_done() { asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory"); }
// What this thread has written to shared memory is there for matrix instructions.
__device__ inline void tw_written_for_matrix() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
// Sums that instructions under way have changed stay in their registers until here.
template <int N> __device__ inline void tw_settled(float (&sums)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sums[i]) : : "memory");
}
// N bytes of device memory on their way to the block's shared memory, or zeros where they are not wanted.
template <int N, typename T> __device__ inline void tw_copy_async(T* buffer, unsigned varying, unsigned constant, const void* from, bool wanted) {
  const unsigned at = tw_shared_at(buffer, varying, constant);
  if constexpr (N == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(at), "l"(from), "r"(wanted ? N : 0) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" : : "r"(at), "l"(from), "n"(N), "r"(wanted ? N : 0) : "memory");
}
__device__ inline void tw_copies_begun() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits until no more than the last N groups of copies are under way.
template <int N> __device__ inline void tw_copies_done() { asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory"); }
// Of four lanes beside each other number p gets the p-th pair of all of them.
template <typename Pair> __device__ inline tw_vec<unsigned, 4> tw_exchange(Pair x0, Pair x1, Pair x2, Pair x3) {
  static_assert(sizeof(Pair) == 4);
  const unsigned lanes = 15u << (threadIdx.x & 28);
  tw_vec<unsigned, 4> all = {*(unsigned*)&x0, *(unsigned*)&x1, *(unsigned*)&x2, *(unsigned*)&x3};
#pragma unroll
  for (int far = 1; far < 4; far *= 2) {
    const bool second = threadIdx.x & far;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & far) continue;
      const unsigned got = __shfl_xor_sync(lanes, second ? all.v[i] : all.v[i + far], far);
      all.v[i] = second ? got : all.v[i];
      all.v[i + far] = second ? all.v[i + far] : got;
    }
  }
  return all;
}
)";

// Copies by TMA, and the barriers that tell of them (PTX ISA, "mbarrier", "cp.async.bulk.tensor").
constexpr std::string_view kBulk = R"(
struct alignas(64) tw_map { unsigned char bytes[128]; };
__device__ inline unsigned tw_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// One thread sets up N pairs of them: a copy arrives at `full` once, each user at `empty`.
template <int N> __device__ inline void tw_barriers(unsigned long long* full, unsigned long long* empty, int users) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(tw_shared_address(full + i)) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(tw_shared_address(empty + i)), "r"(users) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
// N threads of a block wait for each other; barrier 0 is that of all.
template <int N> __device__ inline void tw_meet(int barrier) { asm volatile("bar.sync %0, %1;" : : "r"(barrier), "n"(N) : "memory"); }
// Lets half of N threads, who meet there, go on.
template <int N> __device__ inline void tw_next(int barrier) { asm volatile("bar.arrive %0, %1;" : : "r"(barrier), "n"(N) : "memory"); }
// A warp group gives registers back, or takes some, so that its threads have N.
template <int N> __device__ inline void tw_give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N)); }
template <int N> __device__ inline void tw_take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N)); }
// Goes on by n slots of N.
template <int N> __device__ inline void tw_skip(int& slot, int& phase, int n) { slot += n, phase ^= slot / N & 1, slot %= N; }
// Waits for the end of the phase of this parity.
__device__ inline void tw_barrier_wait(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done; WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra WAIT; }"
      : : "r"(tw_shared_address(barrier)), "r"(parity) : "memory");
}
// At the barrier of tile `rank` of a cluster of C.
template <int C> __device__ inline void tw_barrier_arrive(unsigned long long* barrier, unsigned rank) {
  const unsigned at = tw_shared_address(barrier);
  if constexpr (C == 1) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(at) : "memory");
  else asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }" : : "r"(at), "r"(rank) : "memory");
}
__device__ inline void tw_cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" : : : "memory"); }
__device__ inline void tw_cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" : : : "memory"); }
__device__ inline int tw_cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void tw_barrier_expect(unsigned long long* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(tw_shared_address(barrier)), "r"(bytes) : "memory");
}
)";

// What a copy fetches: a box, or pixels, each at one place of its window (PTX ISA, "Tensors", tiled and im2col mode).
enum class Fetch : uint8_t { kBox, kWindow };

// The box of a tensor of `rank` dims that begins at these indices, the innermost first, on its way to the shared memory
// of all C tiles of a cluster, at the same place in each. Of windows the places in them follow, the innermost first.
std::string fetch_function(int rank, Fetch what) {
  const int offsets = what == Fetch::kWindow ? rank - 2 : 0;
  std::string params, starts, places, values;
  for (int d = 0; d < rank + offsets; ++d) {
    params += fmt::format(", int i{}", d);
    std::string& list = d < rank ? starts : places;
    list += fmt::format("{}%{}", list.empty() ? "" : ", ", 3 + d);
    values += d < rank ? fmt::format(", \"r\"(i{})", d) : fmt::format(", \"h\"((short)i{})", d);
  }
  if (offsets > 0) places = fmt::format(", {{{}}}", places);
  const std::string copy =
      fmt::format("cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes", rank,
                  what == Fetch::kWindow ? "im2col" : "tile");
  const std::string from = fmt::format("[%0], [%1, {{{}}}], [%2]", starts);
  const std::string operands =
      fmt::format(": : \"r\"(tw_shared_address(to)), \"l\"(map), \"r\"(tw_shared_address(barrier)){}", values);
  return fmt::format(
      "template <int C> __device__ inline void tw_fetch{0}(const tw_map* map, void* to, unsigned long long* "
      "barrier{1}) "
      "{{\n"
      "  if constexpr (C == 1) asm volatile(\"{2} {3}{4};\" {5} : \"memory\");\n"
      "  else asm volatile(\"{2}.multicast::cluster {3}{4}, %{6};\" {5}, \"h\"((short)((1 << C) - 1)) : \"memory\");\n"
      "}}\n",
      what == Fetch::kWindow ? "_window" : "", params, copy, from, places, operands, 3 + rank + offsets);
}

}  // namespace

std::string cuda_prelude() {
  std::string text;
  for (const std::string_view part : {kArithmetic, kBegin, kVectors, kMatrices, kAsynchronous, kBulk}) text += part;
  for (int rank = 2; rank <= 5; ++rank) text += fetch_function(rank, Fetch::kBox);
  for (int rank = 3; rank <= 5; ++rank) text += fetch_function(rank, Fetch::kWindow);
  return text;
}

}  // namespace tw::codegen
