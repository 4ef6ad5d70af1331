// tilewright cache status|prune|path: artefacts and GPU kernels of earlier compilations.
#include <charconv>
#include <cmath>

#include "driver/compile_cache.h"
#include "support/error.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

// "500M", "2G" or a number of bytes.
int64_t parse_bytes(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1}, {"K", 1024.0}, {"M", 1048576.0}, {"G", 1073741824.0}};
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  for (const auto& [unit, factor] : kUnits) {
    if (code == std::errc() && std::string_view(end) == unit && value >= 0 && value * factor < 9e18)
      return static_cast<int64_t>(value * factor);
  }
  throw UsageError(fmt::format("--max-size '{}': expected a size such as 500M or 2G", text));
}

driver::CompileCache the_cache() {
  driver::CacheOptions options;
  options.folder = artefact_cache_folder();
  if (options.folder.empty()) throw UsageError("there is no place for a cache: set TILEWRIGHT_CACHE_DIR");
  return driver::CompileCache(std::move(options));
}

int status(const GlobalOptions& global) {
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

int prune(const GlobalOptions& global, const std::string& size) {
  const int64_t may_stay = parse_bytes(size);
  const int64_t removed = the_cache().prune(may_stay);
  if (global.json) {
    print_json("tilewright.cache.v1", {{"removed", removed}});
    return kOk;
  }
  say(global, fmt::format("removed {} artefacts and kernels", removed));
  return kOk;
}

int path(const GlobalOptions& global) {
  if (global.json) {
    print_json("tilewright.cache.v1", {{"folder", artefact_cache_folder()}});
    return kOk;
  }
  say(global, artefact_cache_folder());
  return kOk;
}

}  // namespace

void add_cache(Application& application) {
  CLI::App* verb = application.app.add_subcommand(
      "cache",
      "Example: tilewright cache status\n\nArtefacts and GPU kernels of earlier compilations ($TILEWRIGHT_CACHE_DIR or "
      "$XDG_CACHE_HOME/tilewright).");
  verb->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, std::function<int()> run) {
    CLI::App* action = verb->add_subcommand(name, help);
    action->callback([&application, run] { application.run = run; });
    return action;
  };
  add("status", "Example: tilewright cache status\n\nHow much is in the cache.",
      [&application] { return status(application.global); });
  add("path", "Example: tilewright cache path\n\nWhere it is.", [&application] { return path(application.global); });
  auto size = std::make_shared<std::string>("0");
  add("prune",
      "Example: tilewright cache prune --max-size 2G\n\nRemoves artefacts and kernels, the one unused for longest "
      "first, until the "
      "rest is at most as large as\n--max-size; without it, all of them.",
      [&application, size] { return prune(application.global, *size); })
      ->add_option("--max-size", *size, "What may stay, for example 500M or 2G (default: nothing)");
}

}  // namespace tw::cli
