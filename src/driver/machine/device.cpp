#include "driver/machine/device.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "driver/machine/bounds.h"
#include "measure/cuda_executor.h"
#include "runtime/format/atomic_file.h"
#include "support/hash.h"
#include "targets/registry.h"
#ifdef TW_HAVE_CUDA
#include "codegen/cuda/nvrtc.h"
#endif

namespace tw {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LevelRates, name, read_per_ns, write_per_ns, copy_per_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TypePeak, type, matrix, op_per_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceRates, from, levels, peaks, launch_ns)

}  // namespace tw

namespace tw::driver::machine {
namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "tilewright.device.v1";
constexpr int kMeasurement = 1;  // counts up when a micro-benchmark changes
constexpr size_t kHashDigits = 16;
constexpr std::string_view kPrefix = "device-";

std::string key_of(const std::string& gpu, const TargetInfo& target) {
  const Json key = {{"device", gpu}, {"target", target.name}, {"measurement", kMeasurement}};
  return key.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool has_files(const std::string& folder) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().filename().string().starts_with(kPrefix)) return true;
  }
  return false;
}

DeviceRates measure_now(const TargetInfo& target) {
#ifdef TW_HAVE_CUDA
  const std::vector<std::byte> cubin = codegen::compile_cubin(device_text(target), architecture(target));
  const std::unique_ptr<measure::Executor> executor = measure::make_cuda_executor(architecture(target));
  return measure_device(target, cubin, *executor);
#else
  throw Unsupported("measuring " + target.name + " needs CUDA code generation");
#endif
}

void measure_and_keep(const TargetInfo& target, const MachineOptions& options, const std::string& key, Device& device) {
  const auto notice = [&](const std::string& sentence) {
    if (options.notice) options.notice(sentence);
  };
  notice(fmt::format("measuring {} once, about 5 s", device.name));
  try {
    DeviceRates rates = measure_now(target);
    rates.from = "measured on " + device.name;
    device.rates = rates;
    if (device.file.empty()) return notice("the device's rates are not kept: there is no cache folder");
    std::error_code ignored;  // what matters is whether the file can be written
    std::filesystem::create_directories(parameters_folder(options), ignored);
    format::write_file_atomically(device.file, format::bytes_of(device_file_text(rates, key)));
  } catch (const std::exception& error) {
    notice(fmt::format("{} could not be measured, or its rates not kept: {}", device.name, error.what()));
  }
}

}  // namespace

DeviceRates published_rates(const std::string& name, const std::string& gpu) {
  return targets::data_sheet(gpu, architecture(name));
}

std::string device_file_text(const DeviceRates& rates, const std::string& key) {
  const Json document = {{"schema", kSchema}, {"machine", Json::parse(key)}, {"rates", rates}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<DeviceRates> parse_device_file(const std::string& text, const std::string& key) {
  try {
    const Json document = Json::parse(text);
    if (document.at("machine") != Json::parse(key)) return declined("it is of another device or version");
    const auto rates = document.at("rates").get<DeviceRates>();
    if (device_file_text(plausible(rates), key) != text) return declined("it is not as Tilewright writes it");
    return rates;
  } catch (const Json::exception& error) {
    return declined("{}", error.what());
  }
}

Device find_device(const TargetInfo& target, const MachineOptions& options) {
  Device device;
  device.rates = target.device;
  const std::string folder = parameters_folder(options);
  const bool anew = options.parameters == Parameters::kMeasuredAnew;
  if (target.kind != DeviceKind::kCuda || options.parameters == Parameters::kDefaults || !(anew || has_files(folder)))
    return device;
  const Result<std::string> gpu = measure::find_gpu(architecture(target));
  if (!gpu.ok()) return device;
  device.name = *gpu;
  device.rates = targets::data_sheet(*gpu, architecture(target));
  const std::string key = key_of(*gpu, target);
  if (!folder.empty())
    device.file = fmt::format("{}/{}{}.json", folder, kPrefix, content_hash(key).substr(0, kHashDigits));
  if (anew) {
    measure_and_keep(target, options, key, device);
    return device;
  }
  std::ifstream file(device.file, std::ios::binary);
  if (!file) return device;
  const Result<DeviceRates> kept =
      parse_device_file({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, key);
  if (kept.ok()) {
    device.rates = *kept;
  } else if (options.notice) {
    options.notice(fmt::format("'{}' is not used: {}", device.file, kept.reason()));
  }
  return device;
}

}  // namespace tw::driver::machine
