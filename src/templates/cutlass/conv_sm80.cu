// Out[n, p, q, k] = epilogue(sum over r, s, c of In[n, p * stride + r * dilation - pad, .., c] * W[k, r, s, c]) by
// warps, copies several stages ahead (CUTLASS 2.x). Problem::sizes: images, channels, filters, then one for each of the
// TW_DIMS dims of a window: image, window, output, pads before, strides, dilations.
#if TW_DIMS == 3
#include "cutlass/conv/kernel/default_conv3d_fprop_with_broadcast.h"
#define TW_FPROP cutlass::conv::kernel::DefaultConv3dFpropWithBroadcast
#else
#include "cutlass/conv/kernel/default_conv2d_fprop_with_broadcast.h"
#define TW_FPROP cutlass::conv::kernel::DefaultConv2dFpropWithBroadcast
#endif

namespace tw {

constexpr int kDims = TW_DIMS;
using Nhwc = std::conditional_t<kDims == 3, cutlass::layout::TensorNDHWC, cutlass::layout::TensorNHWC>;
using Kernel = typename TW_FPROP<
    Operand, Nhwc, Operand, Nhwc, Output, Nhwc, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, TileShape,
    WarpShape, Instruction, OutputOp, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>, TW_STAGES,
    cutlass::arch::OpMultiplyAdd, cutlass::conv::IteratorAlgorithm::kOptimized,
    cutlass::conv::StrideSupport::kStrided, kOperandAccess, kOperandAccess>::Kernel;

// Numbers of dim `d`, the last one being 0: image, window, output, pads before, strides, dilations.
enum { kImage, kWindow, kOut, kPad, kStride, kDilation };

Answer instantiate(const Problem& p) {
  const auto size = [&](int list, int d) { return static_cast<int>(p.sizes[3 + list * kDims + kDims - 1 - d]); };
  const int images = static_cast<int>(p.sizes[0]), channels = static_cast<int>(p.sizes[1]);
  const int filters = static_cast<int>(p.sizes[2]);
#if TW_DIMS == 3
  const cutlass::conv::Conv3dProblemSize problem(
      images, size(kImage, 2), size(kImage, 1), size(kImage, 0), channels, filters, size(kWindow, 2), size(kWindow, 1),
      size(kWindow, 0), size(kOut, 2), size(kOut, 1), size(kOut, 0), size(kPad, 2), size(kPad, 1), size(kPad, 0),
      size(kStride, 2), size(kStride, 1), size(kStride, 0), size(kDilation, 2), size(kDilation, 1), size(kDilation, 0),
      cutlass::conv::Mode::kCrossCorrelation, 1, 1);
  const auto packed = [&](int list, int c) {
    return Nhwc::packed({1, size(list, 2), size(list, 1), size(list, 0), c});
  };
#else
  const cutlass::conv::Conv2dProblemSize problem(
      images, size(kImage, 1), size(kImage, 0), channels, filters, size(kWindow, 1), size(kWindow, 0), size(kOut, 1),
      size(kOut, 0), size(kPad, 1), size(kPad, 0), size(kStride, 1), size(kStride, 0), size(kDilation, 1),
      size(kDilation, 0), cutlass::conv::Mode::kCrossCorrelation, 1, 1);
  const auto packed = [&](int list, int c) { return Nhwc::packed({1, size(list, 1), size(list, 0), c}); };
#endif
  const Nhwc out = packed(kOut, filters);
  const typename Kernel::Arguments arguments(
      problem, {pointer<Operand>(p.a), packed(kImage, channels)}, {pointer<Operand>(p.b), packed(kWindow, channels)},
      {pointer<Output>(p.c), out}, {pointer<Output>(p.d), out}, typename OutputOp::Params(),
      cutlass::conv::SplitKMode::kSerial, pointer<void>(p.vectors[0]), nullptr, 0, 0);
  Answer answer;
  dim3 grid;
  answer.params = bytes_of_params<typename Kernel::Params>([&](void* place) {
    const auto* params = new (place) typename Kernel::Params(arguments, nullptr);
    grid = typename Kernel::ThreadblockSwizzle().get_grid_shape(params->grid_tiled_shape);
  });
  set_launch<Kernel>(answer, grid);
  return answer;
}

}  // namespace tw

TW_KERNEL(tw::Kernel)
