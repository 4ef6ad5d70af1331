// What CUTLASS 3.x calls with fragments of the sums and of the epilogue's operands.
#include "cutlass/array.h"

template <typename T>
struct TwEpilogue {};

template <typename T, int N>
struct TwEpilogue<cutlass::Array<T, N>> {
  template <typename... X>
  CUTLASS_DEVICE cutlass::Array<T, N> operator()(const X&... x) const {
    cutlass::Array<T, N> y;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < N; ++i) y[i] = tw_epilogue(x[i]...);
    return y;
  }
};
