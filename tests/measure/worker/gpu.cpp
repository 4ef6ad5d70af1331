// A worker with a GPU that is none; "no-gpu" as argument: the driver finds not even that.
#ifdef TW_RUNTIME_CUDA
#include <string_view>

#include "measure/cuda_executor.h"
#include "measure/worker.h"
#include "tests/runtime/fake_cuda.h"

int main(int argc, char** argv) {
  const tw::runtime::cuda::Driver driver = tw::test::fake_driver();
  if (argc > 1 && std::string_view(argv[1]) == "no-gpu") tw::test::fake.devices = 0;
  tw::measure::serve_worker(0, [&] { return tw::measure::make_cuda_executor("sm_90a", driver); });
}
#else
int main() {}
#endif
