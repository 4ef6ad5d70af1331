// Out[n, p, q, k] = epilogue(sum over r, s, c of In[n, p * stride + r * dilation - pad, .., c] * W[k, r, s, c]) by
// warps, copies several stages ahead (CUTLASS 2.x). Problem::sizes: images, height, width, channels, filters, window
// (2), output (2), pads before (2), strides (2), dilations (2).
#include "cutlass/conv/kernel/default_conv2d_fprop_with_broadcast.h"

namespace tw {

using Nhwc = cutlass::layout::TensorNHWC;
using Kernel = typename cutlass::conv::kernel::DefaultConv2dFpropWithBroadcast<
    Operand, Nhwc, Operand, Nhwc, Output, Nhwc, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, TileShape,
    WarpShape, Instruction, OutputOp, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>, TW_STAGES,
    cutlass::arch::OpMultiplyAdd, cutlass::conv::IteratorAlgorithm::kOptimized,
    cutlass::conv::StrideSupport::kStrided, kOperandAccess, kOperandAccess>::Kernel;

Answer instantiate(const Problem& p) {
  const auto size = [&](int i) { return static_cast<int>(p.sizes[i]); };
  const cutlass::conv::Conv2dProblemSize problem(size(0), size(1), size(2), size(3), size(4), size(5), size(6), size(7),
                                                 size(8), size(9), size(10), size(11), size(12), size(13), size(14),
                                                 cutlass::conv::Mode::kCrossCorrelation, 1, 1);
  const auto packed = [](int h, int w, int c) { return Nhwc::packed({1, h, w, c}); };
  const Nhwc out = packed(size(7), size(8), size(4));
  const typename Kernel::Arguments arguments(
      problem, {pointer<Operand>(p.a), packed(size(1), size(2), size(3))},
      {pointer<Operand>(p.b), packed(size(5), size(6), size(3))}, {pointer<Output>(p.c), out},
      {pointer<Output>(p.d), out}, typename OutputOp::Params(), cutlass::conv::SplitKMode::kSerial,
      pointer<void>(p.vectors[0]), nullptr, 0, 0);
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
