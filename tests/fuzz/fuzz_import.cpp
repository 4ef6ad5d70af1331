// Fuzzes the importer: whatever the bytes, it returns or throws UserError or Unsupported; anything else is a bug.
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
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/mutate_model.h"

namespace tw::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSeedBytes = 64 << 10;  // larger models only slow the search
constexpr double kMaxSeconds = 20;           // for one input: longer counts as a hang

struct Arguments {
  double seconds = 5;
  uint64_t seed = 1;
  int64_t iteration = -1;
  std::vector<fs::path> paths;
};

Arguments parse_arguments(int count, char** values) {
  Arguments result;
  if (const char* seconds = std::getenv("TW_FUZZ_SECONDS")) result.seconds = std::atof(seconds);
  for (int i = 1; i < count; ++i) {
    const std::string word = values[i];
    const char* next = i + 1 < count ? values[i + 1] : "";
    if (word == "--seconds") result.seconds = std::atof(next);
    if (word == "--seed") result.seed = std::strtoull(next, nullptr, 10);
    if (word == "--iteration") result.iteration = std::atoll(next);
    if (word.starts_with("--")) {
      ++i;
    } else {
      result.paths.emplace_back(word);
    }
  }
  return result;
}

std::vector<std::string> read_seeds(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
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

volatile int64_t current_iteration = 0;

// Only async-signal-safe calls: the process is in an unknown state.
void on_signal(int signal) {
  char digits[24];
  int length = 0;
  int64_t value = current_iteration;
  do {
    digits[length++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  std::reverse(digits, digits + length);
  constexpr char kText[] = "fuzz_import: crashed; run again with the same seed and --iteration ";
  const auto print = [](const char* text, size_t size) {
    if (::write(STDERR_FILENO, text, size) < 0) ::_exit(126);
  };
  print(kText, sizeof(kText) - 1);
  print(digits, static_cast<size_t>(length));
  print("\n", 1);
  ::_exit(128 + signal);
}

// Empty, or what is wrong with this iteration's input.
std::string run_iteration(const std::vector<std::string>& seeds, uint64_t seed, int64_t iteration,
                          const std::string& save_to) {
  const std::string input = mutated_model(seeds, seed, static_cast<uint64_t>(iteration));
  if (!save_to.empty()) std::ofstream(save_to, std::ios::binary) << input;
  current_iteration = iteration;
  const auto start = std::chrono::steady_clock::now();
  std::string why = import_once(std::as_bytes(std::span(input)));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  if (why.empty() && time.count() > kMaxSeconds) why = fmt::format("took {:.1f} s", time.count());
  return why;
}

int run(const Arguments& arguments) {
  const std::vector<std::string> seeds = read_seeds(arguments.paths);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_signal);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.seconds);
  const bool once = arguments.iteration >= 0;
  int64_t i = once ? arguments.iteration : 0;
  do {
    const std::string why = run_iteration(seeds, arguments.seed, i, once ? "fuzz_import_failure.onnx" : "");
    if (!why.empty()) {
      fmt::print(stderr, "fuzz_import: --seed {} --iteration {}: {}\n", arguments.seed, i, why);
      return 1;
    }
    ++i;
  } while (!once && std::chrono::steady_clock::now() < end);
  fmt::print("fuzz_import: {} inputs from {} seeds, no failure\n", once ? 1 : i, seeds.size());
  return 0;
}

}  // namespace
}  // namespace tw::fuzz

int main(int count, char** values) { return tw::fuzz::run(tw::fuzz::parse_arguments(count, values)); }
#endif  // TW_LIBFUZZER
