// What a compilation gets besides its options, from the command and from the library alike: this machine's parameters,
// a worker, the user's database and cache.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/compile_cache.h"
#include "driver/options.h"

namespace tw::driver {

struct Surroundings {
  /// Starts a program that serves compilers (driver/tune/worker.h), and its arguments. Empty: nothing is measured.
  std::vector<std::string> worker;
  std::function<void(const std::string&)> notice;  // what is worth saying and no error; called by any thread
};

/// The options with their surroundings; the time of their limits begins now.
CompileOptions with_surroundings(CompileOptions options, const Surroundings& surroundings);

/// The program that serves compilers beside the program or library that holds this function: `tilewright-worker` or
/// `tilewright worker`, in its folder, in ../bin or ../../bin (of lib/x86_64-linux-gnu), in ../libexec/tilewright, or
/// where a build puts it. Empty when there is none.
std::vector<std::string> find_worker();

/// Folder of the cache of artefacts; empty: there is none.
std::string artefact_cache_folder();

/// The cache of artefacts that these options ask for, and what names the artefact of the file `model` in it, if it may
/// be there. The options know this machine's parameters afterwards.
struct CachePlace {
  CompileCache cache;
  std::optional<CompileCache::Key> key;
};
CachePlace find_in_cache(const std::string& model, CompileOptions& options,
                         const std::function<void(const std::string&)>& notice);

}  // namespace tw::driver
