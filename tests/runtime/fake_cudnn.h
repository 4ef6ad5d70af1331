// A cuDNN made for tests: graphs of convolutions over two dimensions, products, reductions and element-wise operations,
// computed one by one on the fake GPU from what the descriptors say.
#pragma once
#ifdef TW_RUNTIME_CUDA
#include <map>
#include <vector>

#include "runtime/device/cuda/cudnn.h"

namespace tw::test {

struct FakeEngine {
  int64_t index = 0;
  std::map<int, int64_t> knobs = {};  // that its heuristics choose
  std::vector<int> notes = {};        // cudnnBackendNumericalNote_t
};

struct FakeCudnn {
  int objects = 0;                           // that are not destroyed
  std::vector<FakeEngine> engines = {{41}};  // by the heuristics' order
  int64_t used = -1;                         // the engine of the last convolution
  std::map<int, int64_t> knobs;              // and its settings
  int64_t workspace_bytes = 1000;
  int by_value = 0;  // reads of tensors that are one number of the host's
};
extern FakeCudnn fake_cudnn;

const runtime::cuda::Cudnn& open_fake_cudnn();

}  // namespace tw::test
#endif
