// tilewright cache status|prune|path: artefacts and GPU kernels of earlier compilations.
#include "driver/surroundings.h"
#include "runtime/format/atomic_file.h"
#include "support/error.h"
#include "support/folders.h"
#include "tilewright/command.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

driver::CompileCache the_cache() {
  driver::CacheOptions options;
  options.folder = driver::artefact_cache_folder();
  if (options.folder.empty()) throw UsageError("there is no place for a cache: set TILEWRIGHT_CACHE_DIR");
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
  say(global, fmt::format("{}: {} artefacts and {} GPU kernels, {:.1f} MB of at most {:.0f} MB", status.folder,
                          status.entries, status.kernels, status.bytes / 1e6, status.max_bytes / 1e6));
  return kOk;
}

int prune(const GlobalOptions& global, const VerbOptions& options) {
  const int64_t removed = the_cache().prune(options.max_bytes);
  format::remove_abandoned_files(cache_folder());  // where machine parameters are
  if (global.json) {
    print_json("tilewright.cache.v1", {{"removed", removed}});
    return kOk;
  }
  say(global, fmt::format("removed {} artefacts and kernels", removed));
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
            "Example: tilewright cache status\n\nArtefacts and GPU kernels of earlier compilations "
            "($TILEWRIGHT_CACHE_DIR or $XDG_CACHE_HOME/tilewright).");
  add_verb(application,
           {"cache/status", "Example: tilewright cache status\n\nHow much is in the cache.", "", "", status});
  add_verb(application, {"cache/path", "Example: tilewright cache path\n\nWhere it is.", "", "", path});
  add_verb(
      application,
      {"cache/prune",
       "Example: tilewright cache prune --max-size 2G\n\nRemoves artefacts and kernels, the one unused for longest "
       "first, until the rest is at most as large as\n--max-size; without it, all of them.",
       "", "", prune});
}

}  // namespace tw::cli
