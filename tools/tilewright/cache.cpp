// tilewright cache status|prune|path: artefacts and GPU kernels of earlier compilations.
#include "driver/surroundings.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"
#include "tilewright/command.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

driver::CompileCache the_cache() {
  driver::CacheOptions options;
  options.folder = driver::artefact_cache_folder();
  if (options.folder.empty()) throw UsageError("there is no folder for the cache: set TILEWRIGHT_CACHE_DIR");
  return driver::CompileCache(std::move(options));
}

int status(const GlobalOptions& global, const VerbOptions&) {
  const driver::CacheStatus status = the_cache().status();
  if (global.json) {
    print_json("tilewright.cache.v1", {{"folder", status.folder},
                                       {"entries", status.entries},
                                       {"kernels", status.kernels},
                                       {"bytes", status.bytes},
                                       {"max_bytes", status.max_bytes}});
    return kOk;
  }
  say(global, fmt::format("{}: {} and {}, {} of at most {}", status.folder, count_text(status.entries, "artefact"),
                          count_text(status.kernels, "GPU kernel"), size_text(static_cast<double>(status.bytes)),
                          size_text(static_cast<double>(status.max_bytes))));
  return kOk;
}

int prune(const GlobalOptions& global, const VerbOptions& options) {
  const int64_t removed = the_cache().prune(options.max_bytes);
  format::remove_abandoned_files(cache_folder());  // where machine parameters are
  if (global.json) {
    print_json("tilewright.cache.v1", {{"removed", removed}});
    return kOk;
  }
  say(global, fmt::format("removed {}", count_text(removed, "file")));
  return kOk;
}

int path(const GlobalOptions& global, const VerbOptions&) {
  if (global.json) {
    print_json("tilewright.cache.v1", {{"folder", driver::artefact_cache_folder()}});
    return kOk;
  }
  say(global, driver::artefact_cache_folder());
  return kOk;
}

}  // namespace

void add_cache(Application& application) {
  add_group(application, "cache",
            "Example: tilewright cache status\n\nShows or empties the cache of artefacts and GPU kernels. It is "
            "$TILEWRIGHT_CACHE_DIR, else tilewright in $XDG_CACHE_HOME.");
  add_verb(application,
           {"cache/status", "Example: tilewright cache status\n\nShows how much the cache holds.", "", "", status});
  add_verb(application, {"cache/path", "Example: tilewright cache path\n\nShows where the cache is.", "", "", path});
  add_verb(
      application,
      {"cache/prune",
       "Example: tilewright cache prune --max-size 2G\n\nRemoves the least recently used artefacts and kernels. What "
       "stays is at most as large as --max-size; without it, everything goes.",
       "", "", prune});
}

}  // namespace tw::cli
