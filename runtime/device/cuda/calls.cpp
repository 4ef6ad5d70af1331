#include "runtime/device/cuda/calls.h"

#include <algorithm>

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/cudnn.h"
#include "runtime/format/error.h"

namespace tw::runtime::cuda {

namespace {

// Numbers of engines and their settings are those of one version, patches of it aside: of another one, such as a
// program may have loaded already, its own first choice takes their place.
format::LibraryCall of_version(const Cudnn& library, void* handle, const format::LibraryCall& call) {
  constexpr int64_t kPatches = 100;
  if (call.version / kPatches == static_cast<int64_t>(library.version()) / kPatches) return call;
  const std::vector<format::LibraryCall> offers = cudnn_offers(library, handle, call.problem, 1);
  return offers.empty() ? call : offers.front();
}

}  // namespace

void Calls::open(const Driver& driver, const std::string& text) {
  const format::LibraryCall call = format::parse_library_call(text);
  try {
    call.library == "cudnn" ? void(driver.open_cudnn()) : void(driver.open_cublaslt());
  } catch (const format::Error& error) {
    format::fail(error.code(), "this artefact needs ", call.library, ", measured with version ", call.version, ": ",
                 std::string_view(error.what()));
  }
}

void Calls::add(const std::string& text) {
  if (calls_.contains(text)) return;
  const format::LibraryCall call = format::parse_library_call(text);
  std::unique_ptr<Call> made;
  if (call.library == "cudnn") {
    const Cudnn& library = gpu_.driver.open_cudnn();
    if (cudnn_ == nullptr) cudnn_ = CudnnCall::start(library);
    made = std::make_unique<CudnnCall>(library, cudnn_.get(), of_version(library, cudnn_.get(), call));
  } else {
    const Cublaslt& library = gpu_.driver.open_cublaslt();
    if (cublaslt_ == nullptr) cublaslt_ = MatmulCall::start(library);
    made = std::make_unique<MatmulCall>(library, cublaslt_.get(), call);
  }
  workspace_bytes_ = std::max(workspace_bytes_, made->workspace_bytes());
  calls_.emplace(text, std::move(made));
}

}  // namespace tw::runtime::cuda
