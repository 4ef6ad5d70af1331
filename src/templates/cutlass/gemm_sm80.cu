// D[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, k, n]) by warps, copies several stages ahead (CUTLASS 2.x).
// Problem::sizes: m, n, k, batch, then the strides between batches of a, b, c, d, in elements.
#include "cutlass/gemm/kernel/default_gemm_with_broadcast.h"

namespace tw {

using Row = cutlass::layout::RowMajor;
using LayoutA = cutlass::layout::TW_LAYOUT_A;
using LayoutB = cutlass::layout::TW_LAYOUT_B;
using Kernel = typename cutlass::gemm::kernel::DefaultGemmWithBroadcast<
    Operand, LayoutA, cutlass::ComplexTransform::kNone, kOperandAccess, Operand, LayoutB,
    cutlass::ComplexTransform::kNone, kOperandAccess, Output, Row, float, cutlass::arch::OpClassTensorOp,
    cutlass::arch::Sm80, TileShape, WarpShape, Instruction, OutputOp,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, TW_STAGES,
    cutlass::arch::OpMultiplyAdd>::GemmKernel;

Answer instantiate(const Problem& p) {
  const int m = static_cast<int>(p.sizes[0]), n = static_cast<int>(p.sizes[1]), k = static_cast<int>(p.sizes[2]);
  const int batch = static_cast<int>(p.sizes[3]);
  const bool a_by_rows = std::is_same_v<LayoutA, Row>, b_by_rows = std::is_same_v<LayoutB, Row>;
  const typename Kernel::Arguments arguments(
      batch == 1 ? cutlass::gemm::GemmUniversalMode::kGemm : cutlass::gemm::GemmUniversalMode::kBatched, {m, n, k},
      batch, {}, pointer<const void>(p.a), pointer<const void>(p.b), pointer<const void>(p.c),
      pointer<void>(p.d), pointer<void>(p.vectors[0]), nullptr, p.sizes[4], p.sizes[5], p.sizes[6], p.sizes[7], 0, 0,
      a_by_rows ? k : m, b_by_rows ? n : k, n, n, 0, 0);
  if (Kernel::can_implement(arguments) != cutlass::Status::kSuccess) return refused("CUTLASS: lines are not aligned");
  Answer answer;
  dim3 grid;
  answer.params = bytes_of_params<typename Kernel::Params>([&](void* place) {
    const auto* params =
        new (place) typename Kernel::Params(arguments, static_cast<int>(p.multiprocessors), 1);
    grid = params->get_grid_dims();
  });
  set_launch<Kernel>(answer, grid);
  return answer;
}

}  // namespace tw

TW_KERNEL(tw::Kernel)
