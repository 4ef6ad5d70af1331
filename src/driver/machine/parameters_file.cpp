#include "driver/machine/parameters_file.h"

#include <nlohmann/json.hpp>
#include <tuple>

#include "driver/machine/bounds.h"
#include "support/folders.h"

using Json = nlohmann::ordered_json;

// What the text holds: a key and the member with its value, for reading and writing alike. The library finds these
// functions in the namespace of the types.
namespace tw {

template <typename T>
constexpr auto kParameters = nullptr;
template <>
constexpr auto kParameters<ChunkBandwidth> = std::tuple(std::pair{"chunk_bytes", &ChunkBandwidth::chunk_bytes},
                                                        std::pair{"bytes_per_ns", &ChunkBandwidth::bytes_per_ns});
template <>
constexpr auto kParameters<MemoryLevel> = std::tuple(
    std::pair{"name", &MemoryLevel::name}, std::pair{"capacity_bytes", &MemoryLevel::capacity_bytes},
    std::pair{"line_bytes", &MemoryLevel::line_bytes}, std::pair{"ways", &MemoryLevel::ways},
    std::pair{"shared", &MemoryLevel::shared}, std::pair{"latency_ns", &MemoryLevel::latency_ns},
    std::pair{"read_per_ns", &MemoryLevel::read_per_ns}, std::pair{"write_per_ns", &MemoryLevel::write_per_ns},
    std::pair{"copy_per_ns", &MemoryLevel::copy_per_ns}, std::pair{"all_per_ns", &MemoryLevel::all_per_ns},
    std::pair{"chunks", &MemoryLevel::chunks});
template <>
constexpr auto kParameters<VectorPeak> = std::tuple(std::pair{"vector_bytes", &VectorPeak::vector_bytes},
                                                    std::pair{"flop_per_ns", &VectorPeak::flop_per_ns},
                                                    std::pair{"all_flop_per_ns", &VectorPeak::all_flop_per_ns},
                                                    std::pair{"clock_ghz", &VectorPeak::clock_ghz});
template <>
constexpr auto kParameters<TargetInfo> = std::tuple(std::pair{"from", &TargetInfo::parameters_from},
                                                    std::pair{"peaks", &TargetInfo::peaks},
                                                    std::pair{"fork_join_ns", &TargetInfo::fork_join_ns},
                                                    std::pair{"barrier_ns", &TargetInfo::barrier_ns},
                                                    std::pair{"levels", &TargetInfo::levels});

template <typename T>
concept Described = !std::is_null_pointer_v<std::remove_cv_t<decltype(kParameters<T>)>>;

template <Described T>
static void to_json(Json& json, const T& object) {
  std::apply([&](const auto&... parameter) { ((json[parameter.first] = object.*parameter.second), ...); },
             kParameters<T>);
}

template <Described T>
static void from_json(const Json& json, T& object) {
  const auto read = [&](const auto& parameter) { json.at(parameter.first).get_to(object.*parameter.second); };
  std::apply([&](const auto&... parameter) { (read(parameter), ...); }, kParameters<T>);
}

}  // namespace tw

namespace tw::driver::machine {
namespace {

constexpr const char* kSchema = "tilewright.machine.v1";

bool capacities_rise(const TargetInfo& info) {
  int64_t nearer = 0;
  for (const MemoryLevel& level : info.levels) {
    if (level.capacity_bytes <= nearer || level.line_bytes <= 0 || level.ways < 0) return false;
    nearer = level.capacity_bytes;
  }
  return info.levels.size() >= 2;
}

}  // namespace

std::string parameters_folder(const MachineOptions& options) {
  return options.folder.empty() ? cache_folder() : options.folder;
}

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
                    {"stepping", cpu.stepping}, {"cpus", cpu.compute_units},  {"caches", std::move(caches)},
                    {"target", target.name},    {"measurement", kMeasurement}};
  return key.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string parameters_text(const TargetInfo& info, const std::string& key) {
  const Json document = {{"schema", kSchema}, {"machine", Json::parse(key)}, {"figures", info}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TargetInfo> parse_parameters(const std::string& text, const std::string& key, const TargetInfo& defaults) {
  try {
    const Json document = Json::parse(text);
    if (document.at("machine") != Json::parse(key)) return declined("it is of another machine or version");
    TargetInfo info = defaults;
    document.at("figures").get_to(info);
    if (!info.peaks.empty()) info.flop_per_ns = info.peaks.back().flop_per_ns;
    if (parameters_text(info, key) != text) return declined("it is not as Tilewright writes it");
    if (info.peaks.empty() || !capacities_rise(info)) return declined("its levels or peaks are wrong");
    if (parameters_text(plausible(info, defaults), key) != text) return declined("a parameter is out of its bounds");
    return info;
  } catch (const Json::exception& error) {
    return declined("{}", error.what());
  }
}

std::string machine_line(const TargetInfo& info) {
  const Json document = {{"units", info.compute_units}, {"figures", info}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<TargetInfo> with_machine_line(const TargetInfo& target, const std::string& line) {
  try {
    const Json document = Json::parse(line);
    TargetInfo info = target;
    document.at("units").get_to(info.compute_units);
    document.at("figures").get_to(info);
    if (!info.peaks.empty()) info.flop_per_ns = info.peaks.back().flop_per_ns;
    const Json flat = document.flatten();
    const bool is_negative = std::ranges::any_of(flat, [](const Json& j) { return j.is_number() && !(j >= 0.0); });
    if (machine_line(info) != line) return declined("it is not as Tilewright writes it");
    if (is_negative || info.compute_units < 1 || !capacities_rise(info))
      return declined("its machine parameters are wrong");
    return info;
  } catch (const Json::exception& error) {
    return declined("{}", error.what());
  }
}

}  // namespace tw::driver::machine
