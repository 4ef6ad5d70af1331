// Fuzzes the importer: whatever the bytes, it returns or throws UserError, Unsupported or, where they ask for more
// memory than there is, ResourceError; anything else is a bug.
//
// With libFuzzer (-fsanitize=fuzzer, TW_LIBFUZZER) only the entry point is used. Without it, main mutates seed models
// for a number of seconds, each input made from (seed, iteration) alone:
//   fuzz_import [--seconds N] [--seed S] [--iteration I] [MODEL.onnx | FOLDER]...
// A failure prints the iteration; --iteration I runs that one again and leaves its bytes in fuzz_import_failure.onnx.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <span>

#include "frontend/onnx/import.h"
#include "ops/list.h"

namespace tw::fuzz {
namespace {

// The way an input ended; the kinds other than the first are bugs.
std::string import_once(std::span<const std::byte> bytes) {
  static const graph::OpTable kOps = ops::all_ops();
  try {
    const frontend::ImportResult result = frontend::import_onnx_bytes(bytes, "", kOps, {});
    graph::verify(result.graph, kOps);
    return {};
  } catch (const UserError&) {
    return {};
  } catch (const Unsupported&) {
    return {};
  } catch (const ResourceError&) {
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace
}  // namespace tw::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string why = tw::fuzz::import_once({reinterpret_cast<const std::byte*>(data), size});
  if (!why.empty()) {
    fmt::print(stderr, "{}\n", why);
    std::abort();
  }
  return 0;
}

#ifndef TW_LIBFUZZER
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/mutate_model.h"
#include "tests/fuzz/search.h"

namespace tw::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSeedBytes = 64 << 10;  // larger models only slow the search

std::vector<std::string> read_seeds(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const fs::path path : paths) {
    if (fs::is_regular_file(path)) files.push_back(path);
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".onnx") files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::vector<std::string> seeds;
  for (const fs::path& file : files) {
    if (static_cast<int64_t>(fs::file_size(file)) > kMaxSeedBytes) continue;
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  }
  if (seeds.empty()) seeds = built_in_seeds();
  return seeds;
}

int run(const Arguments& arguments) {
  const std::vector<std::string> seeds = read_seeds(arguments.paths);
  const auto done = search("fuzz_import", arguments, [&](uint64_t iteration) {
    const std::string input = mutated_model(seeds, arguments.seed, iteration);
    if (arguments.iteration >= 0) std::ofstream("fuzz_import_failure.onnx", std::ios::binary) << input;
    return import_once(std::as_bytes(std::span(input)));
  });
  if (!done) return 1;
  fmt::print("fuzz_import: {} inputs from {} seeds, no failure\n", *done, seeds.size());
  return 0;
}

}  // namespace
}  // namespace tw::fuzz

int main(int count, char** values) { return tw::fuzz::run(tw::fuzz::parse_arguments(count, values)); }
#endif  // TW_LIBFUZZER
