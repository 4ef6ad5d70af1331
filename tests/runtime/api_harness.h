// The C interface as the tests use it: owning handles, tensors that carry their data.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/test_model.h"
#include "tilewright/runtime.h"

namespace tw::test {

inline const TwApi& api() { return *tw_get_api(TW_API_VERSION); }

/// A status taken apart and freed.
struct Outcome {
  TwStatusCode code = TW_OK;
  int exit_code = 0;
  std::string message;
  std::string details;
  Outcome(TwStatus* status)  // implicit: every function of the table returns one
      : code(api().status_code(status)),
        exit_code(api().status_exit_code(status)),
        message(api().status_message(status)),
        details(api().status_details(status)) {
    api().status_free(status);
  }
};

#define EXPECT_OK(call)                                  \
  do {                                                   \
    const ::tw::test::Outcome outcome_ = (call);         \
    EXPECT_EQ(outcome_.code, TW_OK) << outcome_.message; \
  } while (false)

/// The call fails with `code_` and a message that contains `part`.
#define EXPECT_FAILS(call, code_, part)                                            \
  do {                                                                             \
    const ::tw::test::Outcome outcome_ = (call);                                   \
    EXPECT_EQ(outcome_.code, code_) << outcome_.message;                           \
    EXPECT_NE(outcome_.message.find(part), std::string::npos) << outcome_.message; \
  } while (false)

using ModelPtr = std::unique_ptr<TwModel, void (*)(TwModel*)>;
using ContextPtr = std::unique_ptr<TwContext, void (*)(TwContext*)>;

inline TwOptions options_with(int threads, int profile = 0) {
  TwOptions options{};
  options.struct_size = sizeof(options);
  options.threads = threads;
  options.profile = profile;
  return options;
}

inline ModelPtr load(const std::vector<uint8_t>& file) {
  TwModel* model = nullptr;
  EXPECT_OK(api().model_load_memory(file.data(), file.size(), nullptr, &model));
  return {model, api().model_free};
}

inline ContextPtr make_context(const TwModel* model, const TwOptions& options) {
  TwContext* context = nullptr;
  EXPECT_OK(api().context_create(model, &options, &context));
  return {context, api().context_free};
}

template <typename T>
constexpr DLDataType dlpack_type() {
  return {static_cast<uint8_t>(std::is_floating_point_v<T> ? kDLFloat : kDLInt), sizeof(T) * 8, 1};
}

/// A one-dimensional tensor; not to be copied, for the view points into it.
template <typename T>
struct Vector {
  explicit Vector(size_t n, T value = T()) : data(n, value), shape(static_cast<int64_t>(n)) {}
  Vector(const Vector&) = delete;
  DLTensor view() { return {data.data(), {kDLCPU, 0}, 1, dlpack_type<T>(), &shape, nullptr, 0}; }
  std::vector<T> data;
  int64_t shape;
};

/// Inputs and output of sum_model for one n, with values that depend on `seed`.
struct SumCase {
  explicit SumCase(int64_t n, int seed = 0)
      : a(static_cast<size_t>(n)), b(static_cast<size_t>(n)), y(static_cast<size_t>(n), -1.0f) {
    for (size_t i = 0; i < a.data.size(); ++i) {
      a.data[i] = static_cast<float>(i) + 0.25f * static_cast<float>(seed);
      b.data[i] = 1000.0f * static_cast<float>(i % 7);
    }
  }
  Outcome run(TwContext* context) {
    const DLTensor inputs[] = {a.view(), b.view()};
    const DLTensor outputs[] = {y.view()};
    return api().run(context, inputs, 2, outputs, 1);
  }
  std::vector<float> expected() const {
    std::vector<float> result;
    for (size_t i = a.data.size(); i-- > 0;) result.push_back(a.data[i] + b.data[i]);
    return result;
  }
  Vector<float> a, b, y;
};

}  // namespace tw::test
