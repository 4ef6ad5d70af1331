#include "measure/libraries.h"

#ifdef TW_RUNTIME_CUDA

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/cudnn.h"
#include "runtime/device/cuda/gpu.h"
#include "runtime/format/error.h"
#endif

namespace tw::measure {

#ifdef TW_RUNTIME_CUDA
namespace {

namespace cuda = runtime::cuda;
using format::LibraryCall;
using format::ProblemDescriptor;
using Offers = Result<std::vector<LibraryCall>>;

// More are rarely faster, and each is measured.
constexpr int64_t kAlgorithms = 5;
constexpr size_t kEngines = 6;

// cuDNN on a GPU, which both are taken when the first problem comes.
class CudnnAtWork {
 public:
  CudnnAtWork(std::string architecture, const cuda::Driver& driver)
      : architecture_(std::move(architecture)), driver_(driver) {}
  ~CudnnAtWork() {
    if (gpu_) cuda::release_on(*gpu_, [this] { handle_.reset(); });
  }

  Offers offers(const ProblemDescriptor& problem) {
    try {
      const cuda::Cudnn& library = driver_.open_cudnn();
      if (!gpu_) gpu_.emplace(driver_, 0, architecture_);
      const cuda::Current current(*gpu_);
      if (handle_ == nullptr) handle_ = cuda::CudnnCall::start(library);
      std::vector<LibraryCall> calls = cuda::cudnn_offers(library, handle_.get(), problem, kEngines);
      if (calls.empty()) return declined("it knows no engine that sums in f32, in one order");
      return calls;
    } catch (const format::Error& error) {
      return declined("{}", error.what());
    }
  }

 private:
  std::string architecture_;
  const cuda::Driver& driver_;
  std::optional<cuda::Gpu> gpu_;
  cuda::LibraryObject handle_{nullptr, nullptr};
};

}  // namespace

construct::Libraries find_libraries(const std::string& architecture, const cuda::Driver& driver) {
  construct::Libraries found;
  const auto add = [&](const char* name, const auto& open, const auto& offers) {
    try {
      found[name] = {static_cast<int64_t>(open().version()), offers};
    } catch (const format::Error&) {  // it is not installed
    }
  };
  add("cublaslt", driver.open_cublaslt, [&driver](const ProblemDescriptor& problem) -> Offers {
    std::vector<LibraryCall> calls;
    for (int64_t i = 0; i < kAlgorithms; ++i)
      calls.push_back({"cublaslt", static_cast<int64_t>(driver.open_cublaslt().version()), i, problem});
    return calls;
  });
  const auto cudnn = std::make_shared<CudnnAtWork>(architecture, driver);
  add("cudnn", driver.open_cudnn, [cudnn](const ProblemDescriptor& problem) { return cudnn->offers(problem); });
  return found;
}

construct::Libraries find_libraries(const std::string& architecture) {
  try {
    return find_libraries(architecture, cuda::open_driver());
  } catch (const format::Error&) {
    return {};  // no driver: nothing can be measured
  }
}

#else

construct::Libraries find_libraries(const std::string&) { return {}; }

#endif

}  // namespace tw::measure
