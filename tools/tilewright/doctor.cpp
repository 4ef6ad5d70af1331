// tilewright doctor: what this build and this machine can do, and how fast the machine is.
#include <unistd.h>

#include <algorithm>
#include <map>

#include "driver/code/generate.h"
#include "driver/machine/device.h"
#include "driver/surroundings.h"
#include "ops/list.h"
#include "support/folders.h"
#include "support/text.h"
#include "targets/registry.h"
#include "tilewright/command.h"
#include "tilewright/terminal.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

nlohmann::ordered_json to_json(const MemoryLevel& level) {
  nlohmann::ordered_json chunks;
  for (const ChunkBandwidth& chunk : level.chunks) chunks[std::to_string(chunk.chunk_bytes)] = chunk.bytes_per_ns;
  return {{"name", level.name},
          {"capacity_bytes", level.capacity_bytes},
          {"line_bytes", level.line_bytes},
          {"ways", level.ways},
          {"shared", level.shared},
          {"latency_ns", level.latency_ns},
          {"gb_s",
           {{"read", level.read_per_ns},
            {"write", level.write_per_ns},
            {"copy", level.copy_per_ns},
            {"read_all", level.all_per_ns},
            {"read_chunks", chunks}}}};
}

nlohmann::ordered_json to_json(const TargetInfo& host) {
  nlohmann::ordered_json peaks = nlohmann::ordered_json::array(), levels = nlohmann::ordered_json::array();
  for (const VectorPeak& peak : host.peaks) {
    peaks.push_back({{"vector_bytes", peak.vector_bytes},
                     {"gflops", peak.flop_per_ns},
                     {"gflops_all", peak.all_flop_per_ns},
                     {"clock_ghz", peak.clock_ghz}});
  }
  for (const MemoryLevel& level : host.levels) levels.push_back(to_json(level));
  return {{"from", host.parameters_from},
          {"fma_peaks", peaks},
          {"levels", levels},
          {"fork_join_ns", host.fork_join_ns},
          {"barrier_ns", host.barrier_ns}};
}

nlohmann::ordered_json to_json(const DeviceRates& rates) {
  nlohmann::ordered_json levels = nlohmann::ordered_json::object(), peaks = nlohmann::ordered_json::array();
  for (const LevelRates& level : rates.levels)
    levels[level.name] = {{"read", level.read_per_ns}, {"write", level.write_per_ns}, {"copy", level.copy_per_ns}};
  for (const TypePeak& peak : rates.peaks)
    peaks.push_back({{"type", peak.type}, {"matrix", peak.matrix}, {"gops", peak.op_per_ns}});
  return {{"from", rates.from}, {"gb_s", levels}, {"peaks", peaks}, {"launch_ns", rates.launch_ns}};
}

using GpuHere = std::map<std::string, DeviceRates>;  // by target

constexpr size_t kNames = 12;  // columns of the names at the left

// "CPU         AMD EPYC (2 CPUs)"; what is too long for the terminal goes on below.
void say_row(const GlobalOptions& global, const std::string& name, const std::string& text) {
  const std::string line =
      fmt::format("{:<{}}{}", name, kNames, wrapped(text, terminal_columns(STDOUT_FILENO), kNames));
  say(global, line);
}

void print_memory(const GlobalOptions& global, const std::vector<MemoryLevel>& levels) {
  say(global, "");
  say(global, "memory        capacity   ways   latency       GB/s: read   write    copy     all");
  for (const MemoryLevel& l : levels) {
    say(global, fmt::format("  {:<8} {:>11} {:>6} {:>9} {:>16.4g} {:>7.4g} {:>7.4g} {:>7.4g}", l.name,
                            size_text(static_cast<double>(l.capacity_bytes)), l.ways > 0 ? std::to_string(l.ways) : "-",
                            fmt::format("{:.3g} ns", l.latency_ns), l.read_per_ns, l.write_per_ns, l.copy_per_ns,
                            l.all_per_ns));
  }
  say(global, "  (all: read by all CPUs)");
  std::string head = "  GB/s of reads at random places, of bytes:";
  for (const ChunkBandwidth& chunk : levels.front().chunks) head += fmt::format("{:>6}", chunk.chunk_bytes);
  say(global, head);
  for (const MemoryLevel& l : levels) {
    std::string line = fmt::format("  {:<41}", l.name);
    for (const ChunkBandwidth& chunk : l.chunks) line += fmt::format("{:>6.4g}", chunk.bytes_per_ns);
    say(global, line);
  }
}

void print_parameters(const GlobalOptions& global, const TargetInfo& host) {
  say_row(global, "parameters", host.parameters_from);
  for (const VectorPeak& peak : host.peaks) {
    say_row(global, "FMA peak",
            fmt::format("{}-bit vectors: {:.5g} GFLOP/s on one CPU, {:.5g} on {}, at {:.2g} GHz", peak.vector_bytes * 8,
                        peak.flop_per_ns, peak.all_flop_per_ns, host.compute_units, peak.clock_ghz));
  }
  say_row(global, "threads",
          fmt::format("{:.0f} ns for a parallel region, {:.0f} ns for a barrier", host.fork_join_ns, host.barrier_ns));
}

/// The value of the data sheet in brackets behind a measured one, if it has one.
std::string beside(double sheet, double scale) { return sheet > 0 ? fmt::format(" ({:.4g})", sheet / scale) : ""; }

double sheet_peak(const DeviceRates& sheet, const TypePeak& peak) {
  for (const TypePeak& other : sheet.peaks) {
    if (other.type == peak.type && other.matrix == peak.matrix) return other.op_per_ns;
  }
  return 0;
}

void print_device(const GlobalOptions& global, const DeviceRates& rates, const DeviceRates& sheet) {
  constexpr double kTera = 1000;  // operations a ns
  const bool measured = rates.from != sheet.from;
  say_row(global, "",
          rates.from + (measured ? fmt::format("; in brackets {}", sheet.from)
                                 : "; to measure it: tilewright doctor --remeasure"));
  for (const LevelRates& level : rates.levels) {
    const double bandwidth =
        measured && !sheet.levels.empty() && level.name == sheet.levels[0].name ? sheet.levels[0].read_per_ns : 0;
    say_row(global, "",
            fmt::format("{:<5} GB/s: read {:.4g}, write {:.4g}, copy {:.4g}{}", level.name, level.read_per_ns,
                        level.write_per_ns, level.copy_per_ns, beside(bandwidth, 1)));
  }
  for (const bool matrix : {true, false}) {
    std::string line = fmt::format("{} T operations/s:", matrix ? "matrix" : "vector");
    for (const TypePeak& peak : rates.peaks) {
      if (peak.matrix == matrix)
        line += fmt::format(" {} {:.4g}{}", peak.type, peak.op_per_ns / kTera,
                            beside(measured ? sheet_peak(sheet, peak) : 0, kTera));
    }
    say_row(global, "", line);
  }
  if (rates.launch_ns > 0) say_row(global, "", fmt::format("{:.4g} ns to launch a kernel in a graph", rates.launch_ns));
}

// "yes", or "no" and the reason.
std::string runs_here(const std::string& target, const nlohmann::ordered_json& gpus, const GpuHere& found) {
  if (gpus.contains(target)) {
    const std::string gpu = gpus[target];
    return (found.contains(target) ? "yes: " : "no: ") + gpu;
  }
  const std::vector<std::string> missing = targets::missing_here(targets::find_target(target).info);
  return missing.empty() || target == "cpu" ? "yes" : fmt::format("no: this CPU has no {}", list_text(missing, "or"));
}

void print_targets(const GlobalOptions& global, const nlohmann::ordered_json& gpus, const GpuHere& found) {
  constexpr size_t kTargets = 40;  // columns of the longest name, and a gap
  say(global, "");
  say(global, fmt::format("{:<{}}runs here", "target", kTargets));
  std::string before;
  for (const std::string& name : targets::target_names()) {
    const std::string answer = runs_here(name, gpus, found);
    const std::string text = answer == before && answer != "yes" ? "no, for the same reason" : answer;
    say(global,
        fmt::format("  {:<{}}{}", name, kTargets - 2, wrapped(text, terminal_columns(STDOUT_FILENO), kTargets)));
    before = answer;
    if (found.contains(name)) print_device(global, found.at(name), driver::machine::published_rates(name, gpus[name]));
  }
}

std::string or_none(const std::string& path) { return path.empty() ? "none" : path; }

int doctor(const GlobalOptions& global, const VerbOptions& options) {
  driver::machine::MachineOptions machine_model = measured_parameters();
  if (options.remeasure) machine_model.parameters = driver::machine::Parameters::kMeasuredAnew;
  const TargetInfo host = driver::machine::resolve_target("cpu", machine_model).info;
  const std::string cpu = targets::host_cpu().name;
  const Result<bool> available = driver::cuda_generation_available();
  const std::string nvrtc = available.ok() ? "found" : available.reason();
  nlohmann::ordered_json gpus = nlohmann::ordered_json::object(), devices = nlohmann::ordered_json::object();
  GpuHere rates;
  for (const std::string& name : targets::target_names()) {
    if (!name.starts_with("cuda:")) continue;
    const Result<std::string> gpu = driver::find_gpu(name);
    gpus[name] = gpu.ok() ? *gpu : gpu.reason();
    if (!gpu.ok()) continue;
    rates[name] = driver::machine::find_device(targets::find_target(name).info, machine_model).rates;
    devices[name] = to_json(rates[name]);
    devices[name]["data_sheet"] = to_json(driver::machine::published_rates(name, *gpu));
  }
  const size_t operators = ops::all_ops().rows().size();
  if (global.json) {
    print_json("tilewright.doctor.v1", {{"cpu", cpu},
                                        {"target", host.name},
                                        {"vector_bytes", host.vector_bytes},
                                        {"cpus", host.compute_units},
                                        {"figures", to_json(host)},
                                        {"figures_file", driver::machine::parameters_path(host, machine_model)},
                                        {"operators", operators},
                                        {"nvrtc", nvrtc},
                                        {"gpus", gpus},
                                        {"devices", devices},
                                        {"cache", driver::artefact_cache_folder()},
                                        {"database", tuning_database()}});
    return kOk;
  }
  say_row(global, "CPU", fmt::format("{} ({})", cpu, count_text(host.compute_units, "CPU")));
  say_row(global, "code",
          fmt::format("{}: {}-byte vectors, {} registers", host.name, host.vector_bytes, host.vector_registers));
  print_parameters(global, host);
  say_row(global, "operators", std::to_string(operators));
  say_row(global, "NVRTC", nvrtc);
  say_row(global, "cache", or_none(driver::artefact_cache_folder()));
  say_row(global, "database", or_none(tuning_database()));
  print_memory(global, host.levels);
  print_targets(global, gpus, rates);
  return kOk;
}

}  // namespace

void add_doctor(Application& application) {
  add_verb(application,
           {"doctor", "Example: tilewright doctor\n\nShows how fast this machine is and which targets run on it.", "",
            "", doctor});
}

}  // namespace tw::cli
