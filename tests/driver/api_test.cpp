// The public interface, through its C++ header: options, errors with their kinds, plans, callbacks, refit, and calls
// from many threads at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "artefact/session.h"
#include "tests/onnx/model_builder.h"
#include "tilewright/compiler.hpp"

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

std::vector<uint8_t> bytes_of(const CompileResult& result) { return {result.artefact.begin(), result.artefact.end()}; }

std::vector<float> run(const CompileResult& result, const std::vector<float>& x) {
  artefact::Array input{{DataType::f32(), {static_cast<int64_t>(x.size()) / 2, 2}}, {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  input.bytes.assign(bytes, bytes + x.size() * sizeof(float));
  const artefact::Array y = artefact::Session::load_memory(bytes_of(result), {}).run({input}).at(0);
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
  EXPECT_EQ(run(result, kX), kWant);
  EXPECT_EQ(run(result, {1, 2}), (std::vector<float>{9.5F, 8, 0}));
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
  EXPECT_EQ(run(compile(dense(true), options), kX), kWant);
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
  EXPECT_EQ(bytes_of(compile(dense(false), options)), bytes_of(first));
}

TEST(Api, WholeNumbersAreExactInHalfPrecision) {
  for (const char* dtype : {"f16", "bf16"}) {
    tilewright::CompileOptions options = with_batch(2);
    options.dtype = dtype;
    const CompileResult result = compile(dense(false), options);
    EXPECT_NE(bytes_of(result), bytes_of(compile(dense(false), with_batch(2))));
    EXPECT_EQ(run(result, kX), kWant);
  }
}

TEST(Api, ErrorsHaveTheirKinds) {
  const std::string model = dense(false);
  EXPECT_EQ(kind_of([&] { compile(model, {}); }, "batch"), ErrorKind::kModel);
  tilewright::CompileOptions options = with_batch(2);
  options.target = "cpu:z80";
  EXPECT_EQ(kind_of([&] { compile(model, options); }, "z80"), ErrorKind::kUsage);
  options = with_batch(2);
  options.set("disable-pass", "frob");
  EXPECT_EQ(kind_of([&] { compile(model, options); }, "frob"), ErrorKind::kUsage);
  for (const char* dtype : {"f8", "i32"}) {
    options = with_batch(2);
    options.dtype = dtype;
    EXPECT_EQ(kind_of([&] { compile(model, options); }, dtype), ErrorKind::kUsage);
  }
  options = with_batch(2);
  options.entries.clear();
  EXPECT_EQ(kind_of([&] { compile(model, options); }, "entries"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([] { tilewright::compile_file("/nowhere/m.onnx"); }, "/nowhere/m.onnx"), ErrorKind::kUsage);
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
  EXPECT_EQ(row("db").variable, "TILEWRIGHT_DB");
  EXPECT_TRUE(row("disable-pass").is_repeatable);
  EXPECT_EQ(row("budget").kind, "duration");
  const std::string model = dense(false);
  tilewright::CompileOptions by_field = with_batch(2), by_name, plain = with_batch(2);
  by_field.dtype = "f16";
  by_field.set("disable-pass", "fuse");
  by_name.set("dim", "batch=2");
  by_name.set("dtype", "f16");
  by_name.set("disable-pass", "fuse");
  EXPECT_EQ(bytes_of(compile(model, by_name)), bytes_of(compile(model, by_field)));
  EXPECT_NE(bytes_of(compile(model, by_name)), bytes_of(compile(model, plain)));
  EXPECT_EQ(kind_of([&] { plain.set("precison", "fast"); }, "did you mean 'precision'?"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { plain.set("dtype", "f8"); }, "option 'dtype' 'f8': expected f32, f16 or bf16"),
            ErrorKind::kUsage);
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

// A program has options, not flags.
TEST(Api, MessagesNameOptions) {
  const std::string model = dense(false);
  const auto message = [&](const tilewright::CompileOptions& options) {
    try {
      compile(model, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({}).find("option 'dim' batch=1"), std::string::npos) << message({});
  EXPECT_EQ(message({}).find("--"), std::string::npos) << message({});
  const std::pair<const char*, const char*> wrong[] = {
      {"disable-pass", "frob"}, {"disable-family", "frob"}, {"shape", "frob:1"}, {"dtype", "i32"}};
  for (const auto& [name, value] : wrong) {
    tilewright::CompileOptions options = with_batch(2);
    if (std::string_view(name) != "dtype") options.set(name, value);
    if (std::string_view(name) == "dtype") options.dtype = value;
    EXPECT_NE(message(options).find(fmt::format("option '{}'", name)), std::string::npos) << message(options);
    EXPECT_EQ(message(options).find("--"), std::string::npos) << message(options);
  }
  tilewright::CompileOptions planned = with_batch(2);
  planned.plan = "tilewright plan 1\nfrob\n";
  EXPECT_NE(message(planned).find("option 'plan'"), std::string::npos) << message(planned);
}

TEST(Api, ManyThreadsMayCompileAtOnce) {
  const std::string model = dense(false);
  const std::vector<uint8_t> want = bytes_of(compile(model, with_batch(2)));
  std::array<std::vector<uint8_t>, 4> got;
  std::vector<std::jthread> threads;
  for (std::vector<uint8_t>& artefact : got)
    threads.emplace_back([&] { artefact = bytes_of(compile(model, with_batch(2))); });
  threads.clear();
  for (const std::vector<uint8_t>& artefact : got) EXPECT_EQ(artefact, want);
}

TEST(Api, ProgressComesFromTheCallingThreadInOrder) {
  tilewright::CompileOptions options = with_batch(2);
  std::vector<std::string> phases;
  options.progress = [&, caller = std::this_thread::get_id()](std::string_view phase, int64_t done, int64_t total,
                                                              std::string_view) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_LE(done, total);
    if (phases.empty() || phases.back() != phase) phases.emplace_back(phase);
  };
  compile(dense(false), options);
  EXPECT_EQ(phases, (std::vector<std::string>{"import", "transform", "lower", "code", "assemble"}));
}

TEST(Api, WhoCancelsGetsNothing) {
  for (const char* phase : {"import", "transform", "lower", "code", "assemble"}) {
    tilewright::CompileOptions options = with_batch(2);
    bool reached = false;
    options.progress = [&](std::string_view now, int64_t, int64_t, std::string_view) {
      reached = reached || now == phase;
    };
    options.cancel = [&] { return reached; };
    EXPECT_EQ(kind_of([&] { compile(dense(false), options); }, "cancelled"), ErrorKind::kCancelled) << phase;
  }
  tilewright::CompileOptions options = with_batch(2);
  options.cancel = [] { return false; };
  EXPECT_EQ(run(compile(dense(false), options), kX), kWant);
}

TEST(Api, WhatCallbacksThrowLeavesTheCall) {
  tilewright::CompileOptions options = with_batch(2);
  options.progress = [](std::string_view phase, int64_t, int64_t, std::string_view) {
    if (phase == "lower") throw std::out_of_range("mine");
  };
  EXPECT_THROW(compile(dense(false), options), std::out_of_range);
}

TEST(Api, DetailsSayWhatIsNotSupported) {
  const auto details = [](const std::function<void(tw::testing::ModelBuilder&)>& add) {
    tw::testing::ModelBuilder model;
    model.input("x", {int64_t{2}, int64_t{2}});
    add(model);
    model.output("y");
    const std::vector<std::byte> bytes = model.bytes();
    try {
      tilewright::compile_bytes(bytes.data(), bytes.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kModel);
      return nlohmann::json::parse(error.details());
    }
    return nlohmann::json();
  };
  const nlohmann::json unsupported = details([](auto& m) {
    m.node("Frobnicate", {"x"}, {"z"});
    m.node("Whirl", {"z"}, {"y"});
  });
  EXPECT_EQ(unsupported.at("type"), "unsupported");
  EXPECT_EQ(unsupported.at("operators"), (std::vector<std::string>{"Frobnicate", "Whirl"}));
  EXPECT_EQ(unsupported.at("items").at(0).at("opset"), 17);
  const nlohmann::json wrong = details([](auto& m) {
    m.floats("w", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    m.node("MatMul", {"x", "w"}, {"y"});
  });
  EXPECT_EQ(wrong.at("type"), "model");
  EXPECT_TRUE(wrong.contains("node")) << wrong;
}

TEST(Api, DetailsHaveTheShapesThatContradictEachOther) {
  tilewright::CompileOptions options;
  options.entries = {{{{"x", {3, 64}}}, {}}};
  try {
    compile(dense(false), options);
    FAIL() << "a shape that the model contradicts";
  } catch (const Error& error) {
    const nlohmann::json details = nlohmann::json::parse(error.details());
    EXPECT_EQ(details.at("given").dump(), R"({"x":[3,64]})");
    EXPECT_EQ(details.at("declared").dump(), R"({"x":["batch",2]})");
  }
}

TEST(Api, TheReportIsJsonToo) {
  const CompileResult result = compile(dense(false), with_batch(2));
  const nlohmann::json report = nlohmann::json::parse(result.report.json);
  EXPECT_EQ(report.at("target"), result.report.target);
  EXPECT_EQ(report.at("entry_names"), std::vector<std::string>{"main"});
  EXPECT_EQ(report.at("families").at("contraction"), 1);
  EXPECT_EQ(report.at("times").size(), result.report.times.size());
  EXPECT_EQ(report.at("complete"), true);
  EXPECT_EQ(report.at("warnings"), result.report.warnings);
}

TEST(Api, RefitGivesWhatACompilationGives) {
  const CompileResult old = compile(dense(false), with_batch(2));
  std::array<float, 6> weights = {2, -2, 3, 4, 5, -7};
  std::array<float, 3> bias = {0.25F, 1, -0.5F};
  std::array<int64_t, 2> shape = {2, 3};
  std::array<int64_t, 1> length = {3};
  const DLTensor w = {weights.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), nullptr, 0};
  const DLTensor b = {bias.data(), {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, length.data(), nullptr, 0};
  const CompileResult fresh = tilewright::refit(old.artefact.data, old.artefact.size, {{"w", w}, {"b", b}});
  EXPECT_EQ(run(fresh, kX), (std::vector<float>{10.25F, 9, 0, 0, 9.5F, 0}));
  EXPECT_EQ(fresh.report.target, old.report.target);
  EXPECT_EQ(fresh.report.groups, 1);
  EXPECT_EQ(kind_of(
                [&] {
                  tilewright::refit(old.artefact.data, old.artefact.size, {{"w", w}});
                },
                "'b'"),
            ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { tilewright::refit(old.artefact.data, 100, {{"w", w}}); }, ""), ErrorKind::kArtefact);
}

}  // namespace
}  // namespace tw::driver::test
