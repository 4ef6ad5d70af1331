// Dumps and switches of passes, graph and loop together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "driver/code/generate.h"
#include "lower/pass.h"
#include "support/error.h"
#include "tests/driver/small_model.h"
#include "transform/pass.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("tw_dump_{}", getpid())) { fs::remove_all(path_); }
  ~Folder() { fs::remove_all(path_); }
  std::string name() const { return path_.string(); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const fs::directory_entry& e : fs::directory_iterator(path_)) names.insert(e.path().filename().string());
    return names;
  }

 private:
  fs::path path_;
};

// Files of that ending.
int64_t count(const std::set<std::string>& files, const std::string& ending) {
  return std::count_if(files.begin(), files.end(), [&](const std::string& f) { return f.ends_with(ending); });
}

TEST(Passes, TheDumpFolderHasAFileForEveryPass) {
  const Folder folder;
  CompileOptions options;
  options.dump_directory = folder.name();
  compile_graph(small_model(), options);
  const std::set<std::string> files = folder.files();
  for (const transform::GraphPass& pass : transform::pipeline()) {
    EXPECT_EQ(count(files, fmt::format("_graph_{}.txt", pass.name)), 1) << pass.name;
  }
  for (const lower::LoopPass& pass : lower::pipeline()) {
    EXPECT_EQ(count(files, fmt::format("_loop-000_{}.txt", pass.name)), 1) << pass.name;
  }
  for (const std::string& file : files) EXPECT_GT(fs::file_size(fs::path(folder.name()) / file), 0u) << file;
}

TEST(Passes, StrictPrecisionApproximatesNoFunctions) {
  if (const Result<bool> available = cuda_generation_available(); !available.ok()) GTEST_SKIP() << available.reason();
  for (const Precision precision : {Precision::kDefault, Precision::kStrict}) {
    const Folder folder;
    CompileOptions options;
    options.target = "cuda:sm_90a";
    options.precision = precision;
    options.dump_directory = folder.name();
    graph::Graph g;
    graph::Node gelu;
    gelu.op = gelu.name = "gelu";
    gelu.inputs = {g.add_input("x", {DataType::f16(), {64, 64}})};
    g.outputs = {graph::append_node(g, ops::all_ops(), std::move(gelu))[0]};
    compile_graph(g, options);
    bool found = false;
    for (const std::string& name : folder.files()) {
      std::ifstream file(fs::path(folder.name()) / name);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      found = found || (name.find("loop") != std::string::npos && text.find("exp2_approx(") != std::string::npos);
    }
    EXPECT_EQ(found, precision != Precision::kStrict);
  }
}

TEST(Passes, UnknownNamesAreUsageErrors) {
  CompileOptions options;
  options.disabled_passes = {"fusee"};
  EXPECT_THROW(compile_graph(small_model(), options), UsageError);
}

TEST(Passes, RequiredPassesCannotBeDisabled) {
  for (const char* name : {"partition", "vectorize"}) {
    CompileOptions options;
    options.disabled_passes = {name};
    EXPECT_THROW(compile_graph(small_model(), options), UserError) << name;
  }
}

TEST(Families, AreLeftOutByName) {
  CompileOptions options;
  options.disabled_families = {"contraction"};
  const Compiled compiled = compile_graph(small_model(), options);
  for (const plan::GroupPlan& group : compiled.plan.entries.front().groups) EXPECT_NE(group.family, "contraction");
  const auto error = [&](std::vector<std::string> names) -> std::string {
    options.disabled_families = std::move(names);
    try {
      compile_graph(small_model(), options);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_NE(error({"contractions"}).find("has no family 'contractions'; it has winograd, chain, reduced, contraction"),
            std::string::npos)
      << error({"contractions"});
  EXPECT_NE(error({"contraction", "contraction"}).find("has no family 'contraction'"), std::string::npos);
  EXPECT_NE(error({"generic"}).find("is required: it takes every group"), std::string::npos) << error({"generic"});
}

TEST(Passes, EveryOptionalPassCanBeDisabled) {
  CompileOptions options;
  for (const transform::GraphPass& pass : transform::pipeline()) {
    if (!pass.optional) continue;
    options.disabled_passes = {std::string(pass.name)};
    EXPECT_NO_THROW(compile_graph(small_model(), options)) << pass.name;
  }
}

}  // namespace
}  // namespace tw::driver::test
