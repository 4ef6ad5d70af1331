// A training that runs by the C interface, as another process would have it: model, context and their state.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/api_harness.h"

namespace tw::train {

class ApiTraining {
 protected:
  explicit ApiTraining(const std::vector<uint8_t>& artefact)
      : model_(test::load(artefact)),
        context_(test::make_context(model_.get(), test::options_with(0))),
        state_(nullptr, test::api().state_free) {
    TwState* state = nullptr;
    EXPECT_OK(test::api().context_state(context_.get(), &state));
    state_.reset(state);
  }

  static DLTensor tensor(float* data, const int64_t* shape, int32_t rank) {
    return {data, {kDLCPU, 0}, rank, {kDLFloat, 32, 1}, const_cast<int64_t*>(shape), nullptr, 0};
  }

  // The elements of each state, all of f32, under its name.
  std::vector<std::pair<std::string, std::vector<float>>> elements() {
    std::vector<std::pair<std::string, std::vector<float>>> all;
    for (int32_t s = 0; s < test::api().state_count(model_.get()); ++s) {
      TwTensorInfo info{};
      info.struct_size = sizeof(info);
      EXPECT_OK(test::api().state_info(model_.get(), s, &info));
      int64_t count = 1;
      for (int32_t d = 0; d < info.ndim; ++d) count *= info.shape[d];
      std::vector<float> own(static_cast<size_t>(count));
      const DLTensor to = tensor(own.data(), info.shape, info.ndim);
      EXPECT_OK(test::api().state_get(state_.get(), s, &to));
      all.emplace_back(info.name, std::move(own));
    }
    return all;
  }

  const test::ModelPtr model_;
  test::ContextPtr context_;
  std::unique_ptr<TwState, void (*)(TwState*)> state_;
};

}  // namespace tw::train
