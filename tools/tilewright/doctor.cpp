// tilewright doctor: what this build and this machine can do.
#include <fstream>
#include <thread>

#include "driver/generate.h"
#include "driver/peak.h"
#include "ops/list.h"
#include "support/folders.h"
#include "targets/registry.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int doctor(const GlobalOptions& global) {
  const TargetInfo host = targets::find_target("cpu").info;
  const Result<bool> available = driver::cuda_generation_available();
  const std::string nvrtc = available.ok() ? "found" : available.reason();
  nlohmann::ordered_json levels;
  for (const MemoryLevel& l : host.levels) levels[l.name] = l.capacity_bytes;
  double peak = 0;  // stays 0 in a build without LLVM, which generates no CPU code
  double peak_all = 0;
#ifdef TW_HAVE_LLVM
  peak = driver::measure_fma_peak(host, 1);
  peak_all = driver::measure_fma_peak(host, host.units);
#endif
  const size_t operators = ops::all_ops().rows().size();
  if (global.json) {
    print_json("tilewright.doctor.v1", {{"cpu", cpu_name()},
                                        {"target", host.name},
                                        {"vector_bytes", host.vector_bytes},
                                        {"cpus", host.units},
                                        {"caches", levels},
                                        {"fma_peak_gflops", {{"1", peak}, {"all", peak_all}}},
                                        {"operators", operators},
                                        {"nvrtc", nvrtc},
                                        {"cache", artefact_cache_folder()},
                                        {"database", tuning_database()}});
    return kOk;
  }
  say(global, fmt::format("CPU        {} ({} CPUs)", cpu_name(), host.units));
  say(global,
      fmt::format("target     {}: {}-byte vectors, {} registers", host.name, host.vector_bytes, host.vector_registers));
  if (peak == 0) say(global, "FMA peak   not measured: this build has no LLVM");
  if (peak > 0)
    say(global, fmt::format("FMA peak   {:.1f} GFLOP/s on one thread, {:.1f} on {} (measured now, f32)", peak, peak_all,
                            host.units));
  for (const MemoryLevel& l : host.levels) say(global, fmt::format("{:<10} {} KiB", l.name, l.capacity_bytes / 1024));
  say(global, fmt::format("operators  {}", operators));
  say(global, fmt::format("NVRTC      {}", nvrtc));
  say(global, fmt::format("cache      {}", artefact_cache_folder()));
  say(global, fmt::format("database   {}", tuning_database()));
  for (const std::string& name : targets::target_names()) say(global, fmt::format("           --target {}", name));
  return kOk;
}

}  // namespace

void add_doctor(Application& application) {
  CLI::App* verb = application.app.add_subcommand(
      "doctor", "Example: tilewright doctor\n\nShows the environment: CPU, targets, libraries.");
  verb->callback([&application] { application.run = [&application] { return doctor(application.global); }; });
}

}  // namespace tw::cli
