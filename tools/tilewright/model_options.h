// What a compilation that the command starts gets besides its options: this machine's parameters, this program as its
// worker, the user's cache and database, progress, and Ctrl-C.
#pragma once
#include <optional>
#include <string>

#include "driver/compile_cache.h"
#include "tilewright/progress.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

/// `progress` must outlive what is returned. Notices go to stderr.
driver::CompileOptions with_surroundings(driver::CompileOptions options, Progress& progress);

/// The cache of artefacts that these options ask for, and what names the artefact of `model` in it, if it may be there.
struct CachePlace {
  driver::CompileCache cache;
  std::optional<driver::CompileCache::Key> key;
};
CachePlace find_in_cache(const std::string& model, driver::CompileOptions& options, Progress& progress);

}  // namespace tw::cli
