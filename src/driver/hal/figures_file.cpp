#include "driver/hal/figures_file.h"

#include <nlohmann/json.hpp>

#include "driver/hal/bounds.h"

namespace tw::driver::hal {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "tilewright.hal.v1";

Json to_json(const MemoryLevel& level) {
  Json chunks = Json::array();
  for (const ChunkBandwidth& chunk : level.chunks)
    chunks.push_back({{"chunk_bytes", chunk.chunk_bytes}, {"bytes_per_ns", chunk.bytes_per_ns}});
  return {{"name", level.name},
          {"capacity_bytes", level.capacity_bytes},
          {"line_bytes", level.line_bytes},
          {"ways", level.ways},
          {"shared", level.shared},
          {"latency_ns", level.latency_ns},
          {"read_per_ns", level.read_per_ns},
          {"write_per_ns", level.write_per_ns},
          {"copy_per_ns", level.copy_per_ns},
          {"all_per_ns", level.all_per_ns},
          {"chunks", std::move(chunks)}};
}

MemoryLevel level_from(const Json& json) {
  MemoryLevel level;
  json.at("name").get_to(level.name);
  json.at("capacity_bytes").get_to(level.capacity_bytes);
  json.at("line_bytes").get_to(level.line_bytes);
  json.at("ways").get_to(level.ways);
  json.at("shared").get_to(level.shared);
  json.at("latency_ns").get_to(level.latency_ns);
  json.at("read_per_ns").get_to(level.read_per_ns);
  json.at("write_per_ns").get_to(level.write_per_ns);
  json.at("copy_per_ns").get_to(level.copy_per_ns);
  json.at("all_per_ns").get_to(level.all_per_ns);
  for (const Json& chunk : json.at("chunks"))
    level.chunks.push_back({chunk.at("chunk_bytes").get<int64_t>(), chunk.at("bytes_per_ns").get<double>()});
  return level;
}

Json to_json(const TargetInfo& info) {
  Json peaks = Json::array(), levels = Json::array();
  for (const VectorPeak& peak : info.peaks) {
    peaks.push_back({{"vector_bytes", peak.vector_bytes},
                     {"flop_per_ns", peak.flop_per_ns},
                     {"all_flop_per_ns", peak.all_flop_per_ns},
                     {"clock_ghz", peak.clock_ghz}});
  }
  for (const MemoryLevel& level : info.levels) levels.push_back(to_json(level));
  return {{"from", info.figures_from},
          {"peaks", std::move(peaks)},
          {"fork_join_ns", info.fork_join_ns},
          {"barrier_ns", info.barrier_ns},
          {"levels", std::move(levels)}};
}

TargetInfo figures_from(const Json& json, const TargetInfo& defaults) {
  TargetInfo info = defaults;
  json.at("from").get_to(info.figures_from);
  info.peaks.clear();
  for (const Json& peak : json.at("peaks")) {
    info.peaks.push_back({peak.at("vector_bytes").get<int>(), peak.at("flop_per_ns").get<double>(),
                          peak.at("all_flop_per_ns").get<double>(), peak.at("clock_ghz").get<double>()});
  }
  if (!info.peaks.empty()) info.flop_per_ns = info.peaks.back().flop_per_ns;
  json.at("fork_join_ns").get_to(info.fork_join_ns);
  json.at("barrier_ns").get_to(info.barrier_ns);
  info.levels.clear();
  for (const Json& level : json.at("levels")) info.levels.push_back(level_from(level));
  return info;
}

bool capacities_rise(const TargetInfo& info) {
  int64_t nearer = 0;
  for (const MemoryLevel& level : info.levels) {
    if (level.capacity_bytes <= nearer || level.line_bytes <= 0 || level.ways < 0) return false;
    nearer = level.capacity_bytes;
  }
  return info.levels.size() >= 2;
}

}  // namespace

std::string machine_key(const targets::HostCpu& cpu, const TargetInfo& target) {
  Json caches = Json::array();
  for (const targets::HostCache& c : cpu.caches) {
    caches.push_back({{"level", c.level},
                      {"bytes", c.bytes},
                      {"ways", c.ways},
                      {"line_bytes", c.line_bytes},
                      {"sharers", c.sharers}});
  }
  const Json key = {{"cpu", cpu.name},          {"family", cpu.family},       {"model", cpu.model},
                    {"stepping", cpu.stepping}, {"cpus", cpu.units},          {"caches", std::move(caches)},
                    {"target", target.name},    {"measurement", kMeasurement}};
  return key.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string figures_text(const TargetInfo& info, const std::string& key) {
  const Json document = {{"schema", kSchema}, {"machine", Json::parse(key)}, {"figures", to_json(info)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TargetInfo> parse_figures(const std::string& text, const std::string& key, const TargetInfo& defaults) {
  try {
    const Json document = Json::parse(text);
    if (document.at("machine") != Json::parse(key)) return declined("it is of another machine or version");
    const TargetInfo info = figures_from(document.at("figures"), defaults);
    if (figures_text(info, key) != text) return declined("it is not as Tilewright writes it");
    if (info.peaks.empty() || !capacities_rise(info)) return declined("its levels or peaks are wrong");
    if (figures_text(plausible(info, defaults), key) != text) return declined("a figure is out of its bounds");
    return info;
  } catch (const Json::exception& error) {
    return declined("{}", error.what());
  }
}

}  // namespace tw::driver::hal
