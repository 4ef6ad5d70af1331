// What CUTLASS 2.x calls with the sums: the epilogue of this instance, as an "output operator with broadcast".
#include "cutlass/array.h"
#include "cutlass/gemm/gemm.h"
#include "cutlass/numeric_conversion.h"

namespace tw {

using Operand = TW_OPERAND;
using Output = TW_OUTPUT;
// What lines of the tensors are multiples of, in bytes.
constexpr int kOperandAccess = TW_OPERAND_ACCESS / sizeof(Operand), kOutputAccess = TW_OUTPUT_ACCESS / sizeof(Output);

struct OutputOp {
  static constexpr bool kIsSingleSource = true, kIsHeavy = true, kStoreZ = true, kStoreT = false;
  static constexpr int kElementsPerAccess = kOutputAccess, kCount = kOutputAccess;
  using ElementOutput = Output;
  using ElementC = Output;
  using ElementZ = Output;
  using ElementT = Output;
  using ElementVector = TW_VECTOR;
  using ElementAccumulator = float;
  using ElementCompute = float;
  using Sums = cutlass::Array<float, kCount>;
  using Outputs = cutlass::Array<Output, kCount>;
  struct Params {};

  CUTLASS_HOST_DEVICE OutputOp(const Params&) {}
  CUTLASS_HOST_DEVICE bool is_source_needed() const { return TW_HAS_TENSOR; }
  CUTLASS_HOST_DEVICE void set_k_partition(int, int) {}

  CUTLASS_DEVICE void operator()(Outputs& out, Outputs&, const Sums& sums, const Outputs& tensor,
                                 const Sums& vector) const {
    const Sums wide = cutlass::NumericArrayConverter<float, Output, kCount>()(tensor);
    store(out, sums, wide, vector);
  }
  CUTLASS_DEVICE void operator()(Outputs& out, Outputs&, const Sums& sums, const Sums& vector) const {
    store(out, sums, sums, vector);
  }

 private:
  CUTLASS_DEVICE static void store(Outputs& out, const Sums& acc, const Sums& tensor, const Sums& vector) {
    Sums values;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) values[i] = tw_epilogue(TW_EPILOGUE_OPERANDS);
    out = cutlass::NumericArrayConverter<Output, float, kCount>()(values);
  }
};

using TileShape = cutlass::gemm::GemmShape<TW_TILE_M, TW_TILE_N, TW_TILE_K>;
using WarpShape = cutlass::gemm::GemmShape<TW_TILE_M / TW_WARPS_M, TW_TILE_N / TW_WARPS_N, TW_TILE_K>;
using Instruction = cutlass::gemm::GemmShape<16, 8, 32 / sizeof(Operand)>;

template <typename T>
T* pointer(unsigned long long address) {
  return reinterpret_cast<T*>(address);
}

template <typename Kernel>
void set_launch(Answer& answer, dim3 grid) {
  answer.grid[0] = grid.x, answer.grid[1] = grid.y, answer.grid[2] = grid.z;
  answer.block[0] = Kernel::kThreadCount;
  answer.shared_bytes = sizeof(typename Kernel::SharedStorage);
}

}  // namespace tw

#define TW_KERNEL(Kernel)                                                                                   \
  extern "C" __global__ void __launch_bounds__(Kernel::kThreadCount) tw_template(typename Kernel::Params params) { \
    extern __shared__ int shared[];                                                                         \
    Kernel kernel;                                                                                          \
    kernel(params, *reinterpret_cast<typename Kernel::SharedStorage*>(shared));                             \
  }
