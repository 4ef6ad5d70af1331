// Imports the networks of the folder TW_MODELS_DIR (made by scripts/make_models.py) and evaluates the small ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "tests/harness/graph_evaluate.h"

namespace tw::frontend {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> model_files() {
  const char* folder = std::getenv("TW_MODELS_DIR");
  std::vector<fs::path> files;
  if (folder == nullptr || !fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

ImportOptions options_of(const fs::path& file) {
  ImportOptions options;
  if (file.stem().string().ends_with("_dyn")) options.dims["batch"] = 2;
  return options;
}

std::vector<graph::RefTensor> random_inputs(const graph::Graph& graph) {
  std::mt19937 engine(7);
  std::vector<graph::RefTensor> inputs;
  for (graph::ValueId id : graph.inputs) {
    graph::RefTensor t = graph::RefTensor::zeros(graph.value(id).type);
    for (double& x : t.floats) x = std::normal_distribution<float>()(engine);
    for (int64_t& x : t.ints) x = static_cast<int64_t>(engine() % 2);
    inputs.push_back(std::move(t));
  }
  return inputs;
}

TEST(Models, EveryNetworkImportsToStaticOperators) {
  const graph::OpTable ops = ops::all_ops();
  const std::vector<fs::path> files = model_files();
  if (files.empty()) GTEST_SKIP() << "not run: TW_MODELS_DIR names no folder with models";
  for (const fs::path& file : files) {
    const ImportResult result = import_onnx_file(file.string(), ops, options_of(file));
    EXPECT_TRUE(result.warnings.empty()) << file << ": " << result.warnings.at(0);
    EXPECT_FALSE(result.graph.nodes.empty()) << file;
    graph::verify(result.graph, ops);
  }
}

TEST(Models, SmallNetworksEvaluateToFiniteNumbers) {
  const graph::OpTable ops = ops::all_ops();
  int evaluated = 0;
  for (const fs::path& file : model_files()) {
    if (file.stem().string().find("_small") == std::string::npos) continue;
    const graph::Graph graph = import_onnx_file(file.string(), ops, options_of(file)).graph;
    const auto values = graph::evaluate(graph, ops, random_inputs(graph), graph::Rounding::kEachValue);
    for (graph::ValueId id : graph.outputs) {
      std::set<double> distinct;
      for (double x : values[id].floats) {
        ASSERT_TRUE(std::isfinite(x)) << file;
        distinct.insert(x);
      }
      EXPECT_GT(distinct.size(), 1U) << file << ": all outputs are equal";
    }
    ++evaluated;
  }
  if (evaluated == 0) GTEST_SKIP() << "not run: TW_MODELS_DIR names no folder with small models";
}

// The chain Shape -> Gather -> Concat -> Reshape of exporters with a dynamic batch leaves no trace.
TEST(Models, DynamicBatchImportsToTheStaticGraph) {
  const graph::OpTable ops = ops::all_ops();
  int compared = 0;
  for (const fs::path& file : model_files()) {
    if (!file.stem().string().ends_with("_dyn")) continue;
    const std::string stem = file.stem().string();
    const fs::path fixed = file.parent_path() / (stem.substr(0, stem.size() - 4) + ".onnx");
    if (!fs::exists(fixed)) continue;
    ImportOptions options;
    options.dims["batch"] = 1;
    const graph::Graph dynamic = import_onnx_file(file.string(), ops, options).graph;
    const graph::Graph expected = import_onnx_file(fixed.string(), ops, {}).graph;
    EXPECT_EQ(dynamic.nodes.size(), expected.nodes.size()) << file;
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "not run: TW_MODELS_DIR names no folder with dynamic models";
}

}  // namespace
}  // namespace tw::frontend
