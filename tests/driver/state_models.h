// Models with states, compiled and run with them and without.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "artefact/session.h"
#include "driver/compile.h"
#include "ops/list.h"
#include "tests/onnx/model_builder.h"

namespace tw::driver::test {

using Model = std::function<void(tw::testing::ModelBuilder& model)>;
using States = std::vector<StatePair>;

/// An element of an input, from one of the numbers 0 .. 96.
using Spread = double (*)(int64_t n);
inline double fractions(int64_t n) { return static_cast<double>(n) / 64 - 0.7; }
inline double small_integers(int64_t n) { return static_cast<double>(n % 9 - 4); }

inline frontend::ImportResult import(const Model& make, int64_t opset = 17,
                                     const frontend::ImportOptions& options = {}) {
  tw::testing::ModelBuilder model(opset);
  make(model);
  return frontend::import_onnx_bytes(model.bytes(), "", ops::all_ops(), options);
}

inline Compiled compile(const Model& make, const States& states, int64_t opset = 17, CompileOptions options = {}) {
  options.states = states;
  return compile_imported({import(make, opset)}, options);
}

inline artefact::Array array_of(const TensorType& type, int64_t seed, Spread spread = fractions) {
  graph::RefTensor t = graph::RefTensor::zeros(type);
  for (int64_t i = 0; i < std::ssize(t.floats); ++i) t.floats[i] = spread((i * 53 + seed * 29) % 97);
  for (int64_t& i : t.ints) i = seed;
  return artefact::to_array(t);
}

/// One input for each that the session takes; integers, which are positions, are `position`.
inline std::vector<artefact::Array> inputs_of(const artefact::Session& session, int64_t position = 0,
                                              Spread spread = fractions) {
  std::vector<artefact::Array> inputs;
  for (const artefact::NamedType& type : session.inputs())
    inputs.push_back(array_of(type.type, type.type.type.is_int() ? position : std::ssize(inputs), spread));
  return inputs;
}

/// With states, which are the model's last inputs and outputs, the same bits come as without: rows, whoever asks.
inline void expect_same(const Model& make, const States& states, const std::vector<int64_t>& positions = {0},
                        int64_t opset = 17, const CompileOptions& options = {}, Spread spread = fractions) {
  using artefact::Session;
  Session with = Session::load_memory(artefact_bytes(compile(make, states, opset, options)), {});
  Session without = Session::load_memory(artefact_bytes(compile(make, {}, opset, options)), {});
  ASSERT_EQ(with.states().size(), states.size());
  for (const int64_t position : positions) {
    const std::vector<artefact::Array> inputs = inputs_of(with, position, spread);
    const std::vector<artefact::Array> got = with.run(inputs), want = without.run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(got[k].bytes, want[k].bytes) << "output " << k << " at " << position;
  }
}

}  // namespace tw::driver::test
