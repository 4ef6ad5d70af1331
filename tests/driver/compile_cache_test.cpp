// The cache of artefacts: a hit is what was stored, for the same question only, and damage is a miss.
#include "driver/compile_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "targets/registry.h"
#include "tests/driver/small_model.h"

#ifdef TW_HAVE_LLVM
namespace tw::driver::test {
namespace {

namespace fs = std::filesystem;

class CompileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    cache_options_.folder = (folder_ / "cache").string();
    cache_options_.notice = [this](const std::string& text) { notices_.push_back(text); };
    write(model(), "what the model is");
    compiled_ = compile_graph(small_model(), {});
    compiled_.warnings = {"a warning"};
    bytes_ = artefact_bytes(compiled_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string model() const { return (folder_ / "model.onnx").string(); }
  // Long enough ago that a compilation that starts now reads just that.
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(10));
  }
  CompileCache cache() const { return CompileCache(cache_options_); }
  CompileCache::Key key(const CompileOptions& options = {}) const { return *ask(model(), options); }
  std::optional<CompileCache::Key> ask(const std::string& file, const CompileOptions& options) const {
    return cache().key(file, options, machine::resolve_targets(options.target, {}));
  }
  void store(const CompileOptions& options = {}) const { cache().store(key(options), bytes_, compiled_); }
  bool hits(const CompileOptions& options = {}) const { return cache().find(key(options)).has_value(); }
  std::vector<fs::path> files(const std::string& ending) const {
    std::vector<fs::path> found;
    for (const fs::directory_entry& file : fs::directory_iterator(cache_options_.folder)) {
      if (file.path().extension() == ending) found.push_back(file.path());
    }
    return found;
  }

  fs::path folder_;
  CacheOptions cache_options_;
  std::vector<std::string> notices_;
  Compiled compiled_;
  std::vector<uint8_t> bytes_;
};

TEST_F(CompileCacheTest, AHitIsWhatWasStored) {
  EXPECT_FALSE(hits());
  store();
  const auto hit = cache().find(key());
  ASSERT_TRUE(hit.has_value());
  EXPECT_TRUE(std::ranges::equal(hit->artefact.bytes(), bytes_));
  const CompileSummary want = summarize(compiled_);
  EXPECT_EQ(hit->summary.target, want.target);
  EXPECT_EQ(hit->summary.entries, want.entries);
  EXPECT_EQ(hit->summary.families, want.families);
  EXPECT_EQ(hit->summary.groups, want.groups);
  EXPECT_EQ(hit->summary.kernels, want.kernels);
  EXPECT_EQ(hit->summary.warnings, want.warnings);
  EXPECT_EQ(cache().status().entries, 1);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(CompileCacheTest, ParametersOfTheTargetAreInTheKey) {
  std::vector<targets::Target> targets = {targets::find_target("cpu")};
  const std::string name = cache().key(model(), {}, targets)->name;
  EXPECT_EQ(cache().key(model(), {}, targets)->name, name);
  targets[0].info.levels.back().read_per_ns += 1;
  EXPECT_NE(cache().key(model(), {}, targets)->name, name);
}

TEST_F(CompileCacheTest, EverythingThatMattersIsInTheKey) {
  std::vector<CompileOptions> others(14);
  others[0].target = "cpu:x86-64-v3";
  others[1].disabled_passes = {"fuse"};
  others[2].all_optional_off = true;
  others[3].imports[0].shapes["x"] = {1, 2};
  others[4].imports[0].dims["n"] = 3;
  others[5].imports[0].constants["c"] = graph::RefTensor::zeros({DataType::f32(), {2}});
  others[6].imports.emplace_back();
  others[7].tuning.worker = {"worker"};
  others[8].precision = Precision::kStrict;
  others[9].tuning.worker = {"worker"};
  others[9].tuning.explore = {10, 1};
  others[10].target = "cpu:x86-64-v3,cpu:x86-64";
  others[11].dtype = DataType::f16();
  others[12].dtype = DataType::bf16();
  others[13].disabled_families = {"fuse"};
  if (targets::find_target("cpu").info.name == others[0].target) others[0].target = "cpu:x86-64-v4";
  std::set<std::string> names = {key().name};
  for (const CompileOptions& options : others) EXPECT_TRUE(names.insert(key(options).name).second) << names.size();
  CompileOptions constant = others[5];
  constant.imports[0].constants["c"].floats[1] = 1;
  EXPECT_TRUE(names.insert(key(constant).name).second);
  CompileOptions same;
  same.threads = 1;
  EXPECT_EQ(key(same).name, key().name) << "threads of code generation change nothing";
  store();
  write(model(), "another model");
  EXPECT_FALSE(hits());
}

#ifdef TW_HAVE_CUDA
// Two machines may share a folder.
TEST_F(CompileCacheTest, TheGpuThatCandidatesAreMeasuredOnIsInTheKey) {
  CompileOptions measured, predicted, cpu;
  measured.target = predicted.target = "cuda:sm_90a";
  measured.tuning.worker = cpu.tuning.worker = {"worker"};
  const auto names = [&] { return std::array{key(measured).name, key(predicted).name, key(cpu).name}; };
  cache_options_.find_gpu = [](const std::string&) { return Result<std::string>("NVIDIA H100 80GB HBM3"); };
  const auto h100 = names();
  cache_options_.find_gpu = [](const std::string&) { return Result<std::string>("NVIDIA H200"); };
  const auto h200 = names();
  EXPECT_NE(h100[0], h200[0]);
  EXPECT_EQ(h100[1], h200[1]);
  EXPECT_EQ(h100[2], h200[2]);
  cache_options_.find_gpu = [](const std::string&) { return Result<std::string>(declined("no GPU")); };
  EXPECT_NE(names()[0], h200[0]);
  EXPECT_EQ(names()[1], h200[1]);
}

// Templates that are built after a compilation may win the next one, or can be compiled then.
TEST_F(CompileCacheTest, TheLibraryOfTemplatesIsInTheKeyOfGpus) {
  setenv("TILEWRIGHT_CACHE_DIR", folder_.c_str(), 1);
  CompileOptions gpu, cpu;
  gpu.target = "cuda:sm_90a";
  CompileOptions predicted = gpu;
  gpu.tuning.worker = cpu.tuning.worker = {"worker"};
  const std::string before[] = {key(gpu).name, key(predicted).name, key(cpu).name};
  fs::create_directories(folder_ / "templates" / "abc");
  write(folder_ / "templates" / "abc" / "about.json", "{}");
  EXPECT_NE(key(gpu).name, before[0]);
  EXPECT_EQ(key(predicted).name, before[1]);
  EXPECT_EQ(key(cpu).name, before[2]);
  fs::create_directories(folder_ / "cutlass");
  write(folder_ / "cutlass" / "cutlass.h", "");
  setenv("TILEWRIGHT_CUTLASS", folder_.c_str(), 1);
  setenv("TILEWRIGHT_NVCC", "/nowhere/nvcc", 1);
  const std::string without = key(gpu).name;
  setenv("TILEWRIGHT_NVCC", "/bin/sh", 1);
  EXPECT_NE(key(gpu).name, without);
  for (const char* variable : {"TILEWRIGHT_CACHE_DIR", "TILEWRIGHT_CUTLASS", "TILEWRIGHT_NVCC"}) unsetenv(variable);
}
#endif

TEST_F(CompileCacheTest, AQuestionForMoreThanAnArtefactHasNoKey) {
  std::vector<CompileOptions> options(3);
  options[0].plan_text = "plan";
  options[1].dump_directory = "ir";
  options[2].stop_after = "fuse";
  for (const CompileOptions& o : options) EXPECT_FALSE(ask(model(), o).has_value());
  EXPECT_FALSE(ask((folder_ / "missing.onnx").string(), {}).has_value());
  cache_options_.folder.clear();
  EXPECT_FALSE(ask(model(), {}).has_value());
}

TEST_F(CompileCacheTest, DamageIsAMissAndIsRemoved) {
  for (const std::string ending : {".tw", ".json"}) {
    for (const bool cut : {false, true}) {
      store();
      ASSERT_TRUE(hits());
      const fs::path file = files(ending).at(0);
      if (cut) {
        fs::resize_file(file, fs::file_size(file) - 1);
      } else {
        std::fstream change(file, std::ios::in | std::ios::out | std::ios::binary);
        const auto middle = static_cast<std::streamoff>(fs::file_size(file) / 2);
        change.seekg(middle);
        const int byte = change.get();
        change.seekp(middle);
        change.put(static_cast<char>(byte ^ 1));
      }
      EXPECT_FALSE(hits()) << ending;
      EXPECT_TRUE(files(".tw").empty());
      EXPECT_TRUE(files(".json").empty());
    }
  }
  EXPECT_EQ(notices_.size(), 4u);
  store();
  fs::remove(files(".tw").at(0));
  EXPECT_FALSE(hits());
}

// Two compilers under one key may find different plans. Between the two files that one writes, the other's entry holds.
TEST_F(CompileCacheTest, AnArtefactOfAnotherCompilerReplacesNoneThatIsRead) {
  store();
  const fs::path about = files(".json").at(0);
  const fs::path saved = folder_ / "saved.json";
  fs::copy_file(about, saved);
  std::vector<uint8_t> other = bytes_;
  other.back() ^= 1;
  cache().store(key(), other, compiled_);
  EXPECT_TRUE(std::ranges::equal(cache().find(key())->artefact.bytes(), other));
  fs::copy_file(saved, about, fs::copy_options::overwrite_existing);
  const auto hit = cache().find(key());
  ASSERT_TRUE(hit.has_value());
  EXPECT_TRUE(std::ranges::equal(hit->artefact.bytes(), bytes_));
  EXPECT_TRUE(notices_.empty());
}

TEST_F(CompileCacheTest, ExternalDataIsPartOfTheModel) {
  write(folder_ / "weights.bin", "weights");
  compiled_.external_files = {fs::canonical(folder_ / "weights.bin").string()};
  store();
  EXPECT_TRUE(hits());
  write(folder_ / "weights.bin", "Weights");
  EXPECT_FALSE(hits());
  EXPECT_TRUE(notices_.empty());
  write(folder_ / "weights.bin", "weights");
  EXPECT_TRUE(hits());
}

TEST_F(CompileCacheTest, AFileThatChangesWhileItIsCompiledIsNotKept) {
  const CompileCache::Key before = key();
  std::ofstream(model()) << "changed during the compilation";
  cache().store(before, bytes_, compiled_);
  EXPECT_FALSE(cache().find(before).has_value());
}

TEST_F(CompileCacheTest, AnUnfinishedSearchIsNotKept) {
  compiled_.complete = false;
  store();
  EXPECT_FALSE(hits());
}

TEST_F(CompileCacheTest, TheBoundRemovesWhatIsUnusedForLongest) {
  std::vector<CompileOptions> options(4);
  for (int i = 0; i < 4; ++i) options[static_cast<size_t>(i)].imports[0].dims["n"] = i;
  for (int i = 0; i < 3; ++i) {
    store(options[static_cast<size_t>(i)]);
    const std::string name = key(options[static_cast<size_t>(i)]).name;
    for (const fs::directory_entry& file : fs::directory_iterator(cache_options_.folder)) {
      if (file.path().filename().string().starts_with(name))
        fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::seconds(1000 - 100 * i));
    }
  }
  EXPECT_TRUE(hits(options[0]));  // used now: the second one is the oldest
  cache_options_.max_bytes = cache().status().bytes + 1;
  store(options[3]);
  EXPECT_FALSE(hits(options[1]));
  EXPECT_TRUE(hits(options[0]));
  EXPECT_TRUE(hits(options[2]));
  EXPECT_TRUE(hits(options[3]));
  EXPECT_EQ(cache().prune(0), 3);
  EXPECT_EQ(cache().status().entries, 0);
  EXPECT_EQ(cache().status().bytes, 0);
}

TEST_F(CompileCacheTest, AFolderThatCannotBeWrittenIsANotice) {
  write(folder_ / "file", "x");
  cache_options_.folder = (folder_ / "file" / "cache").string();
  store();
  EXPECT_FALSE(hits());
  EXPECT_EQ(notices_.size(), 1u);
}

TEST(HashPieces, DependsOnEveryByteAndOnTheSize) {
  std::vector<uint8_t> bytes(size_t{9} << 20, 1);
  const std::string whole = hash_pieces(bytes);
  EXPECT_EQ(hash_pieces(bytes), whole);
  for (const size_t at : {size_t{0}, (size_t{4} << 20) - 1, size_t{4} << 20, bytes.size() - 1}) {
    bytes[at] ^= 1;
    EXPECT_NE(hash_pieces(bytes), whole) << at;
    bytes[at] ^= 1;
  }
  bytes.pop_back();
  EXPECT_NE(hash_pieces(bytes), whole);
  EXPECT_NE(hash_pieces({}), hash_pieces(std::vector<uint8_t>(1)));
}

}  // namespace
}  // namespace tw::driver::test
#endif
