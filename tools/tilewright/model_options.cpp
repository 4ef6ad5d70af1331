#include "tilewright/model_options.h"

#include <algorithm>
#include <filesystem>

#include "support/folders.h"
#include "support/option_value.h"
#include "tilewright/command.h"
#include "tilewright/interrupt.h"

namespace tw::cli {
namespace {

// This very program, as a worker.
std::vector<std::string> worker_command() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "worker"};
}

std::function<void(const std::string&)> notices(Progress& progress) {
  return [&progress](const std::string& notice) {
    progress.clear();
    print_error("tilewright: note: {}\n", notice);
  };
}

}  // namespace

driver::CompileOptions with_surroundings(driver::CompileOptions out, Progress& progress) {
  out.machine_model = measured_parameters();
  out.progress = std::ref(progress);
  start_watch(out);
  out.cubins.worker = worker_command();
  out.cubins.worker.emplace_back("cubins");
  out.cubins.folder = out.no_cache ? "" : artefact_cache_folder();
  out.cubins.notice = out.tuning.notice = notices(progress);
  if (out.no_measure) return out;
  watch_interrupts();
  out.tuning.worker = worker_command();
  out.tuning.database = tuning_database(out.tuning.database);
  out.tuning.interrupted = interrupted;
  out.tuning.event = [&progress](const driver::TuneEvent& event) { progress.measured(event); };
  return out;
}

CachePlace find_in_cache(const std::string& model, driver::CompileOptions& compile, Progress& progress) {
  driver::CacheOptions options;
  options.folder = compile.no_cache ? "" : artefact_cache_folder();
  options.notice = notices(progress);
  CachePlace place{driver::CompileCache(options), std::nullopt};
  if (options.folder.empty()) return place;
  const WorkWatch::Pause pause(compile.watch.get());
  if (std::ranges::count(split_list(compile.target), "cpu") > 0)  // the compilation will ask once more
    compile.machine_model.known = driver::machine::resolve_target("cpu", compile.machine_model).info;
  place.key = place.cache.key(model, compile, driver::machine::resolve_targets(compile.target, compile.machine_model));
  compile.machine_model.notice = {};  // said now
  return place;
}

std::string artefact_cache_folder() {
  const std::string folder = cache_folder();
  return folder.empty() || folder == "/dev/null" ? "" : folder + "/artefacts";
}

}  // namespace tw::cli
