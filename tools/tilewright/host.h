// The program that calls the command as a function: it gets what the command's own process would write.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

namespace tw::cli {

enum class TextStream : int32_t { kOutput = 1, kError = 2 };

struct Host {
  std::function<void(TextStream stream, std::string_view text)> write;
  std::function<void(std::string_view phase, int64_t done, int64_t total)> progress;  // may throw Cancelled
};

/// Of the calling thread; null where the process is the command's own.
const Host* host();

/// Makes `host` the calling thread's for a scope.
class Hosted {
 public:
  explicit Hosted(const Host& host);
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;
  ~Hosted();

 private:
  const Host* before_;
};

}  // namespace tw::cli
