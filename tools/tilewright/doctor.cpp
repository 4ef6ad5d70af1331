// tilewright doctor: what this build and this machine can do, and how fast the machine is.
#include <algorithm>

#include "driver/code/generate.h"
#include "driver/machine/device.h"
#include "driver/surroundings.h"
#include "ops/list.h"
#include "support/folders.h"
#include "targets/registry.h"
#include "tilewright/command.h"
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

std::string size_text(int64_t bytes) {
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  return bytes >= 1 << 20 ? fmt::format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20))
                          : fmt::format("{} KiB", bytes >> 10);
}

void print_parameters(const GlobalOptions& global, const TargetInfo& host) {
  say(global, fmt::format("parameters {}", host.parameters_from));
  for (const VectorPeak& peak : host.peaks) {
    say(global,
        fmt::format("FMA peak   {:3}-bit vectors: {:.5g} GFLOP/s on one CPU, {:.5g} on {}, at {:.2g} GHz (f32)",
                    peak.vector_bytes * 8, peak.flop_per_ns, peak.all_flop_per_ns, host.compute_units, peak.clock_ghz));
  }
  say(global,
      fmt::format("fork-join  {:.0f} ns a parallel region, {:.0f} ns a barrier", host.fork_join_ns, host.barrier_ns));
  std::string head = "memory     level  capacity   ways  latency ns   GB/s: read  write   copy  read by all";
  for (const ChunkBandwidth& chunk : host.levels.front().chunks) head += fmt::format("{:>7}", chunk.chunk_bytes);
  say(global, head + "  B at random places");
  for (const MemoryLevel& l : host.levels) {
    std::string line = fmt::format("           {:<5} {:>10} {:>5} {:>11.3g} {:>12.4g} {:>6.4g} {:>6.4g} {:>12.4g}",
                                   l.name, size_text(l.capacity_bytes), l.ways > 0 ? std::to_string(l.ways) : "-",
                                   l.latency_ns, l.read_per_ns, l.write_per_ns, l.copy_per_ns, l.all_per_ns);
    for (const ChunkBandwidth& chunk : l.chunks) line += fmt::format("{:>7.4g}", chunk.bytes_per_ns);
    say(global, line);
  }
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
  say(global, fmt::format("           {}{}", rates.from,
                          measured ? fmt::format("; in brackets {}", sheet.from)
                                   : "; `tilewright doctor --remeasure` measures it"));
  for (const LevelRates& level : rates.levels) {
    const double bandwidth =
        measured && !sheet.levels.empty() && level.name == sheet.levels[0].name ? sheet.levels[0].read_per_ns : 0;
    say(global, fmt::format("           {:<5} GB/s: read {:.4g}, write {:.4g}, copy {:.4g}{}", level.name,
                            level.read_per_ns, level.write_per_ns, level.copy_per_ns, beside(bandwidth, 1)));
  }
  for (const bool matrix : {true, false}) {
    std::string line = fmt::format("           {} T operations/s:", matrix ? "matrix" : "vector");
    for (const TypePeak& peak : rates.peaks) {
      if (peak.matrix == matrix)
        line += fmt::format(" {} {:.4g}{}", peak.type, peak.op_per_ns / kTera,
                            beside(measured ? sheet_peak(sheet, peak) : 0, kTera));
    }
    say(global, line);
  }
  if (rates.launch_ns > 0)
    say(global, fmt::format("           launch of a kernel in a graph: {:.4g} ns", rates.launch_ns));
}

int doctor(const GlobalOptions& global, const VerbOptions& options) {
  driver::machine::MachineOptions machine_model = measured_parameters();
  if (options.remeasure) machine_model.parameters = driver::machine::Parameters::kMeasuredAnew;
  const TargetInfo host = driver::machine::resolve_target("cpu", machine_model).info;
  const std::string cpu = targets::host_cpu().name;
  const Result<bool> available = driver::cuda_generation_available();
  const std::string nvrtc = available.ok() ? "found" : available.reason();
  nlohmann::ordered_json gpus = nlohmann::ordered_json::object(), devices = nlohmann::ordered_json::object();
  std::map<std::string, DeviceRates> rates;
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
  say(global, fmt::format("CPU        {} ({} CPUs)", cpu, host.compute_units));
  say(global,
      fmt::format("target     {}: {}-byte vectors, {} registers", host.name, host.vector_bytes, host.vector_registers));
  print_parameters(global, host);
  say(global, fmt::format("operators  {}", operators));
  say(global, fmt::format("NVRTC      {}", nvrtc));
  for (const auto& [name, gpu] : gpus.items()) {
    say(global, fmt::format("GPU        {}: {}", name, std::string(gpu)));
    if (rates.contains(name)) print_device(global, rates[name], driver::machine::published_rates(name, gpu));
  }
  say(global, fmt::format("cache      {}", driver::artefact_cache_folder()));
  say(global, fmt::format("database   {}", tuning_database()));
  for (const std::string& name : targets::target_names()) say(global, fmt::format("           --target {}", name));
  return kOk;
}

}  // namespace

void add_doctor(Application& application) {
  add_verb(application,
           {"doctor",
            "Example: tilewright doctor\n\nShows the environment: CPU and GPU with their measured parameters, targets.",
            "", "", doctor});
}

}  // namespace tw::cli
