// The C table itself: arguments that are wrong, structures of other sizes, options that stay as they were.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/onnx/model_builder.h"
#include "tilewright/compiler.h"

namespace tw::driver::test {
namespace {

const TwCompilerApi& api() { return *tw_get_compiler_api(TW_COMPILER_API_VERSION); }

struct Free {
  void operator()(TwCompilerStatus* status) const { api().status_free(status); }
  void operator()(TwCompileOptions* options) const { api().options_free(options); }
  void operator()(TwCompilation* compilation) const { api().compilation_free(compilation); }
};
using Status = std::unique_ptr<TwCompilerStatus, Free>;
using Options = std::unique_ptr<TwCompileOptions, Free>;
using Compilation = std::unique_ptr<TwCompilation, Free>;

void expect_usage(TwCompilerStatus* status, const std::string& fragment) {
  const Status owner(status);
  EXPECT_EQ(api().status_kind(status), TW_COMPILER_USAGE) << fragment;
  EXPECT_NE(std::string(api().status_message(status)).find(fragment), std::string::npos)
      << api().status_message(status);
  EXPECT_EQ(nlohmann::json::parse(api().status_details(status)).at("type"), "usage");
}

Options options() {
  TwCompileOptions* made = nullptr;
  EXPECT_EQ(api().options_create(&made), nullptr);
  return Options(made);
}

// y = x w, x[n, 3]
std::vector<std::byte> product() {
  tw::testing::ModelBuilder model;
  model.input("x", {std::string("n"), int64_t{3}});
  model.floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  model.node("MatMul", {"x", "w"}, {"y"});
  model.output("y");
  return model.bytes();
}

Compilation compile(const Options& given, const TwCompileCallbacks* callbacks = nullptr) {
  const std::vector<std::byte> model = product();
  TwCompilation* made = nullptr;
  const Status status(api().compile_bytes(model.data(), model.size(), nullptr, given.get(), callbacks, &made));
  EXPECT_EQ(status, nullptr) << api().status_message(status.get());
  return Compilation(made);
}

nlohmann::json report(const Compilation& compilation) {
  return nlohmann::json::parse(api().compilation_report(compilation.get()));
}

TEST(CompilerTable, HasItsVersionAndNoLaterOne) {
  EXPECT_EQ(api().version, TW_COMPILER_API_VERSION);
  EXPECT_EQ(api().struct_size, sizeof(TwCompilerApi));
  EXPECT_EQ(tw_get_compiler_api(TW_COMPILER_API_VERSION + 1), nullptr);
  EXPECT_EQ(api().status_kind(nullptr), TW_COMPILER_OK);
  EXPECT_STREQ(api().status_message(nullptr), "");
  EXPECT_STREQ(api().status_details(nullptr), "{}");
  api().status_free(nullptr);
  api().options_free(nullptr);
  api().compilation_free(nullptr);
}

TEST(CompilerTable, RefusesWhatIsNull) {
  const Options some = options();
  TwCompilation* made = nullptr;
  expect_usage(api().options_create(nullptr), "NULL");
  expect_usage(api().options_set(nullptr, "dtype", "f16"), "options are NULL");
  expect_usage(api().options_set(some.get(), nullptr, "f16"), "name is NULL");
  expect_usage(api().options_set(some.get(), "dtype", nullptr), "value is NULL");
  expect_usage(api().options_set_shape(some.get(), 0, "x", nullptr, 2), "shape is NULL");
  expect_usage(api().options_set_constant(some.get(), "x", nullptr), "tensor is NULL");
  expect_usage(api().compile_file(nullptr, nullptr, nullptr, &made), "path is NULL");
  expect_usage(api().compile_file("m.onnx", nullptr, nullptr, nullptr), "NULL");
  expect_usage(api().refit(nullptr, 3, nullptr, 0, nullptr, &made), "artefact's bytes are NULL");
  expect_usage(api().refit_file("m.tw", nullptr, "n.tw", nullptr), "weights' path is NULL");
  expect_usage(api().compilation_write(nullptr, "m.tw"), "NULL");
  EXPECT_EQ(made, nullptr);
}

TEST(CompilerTable, FillsAsMuchAsAStructureHas) {
  TwOptionInfo info = {};
  expect_usage(api().option_info(0, &info), "struct_size");
  info.struct_size = offsetof(TwOptionInfo, kind);
  EXPECT_EQ(api().option_info(0, &info), nullptr);
  EXPECT_STREQ(info.name, "target");
  EXPECT_EQ(info.kind, nullptr);
  EXPECT_EQ(info.struct_size, offsetof(TwOptionInfo, kind));
  info.struct_size = sizeof(info);
  expect_usage(api().option_info(api().option_count(), &info), "there is no option");
  EXPECT_STREQ(api().target_name(0), "cpu");
  EXPECT_EQ(api().target_name(api().target_count()), nullptr);
}

TEST(CompilerTable, ARefusedValueChangesNothing) {
  const Options some = options();
  EXPECT_EQ(api().options_set(some.get(), "dim", "n=1,2"), nullptr);
  expect_usage(api().options_set(some.get(), "dim", "n=1,frob"), "'frob'");
  expect_usage(api().options_set_dimension(some.get(), 3, "n", 1), "entry 3");
  expect_usage(api().options_set_dimension(some.get(), 0, "n", -1), "-1");
  EXPECT_EQ(report(compile(some)).at("entry_names"), (std::vector<std::string>{"x:1x3", "x:2x3"}));
  EXPECT_EQ(api().options_set_dimension(some.get(), 2, "n", 5), nullptr);
  const int64_t shape[] = {7, 3};
  EXPECT_EQ(api().options_set_shape(some.get(), 3, "x", shape, 2), nullptr);
  EXPECT_EQ(report(compile(some)).at("entries"), 4);
}

TEST(CompilerTable, WritesWhatItHolds) {
  const Options some = options();
  EXPECT_EQ(api().options_set(some.get(), "dim", "n=2"), nullptr);
  const Compilation made = compile(some);
  const void* bytes = nullptr;
  size_t size = 0;
  api().compilation_artefact(made.get(), &bytes, &size);
  std::string folder = (std::filesystem::temp_directory_path() / "tw-table-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_EQ(api().compilation_write(made.get(), (folder + "/m.tw").c_str()), nullptr);
  EXPECT_EQ(std::filesystem::file_size(folder + "/m.tw"), size);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(std::string(api().compilation_plan(made.get())).starts_with("tilewright plan"));
}

// Of the environment, where the option is not set.
TEST(CompilerTable, ReadsTheEnvironment) {
  const char* const before = std::getenv("TILEWRIGHT_NO_MEASURE");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TILEWRIGHT_NO_MEASURE", "frob", 1);
  const Options some = options();
  EXPECT_EQ(api().options_set(some.get(), "dim", "n=2"), nullptr);
  const std::vector<std::byte> model = product();
  TwCompilation* made = nullptr;
  expect_usage(api().compile_bytes(model.data(), model.size(), "", some.get(), nullptr, &made),
               "$TILEWRIGHT_NO_MEASURE");
  EXPECT_EQ(api().options_set(some.get(), "no-measure", "true"), nullptr);
  EXPECT_EQ(report(compile(some)).at("complete"), true);
  // Something is to be measured, and the caller wants to go on without.
  setenv("TILEWRIGHT_NO_MEASURE", "0", 1);
  const Options measured = options();
  EXPECT_EQ(api().options_set(measured.get(), "dim", "n=2"), nullptr);
  EXPECT_EQ(api().options_set(measured.get(), "measure-all", "true"), nullptr);
  TwCompileCallbacks callbacks = {};
  callbacks.struct_size = sizeof(callbacks);
  callbacks.stop = [](void*) { return 1; };
  const nlohmann::json stopped = report(compile(measured, &callbacks));
  EXPECT_EQ(stopped.at("complete"), false);
  EXPECT_EQ(stopped.at("profiling").at("candidates"), 0);
  setenv("TILEWRIGHT_NO_MEASURE", kept.c_str(), 1);
}

}  // namespace
}  // namespace tw::driver::test
