// A cuBLASLt made for tests: products of f32 matrices on the fake GPU, computed one by one.
#pragma once
#ifdef TW_RUNTIME_CUDA
#include <vector>

#include "runtime/device/cuda/cublaslt.h"

namespace tw::test {

struct FakeLibrary {
  int objects = 0;      // that are not destroyed
  int algorithms = 3;   // that it offers
  int used = -1;        // the one of the last product
  int make_result = 0;  // of making an object
  size_t workspace_bytes = 1000;
  std::vector<uint16_t> clusters;  // of the algorithms, as CUBLASLT_CLUSTER_SHAPE_..; 0 where there are none
};
extern FakeLibrary fake_library;

const runtime::cuda::Cublaslt& fake_cublaslt();

}  // namespace tw::test
#endif
