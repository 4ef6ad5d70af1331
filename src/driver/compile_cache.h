// Whole artefacts of earlier compilations. An entry is found by a hash of everything that the artefact depends on: the
// model's bytes, the options, the target with its machine parameters, the build, and how its plan was decided. Its own
// bytes are checked against a hash before they are used.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "measure/cuda_executor.h"
#include "support/mapped_file.h"

namespace tw::driver {

/// What is told of a compilation besides its artefact.
struct CompileSummary {
  std::string target;                   // several: "cpu:x86-64-v4, cpu:x86-64-v3"
  std::vector<std::string> entries;     // names, of one target
  std::map<std::string, int> families;  // schedule family -> groups
  int64_t groups = 0;
  int64_t kernels = 0;
  int64_t winograd_groups = 0;
  int64_t opset = 0;
  std::vector<std::string> warnings;
};
CompileSummary summarize(const Compiled& compiled);
CompileSummary summarize(const plan::Plan& plan);  // what a plan says of it

struct CacheOptions {
  std::string folder;                    // empty: no cache
  int64_t max_bytes = int64_t{8} << 30;  // of all that the folder holds; the ones unused for longest go first
  std::function<void(const std::string&)> notice;
  Result<std::string> (*find_gpu)(const std::string& architecture) = measure::find_gpu;
};

struct CacheStatus {
  std::string folder;
  int64_t entries = 0;
  int64_t kernels = 0;  // of GPUs (driver/code/cubins.h), which are in the same folder
  int64_t bytes = 0;
  int64_t max_bytes = 0;
};

class CompileCache {
 public:
  explicit CompileCache(CacheOptions options) : options_(std::move(options)) {}

  /// What names the artefact of this model under these options for `targets` (options.target with machine parameters);
  /// nothing when there is no cache, when the model cannot be read (the compilation will say why), or when the options
  /// ask for more than an artefact (a plan, dumps).
  struct Key {
    std::string name;  // of the entry's files, up to the first dot
    std::string model;
    // Whether a file is still what was compiled: the model has not changed since, external data not since then.
    int64_t model_modified_ns = 0;
    int64_t started_ns = 0;
  };
  std::optional<Key> key(const std::string& model, const CompileOptions& options,
                         std::span<const targets::Target> targets) const;

  struct Hit {
    MappedFile artefact;
    CompileSummary summary;
  };
  /// The entry, if it is there, whole, and the model's external data is what it was. A damaged one is removed.
  std::optional<Hit> find(const Key& key) const;

  /// Adds an entry and removes what is beyond the bound. What fails here ends in a notice.
  void store(const Key& key, std::span<const uint8_t> artefact, const Compiled& compiled) const;

  CacheStatus status() const;
  /// Removes entries and kernels, the one unused for longest first, until `max_bytes` are left; returns how many.
  int64_t prune(int64_t max_bytes) const;

 private:
  void remove(const Key& key) const;
  std::string about_path(const Key& key) const;
  std::string artefact_path(const Key& key, const std::string& hash) const;
  CacheOptions options_;
};

}  // namespace tw::driver
