// Cubins of CUDA texts: from the cache, or from NVRTC in child processes, several at the same time.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tw::driver {

/// Ends the names of cached cubins.
inline constexpr std::string_view kCubinEnding = ".cubin";

struct CubinOptions {
  /// Starts a process that compiles (driver/tune/worker.h), and its arguments. Empty: NVRTC runs in this process.
  std::vector<std::string> worker;
  std::string folder;    // of the cache; empty: none
  int processes = 0;     // at the same time; 0: one for each CPU, fewer where memory is short
  double seconds = 120;  // for one text; then NVRTC counts as hanging
  std::function<void(const std::string&)> notice;
  std::function<bool()> stop = {};  // true: what is being compiled is wanted no more
};

/// Thrown where CubinOptions::stop says so: no failure of the kernel.
struct Stopped {};

/// Safe to use from several threads: as many texts are compiled at the same time as threads ask.
class Cubins {
 public:
  explicit Cubins(CubinOptions options = {});
  Cubins(const Cubins&) = delete;
  Cubins& operator=(const Cubins&) = delete;
  ~Cubins();

  /// The cubin of `source` for `architecture` ("sm_90a"). `name` says what it computes, for messages. InternalError
  /// where NVRTC rejects the text, crashes or hangs, ResourceError where no process can be had or the system kills it,
  /// Unsupported without NVRTC, Stopped.
  /// `compilations`, null: none, counts the texts that NVRTC is given.
  std::vector<std::byte> get(const std::string& name, const std::string& source, const std::string& architecture,
                             std::atomic<int64_t>* compilations = nullptr);
  /// Only while nothing is compiled.
  void stop_when(std::function<bool()> stop) { options_.stop = std::move(stop); }
  bool is_stopped() const { return options_.stop && options_.stop(); }

 private:
  class Pool;
  std::string path(const std::string& key) const;
  std::optional<std::vector<std::byte>> find(const std::string& key) const;
  void store(const std::string& key, const std::vector<std::byte>& cubin);
  std::vector<std::byte> compile(const std::string& name, const std::string& source, const std::string& architecture);

  CubinOptions options_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace tw::driver
