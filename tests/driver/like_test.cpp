// An artefact for other shapes, made as another one of the same model was.
#include "driver/like.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "artefact/session.h"
#include "driver/option_table.h"
#include "driver/surroundings.h"
#include "support/error.h"
#include "tests/driver/random_model.h"
#include "tests/driver/refit_models.h"

namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;

// y[batch, 24] = relu(x[batch, 40] w) + b: two operands of it may be constants.
void dense(tw::testing::ModelBuilder& model, int seed) {
  model.input("x", {"batch", int64_t{40}});
  model.input("b", {int64_t{24}});
  weight(model, "w", {40, 24}, seed);
  model.node("MatMul", {"x", "w"}, {"a"});
  model.node("Relu", {"a"}, {"r"});
  model.node("Add", {"r", "b"}, {"y"});
  model.output("y");
}

class LikeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-like-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Its path.
  std::string artefact(const CompileOptions& options, int seed = 1) const {
    std::string path = (folder_ / "model.tw").string();
    write_artefact(compile(dense, seed, options), path);
    return path;
  }

  // Of the model with the weights of `seed`.
  static Compiled compile_like(const std::string& path, CompileOptions options, int seed = 1) {
    set_option(options, "like", {path, "--like"});
    options.no_measure = true;
    options = with_surroundings(options, {});
    tw::testing::ModelBuilder model;
    dense(model, seed);
    return compile_imported(import_bytes(model.bytes(), "", options), options);
  }

  fs::path folder_;
};

TEST_F(LikeTest, OtherShapesOfTheModel) {
  const std::string path = artefact(for_batches({8, 3}));
  const Compiled made = compile_like(path, for_batches({5}));
  const Compiled want = compile(dense, 1, for_batches({5}));
  EXPECT_EQ(made.plan.entries.front().groups.size(), want.plan.entries.front().groups.size());
  const std::vector<artefact::Array> inputs = random_arrays(imports(dense, 1, for_batches({5})).front().graph, 3);
  EXPECT_EQ(artefact::Session::load_memory(artefact_bytes(made), {}).run(inputs)[0].bytes,
            artefact::Session::load_memory(artefact_bytes(want), {}).run(inputs)[0].bytes);
}

TEST_F(LikeTest, OptionsOfTheModelAreThoseOfTheArtefact) {
  CompileOptions options = for_batches({8});
  options.precision = Precision::kStrict;
  options.dtype = DataType::bf16();
  options.disabled_passes = {"fuse"};
  options.imports[0].constants["b"] = graph::RefTensor::zeros({DataType::f32(), {24}});
  const std::string path = artefact(options);
  const Compiled made = compile_like(path, for_batches({5}));
  EXPECT_EQ(made.source.options.precision, Precision::kStrict);
  EXPECT_EQ(made.source.options.dtype, DataType::bf16());
  EXPECT_EQ(made.source.options.disabled_passes, options.disabled_passes);
  EXPECT_EQ(made.manifest.entries.front().inputs.size(), 1U) << "b is a constant";
  CompileOptions other = for_batches({5});
  other.dtype = DataType::f16();
  EXPECT_EQ(compile_like(path, other).source.options.dtype, DataType::f16()) << "what is given counts";
}

TEST_F(LikeTest, GroupsAreTiledAsThoseThatWereMeasured) {
  const Compiled first = compile(dense, 1, for_batches({8}));
  auto like = std::make_shared<Like>(Like{"", first.source, first.plan});
  EXPECT_EQ(like->nearest(first.plan.entries[0].target), &like->plan.entries[0]);
  EXPECT_EQ(like->nearest("cuda:sm_90a"), nullptr);
  CompileOptions options = for_batches({5});
  const auto plan = [&] {
    options.like = like;
    return plan::to_string(compile(dense, 1, options).plan);
  };
  options.like = nullptr;
  const std::string usual = plan::to_string(compile(dense, 1, options).plan);
  for (plan::GroupPlan& group : like->plan.entries[0].groups) group.family = "none";
  EXPECT_EQ(plan(), usual) << "nobody measured it";
  for (plan::GroupPlan& group : like->plan.entries[0].groups) group.microseconds = 1;
  EXPECT_EQ(plan(), usual) << "there is no such family";
}

TEST_F(LikeTest, ItsModelIsKnownWithoutAnotherImport) {
  const Compiled first = compile(dense, 1, for_batches({8}));
  const Like like{"", first.source, first.plan};
  const auto import = [](const frontend::ImportOptions&) -> frontend::ImportResult {
    throw std::logic_error("imported once more");
  };
  EXPECT_NO_THROW(check_model(like, imports(dense, 1, for_batches({5})).front(), import));
  EXPECT_THROW(check_model(like, imports(dense, 2, for_batches({5})).front(), import), std::logic_error);
}

TEST_F(LikeTest, AnotherModelIsRefused) {
  const std::string path = artefact(for_batches({8}));
  EXPECT_THROW(compile_like(path, for_batches({5}), 2), UsageError) << "other weights";
  fs::resize_file(path, fs::file_size(path) / 2);
  EXPECT_THROW(compile_like(path, for_batches({5})), UsageError) << "a part of it";
  EXPECT_THROW(compile_like((folder_ / "none.tw").string(), for_batches({5})), UsageError);
}

}  // namespace
}  // namespace tw::driver::test
