// Other weights in a compiled model: the artefact is the one that a compilation with them gives, or they are refused.
#include "driver/refit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "artefact/verify.h"
#include "runtime/format/error.h"
#include "support/error.h"
#include "tests/driver/random_model.h"
#include "tests/driver/refit_models.h"

namespace tw::driver::test {
namespace {

using tw::testing::ModelBuilder;
using tw::testing::set_ints;

void dense(ModelBuilder& model, int seed) {
  model.input("x", {std::string("batch"), int64_t{40}});
  weight(model, "w", {40, 31}, seed);
  weight(model, "b", {31}, seed);
  model.node("MatMul", {"x", "w"}, {"m"});
  model.node("Add", {"m", "b"}, {"a"});
  model.node("Relu", {"a"}, {"y"});
  model.output("y");
}

// Convolution, batch norm, a transposed convolution, a reshape by a constant shape, a product.
void network(ModelBuilder& model, int seed) {
  model.input("x", {int64_t{1}, int64_t{16}, int64_t{14}, int64_t{14}});
  weight(model, "filters", {32, 16, 3, 3}, seed);
  for (const char* name : {"gamma", "beta", "mean"}) weight(model, name, {32}, seed);
  std::vector<float> variance = elements(32, seed, 9);
  for (float& v : variance) v = v * v + 0.5F;
  model.floats("variance", {32}, variance);
  set_ints(model.node("Conv", {"x", "filters"}, {"c"}), "pads", {1, 1, 1, 1});
  model.node("BatchNormalization", {"c", "gamma", "beta", "mean", "variance"}, {"n"});
  model.node("Relu", {"n"}, {"r"});
  weight(model, "up", {32, 8, 4, 4}, seed);
  set_ints(model.node("ConvTranspose", {"r", "up"}, {"t"}), "strides", {2, 2});
  model.ints("shape", {8, 900});
  model.node("Reshape", {"t", "shape"}, {"flat"});
  weight(model, "v", {900, 24}, seed);
  model.node("MatMul", {"flat", "v"}, {"y"});
  model.output("y");
}

TEST(Refit, GivesWhatACompilationGives) {
  expect_refits(dense, for_batches({3}));
  expect_refits(network);
}

TEST(Refit, OfSeveralShapesAndLevels) {
  CompileOptions options = for_batches({1, 5});
  options.target = "cpu:x86-64-v4,cpu:x86-64-v3";
  expect_refits(dense, options);
}

TEST(Refit, OfNarrowerTypes) {
  for (const DataType type : {DataType::f16(), DataType::bf16()}) {
    CompileOptions options;
    options.dtype = type;
    expect_refits(network, options);
  }
  CompileOptions words;
  words.target = "cpu:x86-64-v4+avx512bf16";
  words.precision = Precision::kFast;
  expect_refits(network, words);
}

TEST(Refit, WithoutPasses) {
  CompileOptions options;
  options.all_optional_off = true;
  expect_refits(network, options);
  options.all_optional_off = false;
  options.disabled_passes = {"write-transposed", "fold-batch-norm"};
  expect_refits(network, options);
}

TEST(Refit, KeepsWhatWasBoundAtCompileTime) {
  const Model two = [](ModelBuilder& model, int seed) {
    model.input("x", {int64_t{3}, int64_t{40}});
    model.input("scale", {int64_t{31}});
    weight(model, "w", {40, 31}, seed);
    model.node("MatMul", {"x", "w"}, {"m"});
    model.node("Mul", {"m", "scale"}, {"y"});
    model.output("y");
  };
  CompileOptions options;
  graph::RefTensor scale = graph::RefTensor::zeros({DataType::f32(), {31}});
  for (size_t i = 0; i < scale.floats.size(); ++i) scale.floats[i] = 1.0 / (2.0 + static_cast<double>(i));
  options.imports[0].constants["scale"] = scale;
  expect_refits(two, options);
}

TEST(Refit, TheResultIsRight) {
  const std::vector<uint8_t> first = artefact_bytes(compile(network, 1));  // parts of `made` are views of it
  const Refitted made = refit(first, weights_of(network, 2));
  const graph::Graph& source = made.sources.at(0).graph;
  EXPECT_TRUE(artefact::verify_artefact(bytes_of(made), &source, random_arrays(source, 5), {}).ok());
}

template <typename Error>
void expect_refused(const std::vector<uint8_t>& artefact, const std::shared_ptr<frontend::Weights>& weights,
                    const std::vector<std::string>& words) {
  try {
    refit(artefact, weights);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " in: " << error.what();
  }
}

graph::Bytes floats(std::vector<float> values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return share(std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float)));
}

TEST(Refit, EveryWrongWeightIsNamed) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile(dense, 1, for_batches({3})));
  auto weights = weights_of(dense, 2);
  weights->erase("b");
  expect_refused<UsageError>(artefact, weights, {"'b' (f32[31]) is missing"});
  weights->emplace("other", frontend::Weight{{DataType::f32(), {1}}, floats({1})});
  weights->at("w").type.shape = {31, 40};
  expect_refused<UsageError>(
      artefact, weights,
      {"3 of the weights", "'b'", "'other' is not an initializer", "'w' is f32[31,40]", "f32[40,31]"});
  weights = weights_of(dense, 2);
  weights->at("b") = {{DataType::f64(), {31}}, share(std::vector<std::byte>(31 * 8))};
  expect_refused<UsageError>(artefact, weights, {"'b' is f64[31], the model has f32[31]"});
}

TEST(Refit, NoNumbersAreRefused) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile(dense, 1, for_batches({3})));
  std::vector<float> bias = elements(31, 2, 1);
  bias[7] = std::numeric_limits<float>::quiet_NaN();
  auto weights = weights_of(dense, 2);
  weights->at("b").bytes = floats(bias);
  expect_refused<UsageError>(artefact, weights, {"'b' has a NaN at element 7"});
  bias[7] = -std::numeric_limits<float>::infinity();
  weights->at("b").bytes = floats(bias);
  expect_refused<UsageError>(artefact, weights, {"'b' is infinite at element 7"});
}

// A mask's elements may be infinite: as they were.
TEST(Refit, InfinitiesMayStay) {
  const Model masked = [](ModelBuilder& model, int seed) {
    model.input("x", {int64_t{3}, int64_t{31}});
    std::vector<float> mask = elements(31, seed, 0);
    mask[static_cast<size_t>(seed)] = -std::numeric_limits<float>::infinity();
    model.floats("mask", {31}, mask);
    model.node("Add", {"x", "mask"}, {"y"});
    model.output("y");
  };
  expect_refits(masked);
}

// A bias of zeros was left out of the code: one of other numbers wants it there.
TEST(Refit, WeightsThatWantOtherCodeAreRefused) {
  const Model zero_bias = [](ModelBuilder& model, int seed) {
    dense(model, seed);
    if (seed != 1) return;
    for (float& b : *model.graph().mutable_initializer(1)->mutable_float_data()) b = 0;
  };
  const std::vector<uint8_t> artefact = artefact_bytes(compile(zero_bias, 1, for_batches({3})));
  expect_refused<Unsupported>(artefact, weights_of(zero_bias, 2), {"want other code", "b : f32[31]"});
  EXPECT_NO_THROW(refit(artefact, weights_of(zero_bias, 1)));
}

// Numbers alone are part of the code: they may be given as they are, or left out.
TEST(Refit, SingleNumbersStay) {
  const Model scaled = [](ModelBuilder& model, int seed) {
    model.input("x", {int64_t{3}, int64_t{31}});
    weight(model, "w", {31}, seed);
    model.floats("s", {}, {0.5F});
    model.node("Mul", {"x", "s"}, {"m"});
    model.node("Add", {"m", "w"}, {"y"});
    model.output("y");
  };
  expect_refits(scaled);
  const std::vector<uint8_t> artefact = artefact_bytes(compile(scaled, 1));
  auto weights = weights_of(scaled, 2);
  weights->erase("s");
  EXPECT_EQ(bytes_of(refit(artefact, weights)), bytes_of(refit(artefact, weights_of(scaled, 2))));
  weights->insert_or_assign("s", frontend::Weight{{DataType::f32(), {}}, floats({0.25F})});
  expect_refused<Unsupported>(artefact, weights, {"want other code", "0.25"});
}

// What import makes attributes of is no weight.
TEST(Refit, ShapesNeedNotBeGiven) {
  const std::vector<uint8_t> artefact = artefact_bytes(compile(network, 1));
  auto weights = weights_of(network, 2);
  weights->erase("shape");
  EXPECT_EQ(bytes_of(refit(artefact, weights)), bytes_of(refit(artefact, weights_of(network, 2))));
}

TEST(Refit, DamagedArtefactsAndThoseOfNoModelAreRefused) {
  std::vector<uint8_t> artefact = artefact_bytes(compile(dense, 1, for_batches({3})));
  expect_refused<Unsupported>(artefact_bytes(compile_graph(imports(dense, 1, for_batches({3}))[0].graph, {})),
                              weights_of(dense, 2), {"does not hold what it was made from"});
  artefact[200] ^= 1;
  EXPECT_THROW(refit(artefact, weights_of(dense, 2)), format::Error);
}

TEST(Refit, AnOutputThatIsAWeightIsRefittedToo) {
  const Model constant = [](ModelBuilder& model, int seed) {
    dense(model, seed);
    model.node("Neg", {"w"}, {"z"});
    model.output("z");
  };
  expect_refits(constant, for_batches({3}));
}

}  // namespace
}  // namespace tw::driver::test
