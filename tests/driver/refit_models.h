// ONNX models whose weights depend on a seed, compiled and refitted.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "driver/refit.h"
#include "frontend/onnx/file/tensor_data.h"
#include "support/join.h"
#include "tests/graph/sample.h"
#include "tests/onnx/model_builder.h"

namespace tw::driver::test {

using Model = std::function<void(tw::testing::ModelBuilder& model, int seed)>;

/// Seeded elements in [-1, 1), none of which is another one's: the values of nothing are alike.
inline std::vector<float> elements(int64_t count, int seed, int tensor) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<uint64_t>(i * 2'654'435'761 + seed * 40'503 + tensor * 7'919) * 0x9e3779b97f4a7c15;
    values.push_back(static_cast<float>(mixed >> 40) / 0x1p23F - 1);
  }
  return values;
}

/// An initializer of elements(), each times `scale`.
inline void weight(tw::testing::ModelBuilder& model, const std::string& name, const std::vector<int64_t>& dims,
                   int seed, float scale = 1) {
  std::vector<float> values = elements(num_elements(dims), seed, model.graph().initializer_size());
  for (float& v : values) v *= scale;
  model.floats(name, dims, values);
}

inline CompileOptions for_batches(const std::vector<int64_t>& batches) {
  CompileOptions options;
  options.imports.clear();
  for (const int64_t batch : batches) options.imports.push_back({{}, {{"batch", batch}}, {}});
  return options;
}

inline std::vector<frontend::ImportResult> imports(const Model& make, int seed, const CompileOptions& options) {
  tw::testing::ModelBuilder model;
  make(model, seed);
  return mapped(options.imports, [&](const frontend::ImportOptions& i) {
    return frontend::import_onnx_bytes(model.bytes(), "", graph::test::table(), i);
  });
}

inline Compiled compile(const Model& make, int seed, const CompileOptions& options = {}) {
  return compile_imported(imports(make, seed, options), options);
}

inline std::shared_ptr<frontend::Weights> weights_of(const Model& make, int seed) {
  tw::testing::ModelBuilder model;
  make(model, seed);
  auto weights = std::make_shared<frontend::Weights>();
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    const frontend::TensorData data = frontend::read_tensor(tensor, frontend::ExternalData(""));
    weights->emplace(tensor.name(), frontend::Weight{data.type, data.bytes});
  }
  return weights;
}

inline std::vector<uint8_t> bytes_of(const Refitted& made) {
  return format::serialize_artefact(made.manifest, made.sections());
}

/// The artefact of one seed with the weights of another is that of the other, by the same plan.
inline void expect_refits(const Model& make, CompileOptions options = {}) {
  const Compiled first = compile(make, 1, options);
  options.plan_text = plan::to_string(first.plan);
  const std::vector<uint8_t> artefact = artefact_bytes(first), want = artefact_bytes(compile(make, 2, options));
  ASSERT_NE(artefact, want);
  const std::vector<uint8_t> got = bytes_of(refit(artefact, weights_of(make, 2)));
  EXPECT_EQ(got, want);
  EXPECT_EQ(bytes_of(refit(got, weights_of(make, 1))), artefact) << "back again";
}

}  // namespace tw::driver::test
