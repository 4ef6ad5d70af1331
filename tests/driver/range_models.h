// Models whose dimensions have ranges, beside exact entries.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "driver/option_table.h"
#include "support/error.h"
#include "tests/driver/state_models.h"

namespace tw::driver::test {

inline std::vector<float> numbers(int64_t count, int64_t seed) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>((i * 37 + seed * 11) % 61) / 61 - 0.5f);
  return out;
}

inline CompileOptions with_dims(const std::vector<std::string>& dims) {
  CompileOptions options;
  for (const std::string& dim : dims) set_option(options, "dim", {dim, "--dim"});
  return options;
}

inline Compiled compile_dims(const Model& make, const std::vector<std::string>& dims, CompileOptions options = {}) {
  options.imports = with_dims(dims).imports;
  options.least = with_dims(dims).least;
  tw::testing::ModelBuilder model(17);
  make(model);
  return compile_imported(import_bytes(model.bytes(), "", options), options);
}

inline artefact::Session session_of(const Compiled& compiled) {
  return artefact::Session::load_memory(artefact_bytes(compiled), {});
}

// Whatever is not 0 in rows that a run lacks must not be seen: what is given to one run is not there in the next.
inline void expect_like_exact(const Model& make, artefact::Session& ranged, const std::vector<std::string>& exact_dims,
                              int64_t seed) {
  artefact::Session exact = session_of(compile_dims(make, exact_dims));
  std::vector<artefact::Array> inputs;
  for (const artefact::NamedType& input : exact.inputs())
    inputs.push_back(array_of(input.type, seed + std::ssize(inputs)));
  const std::vector<artefact::Array> got = ranged.run(inputs), want = exact.run(inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].type, want[k].type) << exact_dims[0] << " output " << k;
    const graph::RefTensor a = artefact::to_reference(got[k]), b = artefact::to_reference(want[k]);
    for (size_t i = 0; i < b.floats.size(); ++i)
      ASSERT_NEAR(a.floats[i], b.floats[i], 2e-5 * (1 + std::abs(b.floats[i]))) << exact_dims[0] << " output " << k;
  }
}

inline void expect_refused(const Model& make, const std::vector<std::string>& dims,
                           const std::vector<std::string>& parts) {
  try {
    compile_dims(make, dims);
    ADD_FAILURE() << "was accepted";
  } catch (const Unsupported& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace tw::driver::test
