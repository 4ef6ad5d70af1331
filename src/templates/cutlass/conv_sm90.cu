// Out[n, p, q, k] = epilogue(sum over r, s, c of In[n, p * stride + r * dilation - pad, .., c] * W[k, r, s, c]) by warp
// groups; the copy engine gathers windows (CUTLASS 3.x, im2col). W is stored as [r, s, k, c]. Problem::sizes: images,
// channels, filters, then one for each of the TW_DIMS dims of a window: image, window, output, pads before, strides,
// dilations.
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
constexpr int kDims = TW_DIMS;
using Nhwc = std::conditional_t<kDims == 3, cutlass::layout::TensorNDHWC, cutlass::layout::TensorNHWC>;
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
using ProblemShape = cutlass::conv::ConvProblemShape<cutlass::conv::Operator::kFprop, kDims>;
using Kernel = cutlass::conv::kernel::ConvUniversal<ProblemShape, CollectiveMainloop, CollectiveEpilogue>;

template <typename T>
T* pointer(unsigned long long address) {
  return reinterpret_cast<T*>(address);
}

Answer instantiate(const Problem& p) {
  const auto size = [&](int i) { return static_cast<int>(p.sizes[i]); };
  const auto list = [&](int number) {
    cute::array<int, kDims> all;
    for (int d = 0; d < kDims; ++d) all[d] = size(3 + number * kDims + d);
    return all;
  };
  const auto image = list(0), window = list(1), out = list(2), pads = list(3), steps = list(4), dilations = list(5);
  const int channels = size(1), filters = size(2);
  typename ProblemShape::TensorExtent images{}, weights{};
  typename ProblemShape::TensorStride image_strides{}, weight_strides{};
  images[0] = size(0), images[kDims + 1] = channels;
  weights[0] = filters, weights[kDims + 1] = channels;
  image_strides[kDims + 1] = weight_strides[kDims + 1] = 1;
  // A box of the filters' description holds channels of consecutive filters: so they lie for each pixel of the window.
  weight_strides[0] = channels;
  // Padding behind may differ from that before: it is what the output wants; windows may end before the tensor does.
  cute::array<int, kDims> behind;
  int64_t line = channels, pixel = int64_t{channels} * filters;
  for (int d = kDims - 1; d >= 0; --d) {
    images[d + 1] = image[d], weights[d + 1] = window[d];
    image_strides[d + 1] = line, weight_strides[d + 1] = pixel;
    line *= image[d], pixel *= window[d];
    const int end = (out[d] - 1) * steps[d] + (window[d] - 1) * dilations[d] + 1;
    behind[d] = cute::max(0, end - image[d] - pads[d]);
  }
  image_strides[0] = line;
  const ProblemShape shape(cutlass::conv::Mode::kCrossCorrelation, images, image_strides, weights, weight_strides, pads,
                           behind, steps, dilations, 1);
  using EpilogueElement = std::conditional_t<std::is_void_v<Tensor>, Output, Tensor>;
  typename Kernel::StrideC c{};
  typename Kernel::StrideD d{};
  for_each(make_seq<rank<0>(typename Kernel::StrideD{})>{}, [&](auto i) {
    get<0, i>(c) = shape.stride_C[kDims - static_cast<int>(i)];
    get<0, i>(d) = shape.stride_C[kDims - static_cast<int>(i)];
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
