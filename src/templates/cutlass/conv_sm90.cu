// Out[n, p, q, k] = epilogue(sum over r, s, c of In[n, p * stride + r * dilation - pad, .., c] * W[k, r, s, c]) by warp
// groups; the copy engine gathers windows (CUTLASS 3.x, im2col). W is stored as [r, s, k, c]. Problem::sizes: images,
// height, width, channels, filters, window (2), output (2), pads before (2), strides (2), dilations (2).
#include "cute/tensor.hpp"
#include "cutlass/kernel_hardware_info.hpp"
#include "cutlass/conv/collective/collective_builder.hpp"
#include "cutlass/conv/convnd_problem_shape.hpp"
#include "cutlass/conv/kernel/conv_universal.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp"

namespace tw {

using namespace cute;
namespace fusion = cutlass::epilogue::fusion;

using Tile = Shape<Int<TW_TILE_M>, Int<TW_TILE_N>, Shape<Int<TW_TILE_K>>>;
using Cluster = Shape<_1, _1, _1>;
using Operand = TW_OPERAND;
using Output = TW_OUTPUT;
using Tensor = TW_TENSOR;  // of c, or void
using Nhwc = cutlass::layout::TensorNHWC;
constexpr int kAccessBytes = 16;
constexpr int kOperandAccess = kAccessBytes / sizeof(Operand), kOutputAccess = kAccessBytes / sizeof(Output);

template <typename T>
using Vector = fusion::Sm90RowBroadcast<0, Tile, T, float, Stride<_0, _1, int64_t>, kAccessBytes / sizeof(T)>;
using Epilogue = fusion::Sm90EVT<
    fusion::Sm90Compute<TwEpilogue, Output, float, cutlass::FloatRoundStyle::round_to_nearest> TW_EPILOGUE_NODES>;

using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, Tensor, Nhwc, TW_TENSOR_ACCESS, Output, Nhwc,
    kOutputAccess, cutlass::epilogue::TmaWarpSpecialized, Epilogue>::CollectiveOp;
// One warp group multiplies: while it stores its results, another block of the multiprocessor multiplies. So small
// tiles take as many stages as leave room for others, as far as registers do.
constexpr int kSums = TW_TILE_M * TW_TILE_N, kBlocks = kSums <= 64 * 64 ? 3 : kSums <= 64 * 128 ? 2 : 1;
constexpr int kBlockBytes = 1024;    // of shared memory, which the system takes for each
constexpr int kBarrierBytes = 2048;  // and less; results lie where operands lay
constexpr int kCapacity = cutlass::gemm::collective::detail::sm90_smem_capacity_bytes + kBlockBytes;
constexpr int kOfOthers = (kBlocks - 1) * kCapacity / kBlocks;

using CollectiveMainloop = typename cutlass::conv::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, cutlass::conv::Operator::kFprop, Operand, Nhwc,
    kOperandAccess, Operand, Nhwc, kOperandAccess, float, Tile, Cluster,
    cutlass::conv::collective::StageCountAutoCarveout<kOfOthers + kBarrierBytes>,
    cutlass::conv::collective::KernelScheduleAuto>::CollectiveOp;
using Shape4 = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::kFprop, 2>;
using Kernel = cutlass::conv::kernel::ConvUniversal<Shape4, CollectiveMainloop, CollectiveEpilogue>;

template <typename T>
T* pointer(unsigned long long address) {
  return reinterpret_cast<T*>(address);
}

Answer instantiate(const Problem& p) {
  const auto size = [&](int i) { return static_cast<int>(p.sizes[i]); };
  // Padding behind may differ from that before: it is what the output wants; windows may end before the tensor does.
  const auto behind = [&](int d) {
    const int end = (size(7 + d) - 1) * size(11 + d) + (size(5 + d) - 1) * size(13 + d) + 1;
    return cute::max(0, end - size(1 + d) - size(9 + d));
  };
  // A box of the filters' description holds channels of consecutive filters: so they lie for each pixel of the window.
  const int64_t line = size(3), row = line * size(2), filters = line * size(4);
  const Shape4 shape(cutlass::conv::Mode::kCrossCorrelation, {size(0), size(1), size(2), size(3)},
                     {row * size(1), row, line, 1}, {size(4), size(5), size(6), size(3)},
                     {line, filters * size(6), filters, 1}, {size(9), size(10)}, {behind(0), behind(1)},
                     {size(11), size(12)}, {size(13), size(14)}, 1);
  using EpilogueElement = std::conditional_t<std::is_void_v<Tensor>, Output, Tensor>;
  typename Kernel::StrideC c{};
  typename Kernel::StrideD d{};
  for_each(make_seq<rank<0>(typename Kernel::StrideD{})>{}, [&](auto i) {
    get<0, i>(c) = shape.stride_C[2 - static_cast<int>(i)];
    get<0, i>(d) = shape.stride_C[2 - static_cast<int>(i)];
  });
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = static_cast<int>(p.multiprocessors);
  const typename Kernel::Arguments arguments{
      shape,
      {pointer<const Operand>(p.a), pointer<const Operand>(p.b)},
      {{TW_EPILOGUE_ARGUMENTS}, pointer<const EpilogueElement>(p.c), c, pointer<Output>(p.d), d},
      hardware};
  if (!Kernel::can_implement(arguments)) return refused("CUTLASS: lines are not aligned, or sizes too large");
  Answer answer;
  dim3 grid;
  answer.params = bytes_of_params<typename Kernel::Params>([&](void* place) {
    const auto* params = new (place) typename Kernel::Params(Kernel::to_underlying_arguments(arguments, nullptr));
    grid = Kernel::get_grid_shape(*params);
  });
  const dim3 block = Kernel::get_block_shape();
  answer.grid[0] = grid.x, answer.grid[1] = grid.y, answer.grid[2] = grid.z;
  answer.block[0] = block.x, answer.block[1] = block.y, answer.block[2] = block.z;
  answer.shared_bytes = Kernel::SharedStorageSize;
  return answer;
}

}  // namespace tw

extern "C" __global__ void __launch_bounds__(tw::Kernel::MaxThreadsPerBlock, tw::Kernel::MinBlocksPerMultiprocessor)
    tw_template(CUTLASS_GRID_CONSTANT typename tw::Kernel::Params const params) {
  extern __shared__ char shared[];
  tw::Kernel kernel;
  kernel(params, shared);
}
