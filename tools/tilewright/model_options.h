// What a compilation that the command starts gets besides its options and their surroundings: this program as its
// worker, progress, and Ctrl-C.
#pragma once
#include <string>

#include "driver/surroundings.h"
#include "tilewright/progress.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

/// `progress` must outlive what is returned. Notices go to stderr.
driver::CompileOptions with_surroundings(driver::CompileOptions options, Progress& progress);

/// driver::find_in_cache with notices on stderr.
driver::CachePlace find_in_cache(const std::string& model, driver::CompileOptions& options, Progress& progress);

}  // namespace tw::cli
