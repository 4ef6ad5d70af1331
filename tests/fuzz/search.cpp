#include "tests/fuzz/search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace tw::fuzz {
namespace {

constexpr unsigned kMaxSeconds = 20;  // for one input: longer counts as a hang

// Read by the signal handler.
const char* volatile current_name = "";
volatile int64_t current_iteration = 0;

void print_unsafe(const char* text, size_t size) {
  if (::write(STDERR_FILENO, text, size) < 0) ::_exit(126);
}

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
  constexpr char kText[] = ": crashed or hung; run again with the same seed and --iteration ";
  print_unsafe(current_name, std::strlen(current_name));
  print_unsafe(kText, sizeof(kText) - 1);
  print_unsafe(digits, static_cast<size_t>(length));
  print_unsafe("\n", 1);
  ::_exit(128 + signal);
}

std::string outcome(const std::function<std::string(uint64_t)>& once, int64_t iteration) {
  try {
    return once(static_cast<uint64_t>(iteration));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

Arguments parse_arguments(int count, char** values) {
  Arguments result;
  if (const char* seconds = std::getenv("TW_FUZZ_SECONDS")) result.seconds = std::atof(seconds);
  for (int i = 1; i < count; ++i) {
    const std::string word = values[i];
    if (!word.starts_with("--")) {
      result.paths.push_back(word);
      continue;
    }
    const char* value = ++i < count ? values[i] : "";
    if (word == "--seconds") result.seconds = std::atof(value);
    if (word == "--seed") result.seed = std::strtoull(value, nullptr, 10);
    if (word == "--iteration") result.iteration = std::atoll(value);
  }
  return result;
}

std::optional<int64_t> search(const char* name, const Arguments& arguments,
                              const std::function<std::string(uint64_t)>& once) {
  current_name = name;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) std::signal(signal, on_signal);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(arguments.seconds);
  const bool only_one = arguments.iteration >= 0;
  const int64_t first = only_one ? arguments.iteration : 0;
  int64_t i = first;
  do {
    current_iteration = i;
    ::alarm(kMaxSeconds);
    const std::string why = outcome(once, i);
    if (!why.empty()) {
      fmt::print(stderr, "{}: --seed {} --iteration {}: {}\n", name, arguments.seed, i, why);
      return std::nullopt;
    }
    ++i;
  } while (!only_one && std::chrono::steady_clock::now() < end);
  ::alarm(0);
  return i - first;
}

}  // namespace tw::fuzz
