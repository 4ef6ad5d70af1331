// Runs workloads on a GPU, with the runtime's own contexts, launches and graphs.
#pragma once
#include "measure/executor.h"
#include "support/error.h"

namespace tw::runtime::cuda {
struct Driver;
}

namespace tw::measure {

/// The name of the GPU on which code for `architecture` ("sm_90a") is measured here; a reason when there is none.
Result<std::string> find_gpu(const std::string& architecture);

/// For the GPU of find_gpu().
std::unique_ptr<Executor> make_cuda_executor(const std::string& architecture);
/// Through a driver of the caller's, which must outlive the result.
std::unique_ptr<Executor> make_cuda_executor(const std::string& architecture, const runtime::cuda::Driver& driver);

}  // namespace tw::measure
