#include "driver/surroundings.h"

#include <unistd.h>

#include <filesystem>

#include "driver/like.h"
#include "support/build_id.h"
#include "support/folders.h"
#include "support/option_value.h"

namespace tw::driver {

CompileOptions with_surroundings(CompileOptions out, const Surroundings& surroundings) {
  out.machine_model.parameters = machine::Parameters::kMeasured;
  out.machine_model.notice = surroundings.notice;
  if (out.like != nullptr) adopt(*out.like, out);
  start_watch(out);
  out.cubins.worker = surroundings.worker;
  if (!surroundings.worker.empty()) out.cubins.worker.emplace_back("cubins");
  out.cubins.folder = out.no_cache ? "" : artefact_cache_folder();
  out.cubins.notice = out.tuning.notice = surroundings.notice;
  if (out.no_measure) return out;
  out.tuning.worker = surroundings.worker;
  out.tuning.database = tuning_database(out.tuning.database);
  return out;
}

std::vector<std::string> find_worker() {
  namespace fs = std::filesystem;
  const fs::path own = own_file();
  if (own.empty()) return {};
  for (const char* folder : {"", "../bin", "../../bin", "../libexec/tilewright", "tools", "../tools"}) {
    const fs::path place = (own.parent_path() / folder).lexically_normal();
    const std::string worker = place / "tilewright-worker", command = place / "tilewright";
    std::error_code missing;
    const auto can_run = [&](const std::string& program) {
      return fs::is_regular_file(program, missing) && access(program.c_str(), X_OK) == 0;
    };
    if (can_run(worker)) return {worker};
    if (can_run(command)) return {command, "worker"};
  }
  return {};
}

std::string artefact_cache_folder() {
  const std::string folder = cache_folder();
  return folder.empty() || folder == "/dev/null" ? "" : folder + "/artefacts";
}

CachePlace find_in_cache(const std::string& model, CompileOptions& compile,
                         const std::function<void(const std::string&)>& notice) {
  CacheOptions options;
  options.folder = compile.no_cache ? "" : artefact_cache_folder();
  options.notice = notice;
  CachePlace place{CompileCache(options), std::nullopt};
  if (options.folder.empty()) return place;
  const WorkWatch::Pause pause(compile.watch.get());
  if (std::ranges::count(split_list(compile.target), "cpu") > 0)  // the compilation will ask once more
    compile.machine_model.known = machine::resolve_target("cpu", compile.machine_model).info;
  place.key = place.cache.key(model, compile, machine::resolve_targets(compile.target, compile.machine_model));
  compile.machine_model.notice = {};  // said now
  return place;
}

}  // namespace tw::driver
