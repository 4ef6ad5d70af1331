// The C interface: loading, description, and every way to misuse it.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/device/cpu/cpu_features.h"
#include "tests/runtime/api_harness.h"

namespace tw {
namespace {

using test::api;
using test::SumCase;

TEST(Api, TableAndVersions) {
  ASSERT_NE(tw_get_api(1), nullptr);
  EXPECT_EQ(tw_get_api(TW_API_VERSION + 1), nullptr);
  EXPECT_EQ(api().version, TW_API_VERSION);
  EXPECT_EQ(api().struct_size, sizeof(TwApi));
  EXPECT_STRNE(api().version_string(), "");
  EXPECT_EQ(api().status_code(nullptr), TW_OK);
  EXPECT_EQ(api().status_exit_code(nullptr), 0);
  EXPECT_STREQ(api().status_details(nullptr), "{}");
  api().status_free(nullptr);
  api().model_free(nullptr);
  api().context_free(nullptr);
}

TEST(Api, TellsWhatTheOnnxModelSaysOfItself) {
  const test::TestArtefact made = test::sum_model({7});
  EXPECT_STREQ(api().model_metadata(test::load(made.file()).get()), "{}");
  EXPECT_STREQ(api().model_metadata(nullptr), "{}");
  std::vector<format::Section> sections = made.sections();
  const std::string text = R"({"producer_name":"maker"})";
  sections.push_back({"metadata", format::bytes_of(text)});
  const auto model = test::load(format::serialize_artefact(made.manifest, sections));
  EXPECT_STREQ(api().model_metadata(model.get()), text.c_str());
}

TEST(Api, DescribesTheModel) {
  const auto model = test::load(test::sum_model({7, 13}).file());
  EXPECT_EQ(api().entry_count(model.get()), 2);
  EXPECT_STREQ(api().entry_name(model.get(), 1), "n13");
  EXPECT_EQ(api().entry_name(model.get(), 2), nullptr);
  EXPECT_EQ(api().input_count(model.get()), 2);
  EXPECT_EQ(api().output_count(model.get()), 1);
  TwTensorInfo info{};
  info.struct_size = sizeof(info);
  EXPECT_OK(api().input_info(model.get(), 1, 1, &info));
  EXPECT_STREQ(info.name, "b");
  EXPECT_EQ(info.dtype.code, kDLFloat);
  EXPECT_EQ(info.dtype.bits, 32);
  ASSERT_EQ(info.ndim, 1);
  EXPECT_EQ(info.shape[0], 13);
  EXPECT_OK(api().output_info(model.get(), 0, 0, &info));
  EXPECT_STREQ(info.name, "y");
  EXPECT_FAILS(api().input_info(model.get(), 0, 2, &info), TW_ERROR_INVALID_ARGUMENT, "no such input");
  EXPECT_FAILS(api().input_info(model.get(), -1, 0, &info), TW_ERROR_INVALID_ARGUMENT, "no entry -1");
}

TEST(Api, OlderCallersWithShorterStructuresAreServed) {
  const auto model = test::load(test::sum_model({7}).file());
  TwTensorInfo info{};
  info.struct_size = offsetof(TwTensorInfo, dtype);
  info.ndim = 1234;
  EXPECT_OK(api().input_info(model.get(), 0, 0, &info));
  EXPECT_STREQ(info.name, "a");
  EXPECT_EQ(info.ndim, 1234) << "beyond the caller's structure";
  info.struct_size = 0;
  EXPECT_FAILS(api().input_info(model.get(), 0, 0, &info), TW_ERROR_INVALID_ARGUMENT, "struct_size");
}

TEST(Api, LoadsFilesAndNamesThemInErrors) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tw-api-" + std::to_string(getpid()) + ".tw")).string();
  const test::TestArtefact artefact = test::sum_model({7});
  format::write_artefact(path, artefact.manifest, artefact.sections());
  EXPECT_EQ(std::filesystem::file_size(path), artefact.file().size());
  TwModel* model = nullptr;
  EXPECT_OK(api().model_load_file(path.c_str(), nullptr, &model));
  EXPECT_EQ(api().entry_count(model), 1);
  api().model_free(model);
  std::filesystem::resize_file(path, 1000);
  const test::Outcome damaged = api().model_load_file(path.c_str(), nullptr, &model);
  EXPECT_EQ(damaged.code, TW_ERROR_DAMAGED);
  EXPECT_EQ(damaged.exit_code, 5);
  EXPECT_NE(damaged.message.find(path), std::string::npos);
  EXPECT_EQ(model, nullptr);
  std::filesystem::resize_file(path, 0);
  EXPECT_FAILS(api().model_load_file(path.c_str(), nullptr, &model), TW_ERROR_DAMAGED, "not a Tilewright artefact");
  std::filesystem::remove(path);
  EXPECT_FAILS(api().model_load_file(path.c_str(), nullptr, &model), TW_ERROR_INVALID_ARGUMENT, path);
  EXPECT_FAILS(api().model_load_file("/tmp", nullptr, &model), TW_ERROR_INVALID_ARGUMENT, "regular file");
  EXPECT_FAILS(api().model_load_file(nullptr, nullptr, &model), TW_ERROR_INVALID_ARGUMENT, "null");
  EXPECT_FAILS(api().model_load_memory("x", 1, nullptr, nullptr), TW_ERROR_INVALID_ARGUMENT, "null");
}

TEST(Api, AnotherMachineIsIncompatible) {
  const auto load = [](const std::string& arch, std::vector<std::string> features) -> test::Outcome {
    test::TestArtefact artefact = test::sum_model({7});
    artefact.manifest.targets[0].arch = arch;
    artefact.manifest.targets[0].features = std::move(features);
    const auto file = artefact.file();
    TwModel* model = nullptr;
    return api().model_load_memory(file.data(), file.size(), nullptr, &model);
  };
  const test::Outcome feature = load("x86-64", {"sse2", "made-up"});
  EXPECT_EQ(feature.code, TW_ERROR_INCOMPATIBLE);
  EXPECT_EQ(feature.exit_code, 5);
  EXPECT_NE(feature.message.find("made-up"), std::string::npos);
  EXPECT_EQ(feature.message.find("sse2"), std::string::npos) << feature.message;
  EXPECT_FAILS(load("armv8-a", {}), TW_ERROR_INCOMPATIBLE, "armv8-a");
  EXPECT_FAILS(load("x86-64-v9", {}), TW_ERROR_INCOMPATIBLE, "x86-64-v9");
}

/// Without a GPU, without CUDA in the build, or with a GPU that refuses the made-up cubin: always exit code 5.
TEST(Api, ACudaArtefactThatCannotRunHereIsRefused) {
  test::TestArtefact artefact = test::sum_model({7});
  artefact.manifest.targets = {{format::TargetKind::kCuda, "sm_90a", {}}};
  artefact.manifest.kernels = {{"negate", "cubin.0", 0, static_cast<int64_t>(artefact.code.size())}};
  format::Entry& entry = artefact.manifest.entries[0];
  entry.cpu_steps.clear();
  entry.scratch_bytes_per_thread = 0;
  entry.buffers = {{format::Place::kInput, 0, 0, 28, "a"}, {format::Place::kOutput, 0, 0, 28, "y"}};
  entry.arena_bytes = 0;
  format::CudaStep step{.name = "negate"};
  step.params.resize(16);
  step.relocations = {{0, 0, 0}, {8, 1, 0}};
  entry.cuda_steps = {step};
  const auto file = artefact.file();
  TwModel* model = nullptr;
  const test::Outcome outcome = api().model_load_memory(file.data(), file.size(), nullptr, &model);
  EXPECT_EQ(outcome.exit_code, 5) << outcome.message;
  EXPECT_EQ(model, nullptr);
}

TEST(Api, HostFeaturesAgreeWithTheCompilersProbe) {
  const auto has = [](const char* name) { return runtime::missing_cpu_features({name}).empty(); };
  EXPECT_EQ(has("avx2"), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(has("fma"), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(has("avx512f"), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(has("avx512bf16"), __builtin_cpu_supports("avx512bf16") != 0);
  EXPECT_EQ(has("sse4.2"), __builtin_cpu_supports("sse4.2") != 0);
  EXPECT_EQ(has("bmi2"), __builtin_cpu_supports("bmi2") != 0);
}

class BadTensors : public testing::Test {
 protected:
  test::ModelPtr model_ = test::load(test::sum_model({7, 13}).file());
  test::ContextPtr context_ = test::make_context(model_.get(), test::options_with(1));
  SumCase sum_{7};
  DLTensor inputs_[2] = {sum_.a.view(), sum_.b.view()};
  DLTensor output_ = sum_.y.view();
  TwStatus* run() { return api().run(context_.get(), inputs_, 2, &output_, 1); }
};

TEST_F(BadTensors, AMissingShapeNamesTheCompiledOnes) {
  int64_t eight = 8;
  inputs_[0].shape = &eight;
  const test::Outcome outcome = run();
  EXPECT_EQ(outcome.code, TW_ERROR_NO_SUCH_SHAPE);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.message, "the model was not compiled for a[8] b[7]; compiled shapes: a[7] b[7]; a[13] b[13]");
  EXPECT_EQ(outcome.details, R"({"compiled":[{"a":[7],"b":[7]},{"a":[13],"b":[13]}],"given":{"a":[8],"b":[7]}})");
  int32_t entry = -1;
  EXPECT_FAILS(api().find_entry(model_.get(), inputs_, 2, &entry), TW_ERROR_NO_SUCH_SHAPE, "a[8]");
  inputs_[0].shape = &sum_.a.shape;
  EXPECT_OK(api().find_entry(model_.get(), inputs_, 2, &entry));
  EXPECT_EQ(entry, 0);
}

TEST_F(BadTensors, AnEntryChosenByHandChecksShapes) {
  EXPECT_OK(api().run_entry(context_.get(), 0, inputs_, &output_));
  EXPECT_FAILS(api().run_entry(context_.get(), 1, inputs_, &output_), TW_ERROR_INVALID_ARGUMENT, "[13]");
  EXPECT_FAILS(api().run_entry(context_.get(), 2, inputs_, &output_), TW_ERROR_INVALID_ARGUMENT, "no entry 2");
}

TEST_F(BadTensors, WrongCountsAndNulls) {
  EXPECT_FAILS(api().run(context_.get(), inputs_, 1, &output_, 1), TW_ERROR_INVALID_ARGUMENT, "a, b");
  EXPECT_FAILS(api().run(context_.get(), inputs_, 2, &output_, 0), TW_ERROR_INVALID_ARGUMENT, "outputs");
  EXPECT_FAILS(api().run(context_.get(), nullptr, 2, &output_, 1), TW_ERROR_INVALID_ARGUMENT, "null");
  EXPECT_FAILS(api().run(context_.get(), inputs_, 2, nullptr, 1), TW_ERROR_INVALID_ARGUMENT, "null");
  EXPECT_FAILS(api().run(nullptr, inputs_, 2, &output_, 1), TW_ERROR_INVALID_ARGUMENT, "null");
}

TEST_F(BadTensors, WrongDtype) {
  inputs_[1].dtype = {kDLInt, 32, 1};
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "input 'b' is i32, the model wants f32");
  inputs_[1].dtype = {kDLFloat, 32, 4};
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "lanes 4");
}

TEST_F(BadTensors, WrongRank) {
  int64_t extents[] = {7, 1};
  inputs_[0].shape = extents;
  inputs_[0].ndim = 2;
  const test::Outcome outcome = run();
  EXPECT_EQ(outcome.code, TW_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(outcome.message, "input 'a' has 2 dimensions, the model wants 1");
  EXPECT_EQ(outcome.details, R"({"compiled":[{"a":[7]}],"given":{"a":[7,1]}})");
  inputs_[0].ndim = -1;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "-1 dimensions");
  inputs_[0].ndim = 1;
  inputs_[0].shape = nullptr;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "no shape");
}

TEST_F(BadTensors, WrongOutputShape) {
  int64_t eight = 8;
  output_.shape = &eight;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "output 'y' has shape [8]");
}

TEST_F(BadTensors, Strided) {
  int64_t two = 2;
  inputs_[0].strides = &two;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "contiguous");
}

TEST_F(BadTensors, NoDataWrongDeviceOrMisaligned) {
  inputs_[0].data = nullptr;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "input 'a' has no data");
  inputs_[0] = sum_.a.view();
  output_.device = {kDLCUDA, 0};
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "device type 2");
  output_ = sum_.y.view();
  output_.byte_offset = 2;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "aligned");
}

TEST_F(BadTensors, OverlappingOutput) {
  output_.data = static_cast<float*>(inputs_[1].data) + 6;
  EXPECT_FAILS(run(), TW_ERROR_INVALID_ARGUMENT, "overlaps input 'b'");
}

TEST(Api, BadOptions) {
  const auto model = test::load(test::sum_model({7}).file());
  TwContext* context = nullptr;
  TwOptions options = test::options_with(-1);
  EXPECT_FAILS(api().context_create(model.get(), &options, &context), TW_ERROR_INVALID_ARGUMENT, "threads");
  options = test::options_with(1);
  options.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_FAILS(api().context_create(model.get(), &options, &context), TW_ERROR_INVALID_ARGUMENT, "belong together");
  options.deallocate = [](void*, void*, size_t) {};
  const test::Outcome outcome = api().context_create(model.get(), &options, &context);
  EXPECT_EQ(outcome.code, TW_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_EQ(context, nullptr);
}

TEST(Api, AnArenaBeyondTheMachineIsOutOfMemory) {
  test::TestArtefact artefact = test::sum_model({7});
  constexpr int64_t kBytes = int64_t{1} << 46;
  format::Entry& entry = artefact.manifest.entries[0];
  entry.arena_bytes = kBytes;
  entry.buffers.push_back({format::Place::kArena, 0, kBytes - 64, 64, "last"});
  const auto model = test::load(artefact.file());
  TwContext* context = nullptr;
  EXPECT_FAILS(api().context_create(model.get(), nullptr, &context), TW_ERROR_OUT_OF_MEMORY, "arena");
}

struct Ledger {
  int64_t live = 0;
  int calls = 0;
  std::vector<std::string> log;
};

TEST(Api, TheCallersAllocatorAndLoggerAreUsed) {
  Ledger ledger;
  TwOptions options = test::options_with(0);
  options.allocator_user = options.log_user = &ledger;
  options.allocate = [](void* user, size_t bytes, size_t alignment) -> void* {
    auto* counted = static_cast<Ledger*>(user);
    counted->live += static_cast<int64_t>(bytes);
    counted->calls += 1;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  options.deallocate = [](void* user, void* memory, size_t bytes) {
    static_cast<Ledger*>(user)->live -= static_cast<int64_t>(bytes);
    std::free(memory);
  };
  options.log = [](void* user, TwLogLevel, const char* text) { static_cast<Ledger*>(user)->log.emplace_back(text); };
  const auto model = test::load(test::sum_model({301}).file());
  {
    const auto context = test::make_context(model.get(), options);
    EXPECT_EQ(ledger.calls, 2) << "the arena and the scratch memory";
    EXPECT_GT(ledger.live, 301 * 4);
    SumCase sum(301);
    EXPECT_OK(sum.run(context.get()));
    EXPECT_EQ(sum.y.data, sum.expected());
  }
  EXPECT_EQ(ledger.live, 0);
  EXPECT_FALSE(ledger.log.empty());
}

}  // namespace
}  // namespace tw
