// The public C++ interface: options, errors with their kinds, plans, and calls from many threads at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "artefact/session.h"
#include "tests/onnx/model_builder.h"
#include "tilewright/compiler.h"

namespace tw::driver::test {
namespace {
using tilewright::CompileResult;
using tilewright::Error;
using tilewright::ErrorKind;

// y[batch, 3] = relu(x[batch, 2] w[2, 3] + b[3]), w given at compile time when `open_weights`
std::string dense(bool open_weights) {
  tw::testing::ModelBuilder model;
  model.input("x", {std::string("batch"), int64_t{2}});
  if (open_weights) {
    model.input("w", {int64_t{2}, int64_t{3}});
  } else {
    model.floats("w", {2, 3}, {1, -2, 3, 4, 5, -6});
  }
  model.floats("b", {3}, {0.5F, 0, -0.5F});
  model.node("MatMul", {"x", "w"}, {"m"});
  model.node("Add", {"m", "b"}, {"a"});
  model.node("Relu", {"a"}, {"y"});
  model.output("y");
  const std::vector<std::byte> bytes = model.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

CompileResult compile(const std::string& model, const tilewright::CompileOptions& options) {
  return tilewright::compile_bytes(model.data(), model.size(), "", options);
}

tilewright::CompileOptions with_batch(int64_t batch) {
  tilewright::CompileOptions options;
  options.entries = {{{}, {{"batch", batch}}}};
  return options;
}

std::vector<float> run(const std::vector<uint8_t>& artefact, const std::vector<float>& x) {
  artefact::Array input{{DataType::f32(), {static_cast<int64_t>(x.size()) / 2, 2}}, {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  input.bytes.assign(bytes, bytes + x.size() * sizeof(float));
  const artefact::Array y = artefact::Session::load_memory(artefact, {}).run({input}).at(0);
  const auto* floats = reinterpret_cast<const float*>(y.bytes.data());
  return {floats, floats + y.bytes.size() / sizeof(float)};
}

const std::vector<float> kX = {1, 2, -3, 0.5F};
const std::vector<float> kWant = {9.5F, 8, 0, 0, 8.5F, 0};

ErrorKind kind_of(const std::function<void()>& call, const std::string& fragment) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    EXPECT_EQ(error.exit_code(), static_cast<int>(error.kind()));
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kInternal;
}

TEST(Api, CompilesBytesForSeveralShapes) {
  tilewright::CompileOptions options = with_batch(2);
  options.entries.push_back({{{"x", {1, 2}}}, {}});
  const CompileResult result = compile(dense(false), options);
  EXPECT_EQ(run(result.artefact, kX), kWant);
  EXPECT_EQ(run(result.artefact, {1, 2}), (std::vector<float>{9.5F, 8, 0}));
  EXPECT_EQ(result.report.opset, 17);
  EXPECT_EQ(result.report.groups, 2);
  EXPECT_EQ(result.report.families.at("contraction"), 2);
  EXPECT_TRUE(result.report.target.starts_with("cpu:"));
}

TEST(Api, InputsBecomeConstants) {
  std::array<float, 6> weights = {1, -2, 3, 4, 5, -6};
  std::array<int64_t, 2> shape = {2, 3};
  DLTensor w{};
  w.data = weights.data();
  w.device = {kDLCPU, 0};
  w.ndim = 2;
  w.dtype = {kDLFloat, 32, 1};
  w.shape = shape.data();
  tilewright::CompileOptions options = with_batch(2);
  options.constants["w"] = w;
  EXPECT_EQ(run(compile(dense(true), options).artefact, kX), kWant);
  std::array<int64_t, 2> transposed = {1, 2};
  options.constants["w"].strides = transposed.data();
  EXPECT_EQ(kind_of([&] { compile(dense(true), options); }, "w"), ErrorKind::kUsage);
  options.constants["w"] = w;
  options.constants["frob"] = w;
  EXPECT_EQ(kind_of([&] { compile(dense(true), options); }, "frob"), ErrorKind::kModel);
}

TEST(Api, APlanReplaysToTheSameBytes) {
  tilewright::CompileOptions options = with_batch(2);
  const CompileResult first = compile(dense(false), options);
  options.plan = first.plan;
  EXPECT_EQ(compile(dense(false), options).artefact, first.artefact);
}

TEST(Api, WholeNumbersAreExactInHalfPrecision) {
  for (const char* dtype : {"f16", "bf16"}) {
    tilewright::CompileOptions options = with_batch(2);
    options.dtype = dtype;
    const CompileResult result = compile(dense(false), options);
    EXPECT_NE(result.artefact, compile(dense(false), with_batch(2)).artefact);
    EXPECT_EQ(run(result.artefact, kX), kWant);
  }
}

TEST(Api, ErrorsHaveTheirKinds) {
  const std::string model = dense(false);
  EXPECT_EQ(kind_of([&] { compile(model, {}); }, "batch"), ErrorKind::kModel);
  tilewright::CompileOptions options = with_batch(2);
  options.target = "cpu:z80";
  EXPECT_EQ(kind_of([&] { compile(model, options); }, "z80"), ErrorKind::kUsage);
  options = with_batch(2);
  options.disabled_passes = {"frob"};
  EXPECT_EQ(kind_of([&] { compile(model, options); }, "frob"), ErrorKind::kUsage);
  for (const char* dtype : {"f8", "i32"}) {
    options = with_batch(2);
    options.dtype = dtype;
    EXPECT_EQ(kind_of([&] { compile(model, options); }, dtype), ErrorKind::kUsage);
  }
  options = with_batch(2);
  options.entries.clear();
  EXPECT_EQ(kind_of([&] { compile(model, options); }, "entries"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([] { tilewright::compile_file("/nowhere/m.onnx"); }, "/nowhere/m.onnx"), ErrorKind::kModel);
  EXPECT_EQ(kind_of([&] { compile(model.substr(0, model.size() / 2), {}); }, ""), ErrorKind::kModel);
  EXPECT_EQ(kind_of([&] { tilewright::write_artefact(compile(model, with_batch(1)), "/nowhere/m.tw"); }, "/nowhere"),
            ErrorKind::kUsage);
}

TEST(Api, OptionsAreSetByTheNamesThatTheTableHas) {
  const std::vector<tilewright::OptionInfo> table = tilewright::options();
  const auto row = [&](const std::string& name) {
    return *std::find_if(table.begin(), table.end(), [&](const auto& r) { return r.name == name; });
  };
  EXPECT_EQ(row("precision").choices, "strict|default|fast");
  EXPECT_EQ(row("precision").initial, "default");
  EXPECT_EQ(row("disable-pass").field, "CompileOptions::disabled_passes");
  EXPECT_TRUE(row("disable-pass").is_repeatable);
  EXPECT_EQ(row("budget").kind, "duration");
  const std::string model = dense(false);
  tilewright::CompileOptions by_field = with_batch(2), by_name, plain = with_batch(2);
  by_field.dtype = "f16";
  by_field.disabled_passes = {"fuse"};
  by_name.set("dim", "batch=2");
  by_name.set("dtype", "f16");
  by_name.set("disable-pass", "fuse");
  EXPECT_EQ(compile(model, by_name).artefact, compile(model, by_field).artefact);
  EXPECT_NE(compile(model, by_name).artefact, compile(model, plain).artefact);
  EXPECT_EQ(kind_of([&] { plain.set("precison", "fast"); }, "did you mean 'precision'?"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { plain.set("dtype", "f8"); }, "CompileOptions::dtype: f8 not in"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { plain.set("explore", "-1"); }, "option 'explore' '-1'"), ErrorKind::kUsage);
  EXPECT_TRUE(plain.named.empty());
}

TEST(Api, WhereItStopsThereIsNoArtefact) {
  tilewright::CompileOptions options = with_batch(2);
  options.set("stop-after", "fuse");
  const CompileResult result = compile(dense(false), options);
  EXPECT_TRUE(result.artefact.empty());
  EXPECT_FALSE(result.report.times.empty());
}

// A program has fields, not flags.
TEST(Api, MessagesNameFields) {
  const std::string model = dense(false);
  const auto message = [&](const tilewright::CompileOptions& options) {
    try {
      compile(model, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({}).find("InputShapes::dimensions batch=1"), std::string::npos) << message({});
  std::vector<tilewright::CompileOptions> wrong(7, with_batch(2));
  wrong[0].disabled_passes = {"frob"};
  wrong[1].disabled_families = {"frob"};
  wrong[2].plan = "tilewright plan 1\nfrob\n";
  wrong[3].threads = -1;
  wrong[4].measure_threads = -1;
  wrong[5].entries = {{{{"frob", {1}}}, {}}};
  wrong[6].dtype = "f8";
  const char* fields[] = {
      "disabled_passes", "disabled_families", "plan", "threads", "measure_threads", "shapes", "dtype"};
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_NE(message(wrong[i]).find(fields[i]), std::string::npos) << message(wrong[i]);
    EXPECT_EQ(message(wrong[i]).find("--"), std::string::npos) << message(wrong[i]);
  }
}

TEST(Api, ManyThreadsMayCompileAtOnce) {
  const std::string model = dense(false);
  const std::vector<uint8_t> want = compile(model, with_batch(2)).artefact;
  std::array<std::vector<uint8_t>, 4> got;
  std::vector<std::jthread> threads;
  for (std::vector<uint8_t>& artefact : got)
    threads.emplace_back([&] { artefact = compile(model, with_batch(2)).artefact; });
  threads.clear();
  for (const std::vector<uint8_t>& artefact : got) EXPECT_EQ(artefact, want);
}

TEST(Api, ProgressComesFromTheCallingThreadInOrder) {
  tilewright::CompileOptions options = with_batch(2);
  std::vector<std::string> phases;
  options.progress = [&, caller = std::this_thread::get_id()](std::string_view phase, int64_t done, int64_t total) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_LE(done, total);
    if (phases.empty() || phases.back() != phase) phases.emplace_back(phase);
  };
  compile(dense(false), options);
  EXPECT_EQ(phases, (std::vector<std::string>{"import", "transform", "lower", "code", "assemble"}));
}

}  // namespace
}  // namespace tw::driver::test
