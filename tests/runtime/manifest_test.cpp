// The manifest: round trip, strictness, and the checks of every number in it.
#include "runtime/format/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/format/error.h"
#include "runtime/format/validate.h"
#include "tests/runtime/test_model.h"

namespace tw {
namespace {

using format::Error;
using format::ErrorCode;
using format::Manifest;
using nlohmann::json;

Manifest cuda_manifest() {
  Manifest manifest;
  manifest.producer = "test";
  manifest.targets = {{format::TargetKind::kCuda, "sm_90a", {}}};
  manifest.kernels = {{"matmul", "cubin.0", 0, 100}};
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"x", format::DataType::kF16, {2, 3}}};
  entry.outputs = {{"y", format::DataType::kBF16, {}}};
  entry.arena_bytes = 16512;
  entry.buffers = {{format::Place::kInput, 0, 0, 12, "x"},
                   {format::Place::kOutput, 0, 0, 2, "y"},
                   {format::Place::kArena, 0, 0, 16384, ""},
                   {format::Place::kArena, 0, 16256, 256, ""}};
  entry.zeros = {{3, 128, 128}};
  entry.cuda_steps = {{0,
                       {1, 2, 3},
                       {32, 4, 1},
                       1024,
                       std::vector<uint8_t>(152, 0xa5),
                       {0, 8, 16, 24},
                       {{0, 0, 4}, {16, 1, 0}},
                       {{24, 2, format::DataType::kF16, {128, 64}, {64, 64}}},
                       true,
                       "gemm"}};
  format::CudaStep call;
  call.call = "cublaslt 130100 1 gemm batch=1 m=2 n=1 k=3 a=x:f16:3:0 b=w:f16:1:0 out=y:f16:1:0";
  call.operands = {0, 2, 2};
  call.name = "product";
  call.after = {0};
  entry.cuda_steps.push_back(call);
  manifest.entries = {entry};
  return manifest;
}

void expect_damaged(const std::function<void()>& body, const std::string& what) {
  try {
    body();
    ADD_FAILURE() << what << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDamaged) << what << ": " << error.what();
  }
}

TEST(Manifest, RoundTrip) {
  for (const Manifest& manifest :
       {test::sum_model({1, 13}).manifest, cuda_manifest(), test::scan_model(2, 3, 4).manifest}) {
    EXPECT_EQ(format::manifest_from_json(format::to_json(manifest)), manifest);
  }
}

TEST(Manifest, BuffersThatStayDoNotSayHowTheyMove) {
  const json written = json::parse(format::to_json(test::scan_model(2, 3, 4).manifest));
  EXPECT_EQ(written["entries"][0]["repeats"][3], json({{"count", 2}, {"first", 1}, {"turns", 3}}));
  EXPECT_EQ(written["entries"][0]["buffers"][1]["initial"], json({3}));
  EXPECT_FALSE(json::parse(format::to_json(cuda_manifest()))["entries"][0]["buffers"][0].contains("moves"));
}

TEST(Manifest, NamesThatAreNotUtf8AreReplaced) {
  Manifest manifest = cuda_manifest();
  manifest.entries[0].name = "caf\xe9";
  EXPECT_EQ(format::manifest_from_json(format::to_json(manifest)).entries[0].name, "caf\xef\xbf\xbd");
}

/// Calls visit(pointer) for every value inside `value`.
void each_path(const json& value, const json::json_pointer& at,
               const std::function<void(const json::json_pointer&)>& visit) {
  visit(at);
  if (value.is_object()) {
    for (const auto& item : value.items()) each_path(item.value(), at / item.key(), visit);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) each_path(value[i], at / i, visit);
  }
}

void expect_strict(const Manifest& manifest) {
  const json good = json::parse(format::to_json(manifest));
  int changes = 0;
  each_path(good, json::json_pointer(), [&](const json::json_pointer& at) {
    for (const json& wrong :
         {json(nullptr), json(-1), json(1.5), json("?"), json::array({json::object()}), json::object()}) {
      if (good[at].is_string() && wrong.is_string()) continue;
      if (good[at].is_array() && wrong.is_array() && at.back() == "features") continue;
      json bad = good;
      bad[at] = wrong;
      ++changes;
      expect_damaged([&] { format::manifest_from_json(bad.dump()); }, at.to_string() + " = " + wrong.dump());
    }
    if (!good[at].is_object()) return;
    json extra = good;
    extra[at]["unknown"] = 1;
    expect_damaged([&] { format::manifest_from_json(extra.dump()); }, at.to_string() + " with another key");
    for (const auto& item : good[at].items()) {
      json missing = good;
      missing[at].erase(item.key());
      expect_damaged([&] { format::manifest_from_json(missing.dump()); }, at.to_string() + " without " + item.key());
    }
  });
  EXPECT_GT(changes, 200);
}

TEST(Manifest, EveryWrongTypeAndEveryMissingOrUnknownKeyIsRefused) {
  expect_strict(cuda_manifest());
  expect_strict(test::scan_model(2, 3, 4).manifest);
  expect_strict(test::ranged_sums().manifest);
}

TEST(Manifest, OtherSpellingsAreRefused) {
  const std::string good = format::to_json(cuda_manifest());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string bad[] = {
      good + " ",
      " " + good,
      good + "{}",
      "",
      "[]",
      std::string(5'000'000, '['),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\":2.56e2"),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\": 16512"),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\":16512,\"arena_bytes\":16512"),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\":-0"),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\":18446744073709551615"),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\":9223372036854775807"),
      replaced("\"arena_bytes\":16512", "\"arena_bytes\":99999999999999999999999"),
      replaced("\"gemm\"", "\"ge\\u006dm\""),
      replaced("\"gemm\"", "\"ge\\u0000\""),
      replaced("a5a5", "A5a5"),
      replaced("a5a5", "a5a"),
      replaced("a5a5", "a5g5"),
      replaced("[1,2,3]", "[1,2]"),
  };
  for (const std::string& text : bad) {
    expect_damaged([&] { format::manifest_from_json(text); }, text.substr(0, 60));
  }
}

TEST(Manifest, AnotherFormatVersionIsIncompatible) {
  json other = json::parse(format::to_json(cuda_manifest()));
  other["format_version"] = format::kFormatVersion + 1;
  try {
    format::manifest_from_json(other.dump());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIncompatible);
  }
}

struct Change {
  const char* what;
  std::function<void(Manifest&)> apply;
};

int64_t section_size(std::string_view name) {
  return name == "code" ? 4096 : name == "weights" ? 16 : name == "cubin.0" ? 100 : 0;
}

constexpr int64_t kHuge = int64_t{1} << 60;
constexpr int64_t kMax = INT64_MAX;

void expect_all_refused(const Manifest& good, const std::vector<Change>& changes) {
  ASSERT_NO_THROW(format::validate(good, section_size));
  for (const Change& change : changes) {
    Manifest bad = good;
    change.apply(bad);
    expect_damaged([&] { format::validate(bad, section_size); }, change.what);
  }
}

// The entries of a second target behind those of the first.
std::vector<format::Entry> twice(const std::vector<format::Entry>& entries) {
  std::vector<format::Entry> all = entries;
  for (format::Entry entry : entries) {
    entry.target = 1;
    all.push_back(std::move(entry));
  }
  return all;
}

TEST(Manifest, TargetsHaveTheSameEntriesInTheSameOrder) {
  Manifest two = test::sum_model({7, 13}).manifest;
  two.targets.push_back({format::TargetKind::kCpu, "x86-64-v3", {}});
  two.entries = twice(two.entries);
  EXPECT_EQ(format::manifest_from_json(format::to_json(two)), two);
  expect_all_refused(two, {
                              {"entries of another order", [](Manifest& m) { std::swap(m.entries[2], m.entries[3]); }},
                              {"targets mixed", [](Manifest& m) { std::swap(m.entries[1], m.entries[2]); }},
                              {"one entry less", [](Manifest& m) { m.entries.pop_back(); }},
                              {"another shape", [](Manifest& m) { m.entries[2].inputs[0].shape[0] = 8; }},
                              {"another name", [](Manifest& m) { m.entries[2].name = "other"; }},
                              {"more than one GPU",
                               [](Manifest& m) {
                                 for (format::ManifestTarget& target : m.targets)
                                   target.kind = format::TargetKind::kCuda;
                               }},
                          });
}

// Entries of the functions "f", "f", "g"; those of g have an input less.
Manifest two_functions() {
  Manifest manifest = test::sum_model({7, 13, 5}).manifest;
  for (format::Entry& entry : manifest.entries) entry.function = "f";
  format::Entry& other = manifest.entries[2];
  other.function = "g";
  other.inputs.pop_back();
  other.buffers[1].index = 0;
  other.buffers[4].offset = 0;
  return manifest;
}

TEST(Manifest, FunctionsHaveInputsOfTheirOwn) {
  const Manifest manifest = two_functions();
  EXPECT_EQ(format::manifest_from_json(format::to_json(manifest)), manifest);
  const std::vector<format::Function> functions = format::functions_of(manifest);
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].name, "f");
  EXPECT_EQ(functions[0].count, 2U);
  EXPECT_EQ(functions[1].name, "g");
  EXPECT_EQ(functions[1].first, 2U);
  expect_all_refused(manifest, {
                                   {"a function without a name", [](Manifest& m) { m.entries[2].function.clear(); }},
                                   {"entries of a function that are apart",
                                    [](Manifest& m) { std::swap(m.entries[1], m.entries[2]); }},
                                   {"other inputs in one function", [](Manifest& m) { m.entries[2].function = "f"; }},
                                   {"a name twice", [](Manifest& m) { m.entries[2].name = m.entries[0].name; }},
                                   {"another function for another target",
                                    [](Manifest& m) {
                                      m.targets.push_back({format::TargetKind::kCpu, "x86-64-v3", {}});
                                      m.entries = twice(m.entries);
                                      m.entries[5].function = "h";
                                    }},
                                   {"a state with the name of an input of the second function",
                                    [](Manifest& m) {
                                      m.states = {{{"c", format::DataType::kF32, {1}}, "c.next", 0}};
                                      m.entries[2].inputs[0].name = "c";
                                    }},
                               });
}

// Part of a call's text, changed.
std::function<void(Manifest&)> in_call(const std::string& from, const std::string& to) {
  return [=](Manifest& m) {
    std::string& call = m.entries[0].cuda_steps.back().call;
    call.replace(call.find(from), from.size(), to);
  };
}

TEST(Manifest, HostileLibraryCallsAreRefused) {
  const auto step = [](Manifest& m) -> format::CudaStep& { return m.entries[0].cuda_steps.back(); };
  expect_all_refused(cuda_manifest(), {
                                          {"the call of another one", in_call("cublaslt", "cudnn")},
                                          {"the call of nobody", in_call("cublaslt", "cublas")},
                                          {"settings of an algorithm", in_call(" 1 ", " 1,2=3 ")},
                                          {"no problem", in_call("gemm", "gem")},
                                          {"an operand less", [=](Manifest& m) { step(m).operands.pop_back(); }},
                                          {"an operand more", [=](Manifest& m) { step(m).operands.push_back(0); }},
                                          {"no such buffer", [=](Manifest& m) { step(m).operands[1] = 4; }},
                                          {"a negative buffer", [=](Manifest& m) { step(m).operands[1] = -1; }},
                                          {"more rows than a buffer holds", in_call("m=2", "m=3")},
                                          {"wider elements", in_call("a=x:f16", "a=x:f32")},
                                          {"a wider result", [=](Manifest& m) { step(m).operands[2] = 1; }},
                                      });
}

TEST(Manifest, HostileCpuNumbersAreRefused) {
  expect_all_refused(
      test::sum_model({7, 13}).manifest,
      {
          {"no entry", [](Manifest& m) { m.entries.clear(); }},
          {"no arch", [](Manifest& m) { m.targets[0].arch.clear(); }},
          {"a dtype that f32 is not compiled to", [](Manifest& m) { m.dtype = format::DataType::kI32; }},
          {"no target", [](Manifest& m) { m.targets.clear(); }},
          {"a target twice", [](Manifest& m) { m.targets.push_back(m.targets[0]), m.entries = twice(m.entries); }},
          {"a target of another kind",
           [](Manifest& m) {
             m.targets.push_back({format::TargetKind::kCuda, "sm_90a", {}});
             m.entries = twice(m.entries);
           }},
          {"a target without entries",
           [](Manifest& m) {
             m.targets.push_back({{}, "x86-64-v3", {}});
           }},
          {"an entry of no target", [](Manifest& m) { m.entries[1].target = 1; }},
          {"kernel beyond code", [](Manifest& m) { m.kernels[0].offset = 4096; }},
          {"kernel ends beyond code", [](Manifest& m) { m.kernels[0].bytes = 4097; }},
          {"kernel offset overflow", [](Manifest& m) { m.kernels[0].offset = kMax; }},
          {"kernel size overflow", [](Manifest& m) { m.kernels[0].offset = 1, m.kernels[0].bytes = kMax; }},
          {"kernel negative", [](Manifest& m) { m.kernels[0].offset = -1; }},
          {"kernel empty", [](Manifest& m) { m.kernels[0].bytes = 0; }},
          {"kernel in the weights", [](Manifest& m) { m.kernels[0].section = "weights"; }},
          {"step kernel", [](Manifest& m) { m.entries[0].cpu_steps[0].kernel = 3; }},
          {"step kernel negative", [](Manifest& m) { m.entries[0].cpu_steps[0].kernel = -1; }},
          {"step arg", [](Manifest& m) { m.entries[0].cpu_steps[0].args[1] = 5; }},
          {"step arg huge", [](Manifest& m) { m.entries[0].cpu_steps[0].args[1] = kMax; }},
          {"step arg negative", [](Manifest& m) { m.entries[1].cpu_steps[1].args[0] = -1; }},
          {"no tiles", [](Manifest& m) { m.entries[0].cpu_steps[0].tiles = 0; }},
          {"too many tiles", [](Manifest& m) { m.entries[0].cpu_steps[0].tiles = kHuge; }},
          {"cuda step", [](Manifest& m) { m.entries[0].cuda_steps.emplace_back(); }},
          {"arena buffer", [](Manifest& m) { m.entries[0].buffers[2].offset += 1; }},
          {"arena buffer overflow", [](Manifest& m) { m.entries[0].buffers[2].offset = kMax; }},
          {"arena buffer size", [](Manifest& m) { m.entries[0].buffers[2].bytes = kMax; }},
          {"arena buffer negative", [](Manifest& m) { m.entries[0].buffers[2].offset = -64; }},
          {"arena buffer with an index", [](Manifest& m) { m.entries[0].buffers[2].index = 1; }},
          {"arena too small", [](Manifest& m) { m.entries[1].arena_bytes = 64; }},
          {"arena huge", [](Manifest& m) { m.entries[0].arena_bytes = kHuge; }},
          {"scratch huge", [](Manifest& m) { m.entries[0].scratch_bytes_per_thread = kHuge; }},
          {"weights buffer", [](Manifest& m) { m.entries[1].buffers[4].offset = 9; }},
          {"input buffer size", [](Manifest& m) { m.entries[0].buffers[0].bytes = 29; }},
          {"input index", [](Manifest& m) { m.entries[0].buffers[0].index = 2; }},
          {"output index", [](Manifest& m) { m.entries[0].buffers[3].index = 1; }},
          {"error word size",
           [](Manifest& m) {
             m.entries[0].buffers[2] = {format::Place::kError, 0, 0, 8, ""};
           }},
          {"error word offset",
           [](Manifest& m) {
             m.entries[0].buffers[2] = {format::Place::kError, 0, 4, 4, ""};
           }},
          {"tensor size", [](Manifest& m) { m.entries[0].inputs[0].shape = {kHuge}; }},
          {"tensor size overflow",
           [](Manifest& m) {
             m.entries[0].inputs[0].shape = {int64_t{1} << 31, int64_t{1} << 31, 4};
           }},
          {"negative extent", [](Manifest& m) { m.entries[0].inputs[0].shape = {-7}; }},
          {"rank", [](Manifest& m) { m.entries[0].inputs[0].shape.assign(33, 1); }},
          {"tensor twice", [](Manifest& m) { m.entries[0].inputs[0].name = m.entries[0].inputs[1].name; }},
          {"tensor without name", [](Manifest& m) { m.entries[0].outputs[0].name.clear(); }},
          {"entry twice", [](Manifest& m) { m.entries[0].name = m.entries[1].name; }},
          {"shapes twice", [](Manifest& m) { m.entries[1] = m.entries[0], m.entries[1].name = "again"; }},
          {"entries of other inputs", [](Manifest& m) { m.entries[1].inputs[0].name = "other"; }},
          {"entries of other types", [](Manifest& m) { m.entries[1].inputs[0].dtype = format::DataType::kI32; }},
      });
}

TEST(Manifest, HostileCudaNumbersAreRefused) {
  expect_all_refused(
      cuda_manifest(),
      {
          {"no such cubin", [](Manifest& m) { m.kernels[0].section = "cubin.1"; }},
          {"cubin in code", [](Manifest& m) { m.kernels[0].section = "code"; }},
          {"part of a cubin", [](Manifest& m) { m.kernels[0].bytes = 99; }},
          {"grid 0", [](Manifest& m) { m.entries[0].cuda_steps[0].grid[0] = 0; }},
          {"grid y", [](Manifest& m) { m.entries[0].cuda_steps[0].grid[1] = 65536; }},
          {"grid x", [](Manifest& m) { m.entries[0].cuda_steps[0].grid[0] = kMax; }},
          {"block",
           [](Manifest& m) {
             m.entries[0].cuda_steps[0].block = {1024, 2, 1};
           }},
          {"block huge",
           [](Manifest& m) {
             m.entries[0].cuda_steps[0].block = {kMax, kMax, kMax};
           }},
          {"shared memory", [](Manifest& m) { m.entries[0].cuda_steps[0].shared_bytes = kHuge; }},
          {"parameters", [](Manifest& m) { m.entries[0].cuda_steps[0].params.resize(40000); }},
          {"relocation end", [](Manifest& m) { m.entries[0].cuda_steps[0].relocations[0].offset = 145; }},
          {"relocation offset", [](Manifest& m) { m.entries[0].cuda_steps[0].relocations[0].offset = kMax; }},
          {"relocation buffer", [](Manifest& m) { m.entries[0].cuda_steps[0].relocations[0].buffer = 4; }},
          {"relocation addend", [](Manifest& m) { m.entries[0].cuda_steps[0].relocations[0].addend = 13; }},
          {"argument", [](Manifest& m) { m.entries[0].cuda_steps[0].arguments[3] = 152; }},
          {"map end", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].offset = 25; }},
          {"a buffer between accesses",
           [](Manifest& m) {
             m.entries[0].cuda_steps[0].tensor_maps[0].shape[0] = 64;
             m.entries[0].buffers[2] = {format::Place::kArena, 0, 8, 8192, ""};
           }},
          {"order of steps", [](Manifest& m) { m.entries[0].cuda_steps[1].after = {1}; }},
          {"order of steps, negative", [](Manifest& m) { m.entries[0].cuda_steps[1].after = {-1}; }},
          {"order of steps, twice",
           [](Manifest& m) {
             m.entries[0].cuda_steps[1].after = {0, 0};
           }},
          {"map buffer", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].buffer = 4; }},
          {"map of more than the buffer",
           [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].shape[0] = 129; }},
          {"map extent", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].shape[0] = kMax; }},
          {"map line", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].shape[1] = 63; }},
          {"map box line", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].box[1] = 48; }},
          {"map box", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].box[0] = 257; }},
          {"windows of a matrix",
           [](Manifest& m) {
             m.entries[0].cuda_steps[0].tensor_maps[0].windows = {{}, {1}, {0}};
             m.entries[0].cuda_steps[0].tensor_maps[0].windows.extents = {4};
           }},
          {"windows beyond their corners",
           [](Manifest& m) {
             format::TensorMap& map = m.entries[0].cuda_steps[0].tensor_maps[0];
             map.shape = {1, 1, 64}, map.box = {1, 1, 64}, map.windows = {{1}, {1}, {kHuge}};
           }},
          {"map rank", [](Manifest& m) { m.entries[0].cuda_steps[0].tensor_maps[0].box.push_back(64); }},
          {"zeros where another buffer lies", [](Manifest& m) { m.entries[0].zeros[0].offset = 127; }},
          {"zeros of no buffer", [](Manifest& m) { m.entries[0].zeros[0].buffer = 4; }},
          {"zeros of a tensor",
           [](Manifest& m) {
             m.entries[0].zeros[0] = {0, 0, 4};
           }},
          {"zeros behind their buffer", [](Manifest& m) { m.entries[0].zeros[0].bytes = 129; }},
          {"zeros huge", [](Manifest& m) { m.entries[0].zeros[0].bytes = kMax; }},
          {"cpu step", [](Manifest& m) { m.entries[0].cpu_steps.emplace_back(); }},
      });
}

}  // namespace
}  // namespace tw
