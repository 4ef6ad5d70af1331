// Contractions of narrow numbers as compiled code: on every level that this machine runs, against the reference.
#include <gtest/gtest.h>

#include <random>

#include "artefact/session.h"
#include "artefact/verify.h"
#include "driver/code/generate.h"
#include "tests/driver/levels.h"
#include "tests/driver/small_model.h"

namespace tw::driver::test {
namespace {

using graph::Graph;
using graph::RefTensor;
using graph::ValueId;
using Ints = std::vector<int64_t>;

constexpr DataType kU8 = ScalarType::kU8, kI8 = ScalarType::kI8;

const std::vector<std::string>& word_levels() {
  static const std::vector<std::string> kLevels = {"x86-64-v4+avx512bf16+avx512vnni",
                                                   "x86-64-v4+avx512vnni",
                                                   "x86-64-v4+avx512bf16",
                                                   "x86-64-v4",
                                                   "x86-64-v3+avxvnni",
                                                   "x86-64-v3",
                                                   "x86-64-v2",
                                                   "x86-64"};
  return kLevels;
}

// All bytes; floats that are multiples of 1/8.
RefTensor random_tensor(DataType type, const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  RefTensor t = RefTensor::zeros({type, shape});
  for (int64_t& x : t.ints) x = static_cast<int64_t>(random() % 256) - (type.is_signed_int() ? 128 : 0);
  for (double& x : t.floats) x = static_cast<double>(random() % 33) / 8 - 2;
  return t;
}

struct Builder {
  Graph g;
  ValueId constant(const char* name, const RefTensor& t) { return g.add_constant(name, t.type, share(t.to_bytes())); }
  ValueId node(const char* op, std::vector<ValueId> inputs, graph::Attrs attrs = {}) {
    static const graph::OpTable kOps = ops::all_ops();
    graph::Node n;
    n.op = op;
    n.name = std::string(op) + std::to_string(g.nodes.size());
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    return graph::append_node(g, kOps, std::move(n))[0];
  }
};

void check_at_every_level(const Graph& source, Precision precision = Precision::kDefault) {
  CompileOptions options;
  options.precision = precision;
  options.target.clear();
  for (const std::string& level : word_levels())
    options.target += (level == word_levels()[0] ? "cpu:" : ",cpu:") + level;
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(source, options));
  std::vector<artefact::Array> inputs;
  for (const ValueId in : source.inputs) {
    const TensorType& type = source.value(in).type;
    inputs.push_back(artefact::to_array(random_tensor(type.type, type.shape, inputs.size() + 1)));
  }
  int ran = 0;
  for (const std::string& level : word_levels()) {
    SCOPED_TRACE(level);
    if (!runs_here(level)) continue;
    EXPECT_TRUE(artefact::verify_artefact(artefact, nullptr, inputs, {}, {level}).ok());
    EXPECT_TRUE(artefact::verify_artefact(artefact, &source, inputs, {}, {level}).ok());
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

TEST(Words, IntegerMatrices) {
  Builder b;
  b.g.name = "g";
  const ValueId x = b.g.add_input("x", {kU8, {2, 5, 37}}), x0 = b.g.add_input("x0", {kU8, {}});
  const ValueId w = b.constant("w", random_tensor(kI8, {37, 41}, 1));
  const ValueId u = b.constant("u", random_tensor(kU8, {37, 19}, 2));
  const ValueId u0 = b.constant("u0", random_tensor(kU8, {19}, 3));
  b.g.outputs = {b.node("matmul_integer", {x, w, x0}), b.node("matmul_integer", {x, u, x0, u0})};
  check_at_every_level(b.g);
}

TEST(Words, IntegerConvolutions) {
  Builder b;
  b.g.name = "g";
  const ValueId x = b.g.add_input("x", {kI8, {1, 6, 11, 9}});
  const ValueId x0 = b.constant("x0", random_tensor(kI8, {}, 4));
  const ValueId w = b.constant("w", random_tensor(kI8, {18, 6, 3, 3}, 1));
  const ValueId grouped = b.constant("grouped", random_tensor(kI8, {6, 2, 3, 3}, 2));
  const graph::Attrs pads{{"pads", Ints{1, 1, 1, 1}}};
  const graph::Attrs three{{"pads", Ints{0, 1, 1, 0}}, {"group", int64_t{3}}, {"strides", Ints{2, 2}}};
  b.g.outputs = {b.node("conv_integer", {x, w, x0}, pads), b.node("conv_integer", {x, grouped, x0}, three)};
  check_at_every_level(b.g);
}

// Quads are the pass's choice only where one instruction sums them; as code they run everywhere.
TEST(Words, QuadsWithoutTheirInstruction) {
  Builder b;
  b.g.name = "g";
  const ValueId x = b.g.add_input("x", {kU8, {5, 37}});
  const auto quads = [](const char* side, int64_t axis) {
    return graph::Attrs{{"words", std::string("quads")}, {"side", std::string(side)}, {"axis", axis}};
  };
  const ValueId w = b.node("pack_words", {b.constant("w", random_tensor(kI8, {37, 41}, 1))}, quads("right", 0));
  const ValueId a = b.node("pack_words", {x}, quads("left", 1));
  b.g.outputs = {b.node("matmul_words", {a, w}, {{"words", std::string("quads")}})};
  check_at_every_level(b.g);
}

Graph float_model(DataType type) {
  Builder b;
  b.g.name = "g";
  const ValueId x = b.g.add_input("x", {type, {24, 37}});
  const ValueId image = b.g.add_input("image", {type, {1, 6, 7, 9}});
  const ValueId w = b.constant("w", random_tensor(type, {37, 90}, 1));
  const ValueId v = b.constant("v", random_tensor(type, {18, 6, 3, 3}, 2));
  const ValueId bias = b.constant("bias", random_tensor(type, {18}, 3));
  const ValueId conv = b.node("conv", {image, v, bias}, {{"pads", Ints{1, 1, 1, 1}}});
  b.g.outputs = {b.node("relu", {b.node("matmul", {x, w})}), conv};
  return b.g;
}

TEST(Words, Bf16) {
  for (const Precision precision : {Precision::kStrict, Precision::kDefault})
    check_at_every_level(float_model(DataType::bf16()), precision);
}

// The summary says where operands are rounded.
TEST(Words, FastSaysWhatItRounds) {
  const auto warnings = [](const char* target, Precision precision) {
    CompileOptions options;
    options.target = target;
    options.precision = precision;
    return compile_graph(float_model(DataType::f32()), options).warnings;
  };
  const std::vector<std::string> said = warnings("cpu:x86-64-v4+avx512bf16", Precision::kFast);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find(": 1 activation rounded to bf16"), std::string::npos) << said[0];
  EXPECT_TRUE(warnings("cpu:x86-64-v4+avx512bf16", Precision::kDefault).empty());
  EXPECT_TRUE(warnings("cpu:x86-64-v4", Precision::kFast).empty());
  if (const Result<bool> available = cuda_generation_available(); !available.ok()) GTEST_SKIP() << available.reason();
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a"}) {
    const std::vector<std::string> of_gpu = warnings(target, Precision::kFast);
    ASSERT_EQ(of_gpu.size(), 1u);
    EXPECT_NE(of_gpu[0].find(": 2 products of operands rounded to tf32"), std::string::npos) << of_gpu[0];
    EXPECT_TRUE(warnings(target, Precision::kDefault).empty());
  }
}

TEST(Words, Fast) { check_at_every_level(float_model(DataType::f32()), Precision::kFast); }

}  // namespace
}  // namespace tw::driver::test
