// D[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, k, n]) by warp groups and the copy engine (CUTLASS 3.x).
// Problem::sizes: m, n, k, batch, then the strides between batches of a, b, c, d, in elements.
#include "cute/tensor.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

namespace tw {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;

using Tile = Shape<Int<TW_TILE_M>, Int<TW_TILE_N>, Int<TW_TILE_K>>;
using Cluster = Shape<Int<TW_CLUSTER_M>, Int<TW_CLUSTER_N>, _1>;
using Operand = TW_OPERAND;
using Output = TW_OUTPUT;
using Tensor = TW_TENSOR;  // of c, or void
using LayoutA = cutlass::layout::TW_LAYOUT_A;
using LayoutB = cutlass::layout::TW_LAYOUT_B;
using Row = cutlass::layout::RowMajor;
constexpr int kAccessBytes = 16;  // of the copy engine
constexpr int kOperandAccess = kAccessBytes / sizeof(Operand), kOutputAccess = kAccessBytes / sizeof(Output);

template <typename T>
using Vector = fusion::Sm90RowBroadcast<0, Tile, T, float, Stride<_0, _1, int64_t>, kAccessBytes / sizeof(T)>;
using Epilogue = fusion::Sm90EVT<
    fusion::Sm90Compute<TwEpilogue, Output, float, cutlass::FloatRoundStyle::round_to_nearest> TW_EPILOGUE_NODES>;

#if TW_PINGPONG
using Schedule = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecialized;
#else
using Schedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecializedCooperative;
#endif
#if TW_STREAM_K
using Scheduler = cutlass::gemm::StreamKScheduler;
#else
using Scheduler = cutlass::gemm::PersistentScheduler;
#endif

using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Tensor, Row, TW_TENSOR_ACCESS, Output, Row,
    kOutputAccess, EpilogueSchedule, Epilogue>::CollectiveOp;
using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Operand, LayoutA, kOperandAccess, Operand, LayoutB,
    kOperandAccess, float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
        sizeof(typename CollectiveEpilogue::SharedStorage))>,
    Schedule>::CollectiveOp;
using Kernel =
    cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, CollectiveMainloop, CollectiveEpilogue, Scheduler>;

template <typename T>
T* pointer(unsigned long long address) {
  return reinterpret_cast<T*>(address);
}

// Of a matrix whose lines, `line` elements apart, lie along the dim that S has at 1.
template <typename S>
S strides(long long line, long long batch) {
  S all{};
  get<is_static<decltype(get<0>(S{}))>::value ? 1 : 0>(all) = line;
  get<2>(all) = batch;
  return all;
}

Answer instantiate(const Problem& p) {
  const int m = static_cast<int>(p.sizes[0]), n = static_cast<int>(p.sizes[1]), k = static_cast<int>(p.sizes[2]);
  const int batch = static_cast<int>(p.sizes[3]);
  using EpilogueElement = std::conditional_t<std::is_void_v<Tensor>, Output, Tensor>;
  const bool a_by_rows = std::is_same_v<LayoutA, Row>, b_by_rows = std::is_same_v<LayoutB, Row>;
  const auto a = strides<typename Kernel::StrideA>(a_by_rows ? k : m, p.sizes[4]);
  const auto b = strides<typename Kernel::StrideB>(b_by_rows ? n : k, p.sizes[5]);
  const auto c = strides<typename Kernel::StrideC>(n, p.sizes[6]);
  const auto d = strides<typename Kernel::StrideD>(n, p.sizes[7]);
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = static_cast<int>(p.multiprocessors);
  typename Kernel::Arguments arguments{
      batch == 1 ? cutlass::gemm::GemmUniversalMode::kGemm : cutlass::gemm::GemmUniversalMode::kBatched,
      {m, n, k, batch},
      {pointer<const Operand>(p.a), a, pointer<const Operand>(p.b), b},
      {{TW_EPILOGUE_ARGUMENTS}, pointer<const EpilogueElement>(p.c), c, pointer<Output>(p.d), d},
      hardware};
  arguments.scheduler.max_swizzle_size = static_cast<int>(p.swizzle);
  if (!Kernel::can_implement(arguments)) return refused("CUTLASS: lines are not aligned, or sizes too large");
  Answer answer;
  answer.workspace_bytes = Kernel::get_workspace_size(arguments);
  // Some kernels keep the address of memory that they do not use.
  void* const workspace = answer.workspace_bytes > 0 ? pointer<void>(p.workspace) : nullptr;
  dim3 grid;
  answer.params = bytes_of_params<typename Kernel::Params>([&](void* place) {
    const auto* params = new (place) typename Kernel::Params(Kernel::to_underlying_arguments(arguments, workspace));
    grid = Kernel::get_grid_shape(*params);
  });
  const dim3 block = Kernel::get_block_shape();
  answer.grid[0] = grid.x, answer.grid[1] = grid.y, answer.grid[2] = grid.z;
  answer.block[0] = block.x, answer.block[1] = block.y, answer.block[2] = block.z;
  answer.shared_bytes = Kernel::SharedStorageSize;
  return answer;
}

}  // namespace tw

extern "C" __global__ void __cluster_dims__(TW_CLUSTER_M, TW_CLUSTER_N, 1)
    __launch_bounds__(tw::Kernel::MaxThreadsPerBlock, tw::Kernel::MinBlocksPerMultiprocessor)
        tw_template(CUTLASS_GRID_CONSTANT typename tw::Kernel::Params const params) {
  extern __shared__ char shared[];
  tw::Kernel kernel;
  kernel(params, shared);
}
