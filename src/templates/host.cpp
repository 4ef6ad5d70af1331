#include "templates/host.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>

namespace tw::templates {
namespace {

// Addresses that no operand has, of regions that no operand leaves, in two worlds.
constexpr uint64_t kRegion = uint64_t{1} << 40, kWorlds[2] = {uint64_t{1} << 44, uint64_t{1} << 45};
uint64_t address(int world, int64_t operand) { return kWorlds[world] + static_cast<uint64_t>(operand) * kRegion; }

constexpr double kAnswerSeconds = 30;

// The line of numbers of cutlass/host.cu.
std::string question(const Instance& instance, const Product& p, int multiprocessors, int world) {
  constexpr size_t kSizes = 16, kVectors = 4;
  std::vector<int64_t> numbers =
      p.is_conv ? std::vector<int64_t>{p.images,    p.height,    p.width,     p.channels,    p.n,
                                       p.window[0], p.window[1], p.out[0],    p.out[1],      p.pad[0],
                                       p.pad[1],    p.stride[0], p.stride[1], p.dilation[0], p.dilation[1]}
                : std::vector<int64_t>{p.m, p.n, p.k, p.batch, p.m * p.k, p.k * p.n, p.m * p.n, p.m * p.n};
  numbers.resize(kSizes);
  numbers.push_back(multiprocessors);
  numbers.push_back(1);  // swizzle
  const int64_t result = 2 + std::ssize(instance.epilogue.operands);
  std::vector<uint64_t> addresses = {address(world, 0), address(world, 1), 0, address(world, result),
                                     address(world, result + 1)};
  int64_t operand = 2;
  for (const Epilogue::Operand& o : instance.epilogue.operands) {
    if (o.is_tensor) addresses[2] = address(world, operand);
    if (!o.is_tensor) addresses.push_back(address(world, operand));
    ++operand;
  }
  addresses.resize(5 + kVectors);
  return fmt::format("{} {}\n", fmt::join(numbers, " "), fmt::join(addresses, " "));
}

struct Answer {
  std::map<std::string, std::vector<int64_t>> numbers;  // by the word ahead of them
  std::vector<uint8_t> params;
  std::vector<std::string> maps;
};

Result<Answer> read_answer(const std::string& text) {
  Answer answer;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line != "end";) {
    std::istringstream words(line);
    std::string name, digits;
    words >> name;
    if (name == "refused") return declined("{}", line.substr(name.size() + 1));
    if (name == "map") {
      answer.maps.push_back(line.substr(name.size() + 1));
    } else if (name == "params") {
      words >> digits;
      answer.params.resize(digits.size() / 2);
      for (size_t i = 0; i < answer.params.size(); ++i)
        std::from_chars(&digits[2 * i], &digits[2 * i] + 2, answer.params[i], 16);
    } else {
      for (int64_t number = 0; words >> number;) answer.numbers[name].push_back(number);
    }
  }
  const auto has = [&](const char* name, size_t count) { return answer.numbers[name].size() == count; };
  if (!has("grid", 3) || !has("block", 3) || !has("shared", 1) || !has("workspace", 1) || answer.params.empty())
    return declined("the host program's answer is not understood");
  return answer;
}

// The operand that an address belongs to in one world, and where in it.
Result<format::Relocation> find_operand(uint64_t word, int world, int64_t count) {
  const uint64_t operand = (word - kWorlds[world]) / kRegion;
  if (word < kWorlds[world] || operand >= static_cast<uint64_t>(count)) return declined("{:#x} is no address", word);
  const auto buffer = static_cast<int64_t>(operand);
  return format::Relocation{0, buffer, static_cast<int64_t>(word - address(world, buffer))};
}

// The arguments of cuTensorMapEncodeTiled as a map of the artefact. Swizzles that are not those of the box's lines,
// strides other than of a compact tensor and other modes are not for it.
Result<format::TensorMap> tiled_map(std::istringstream& words, format::TensorMap map) {
  constexpr int kBits16 = 1, kF16 = 6, kF32 = 7, kBF16 = 9;  // CUtensorMapDataType
  size_t rank = 0;
  int type = 0;
  uint64_t at = 0;
  words >> type >> rank >> at;
  if (rank < 1 || rank > format::TensorMap::kMostRank) return declined("a tensor of rank {}", rank);
  const bool half = type == kF16 || type == kBits16;
  map.dtype = half ? format::DataType::kF16 : type == kBF16 ? format::DataType::kBF16 : format::DataType::kF32;
  if (map.dtype == format::DataType::kF32 && type != kF32) return declined("a tensor of type {}", type);
  const auto list = [&](size_t count) {
    std::vector<int64_t> values(count);
    for (int64_t& value : values) words >> value;
    return values;
  };
  map.shape = list(rank);
  const std::vector<int64_t> strides = list(rank - 1);
  map.box = list(rank);
  const std::vector<int64_t> steps = list(rank), modes = list(4);
  int64_t compact = format::bytes_of(map.dtype);
  const int64_t line = map.box[0] * compact;
  for (size_t d = 0; d + 1 < rank; ++d) {
    compact *= map.shape[d];
    if (strides[d] != compact && map.shape[d + 1] > 1) return declined("a tensor that is not compact");
  }
  const int64_t swizzle = line == 128 ? 3 : line == 64 ? 2 : line == 32 ? 1 : -1;  // CUtensorMapSwizzle
  if (!words || modes[0] != 0 || modes[1] != swizzle || modes[3] != 0 ||
      std::ranges::count(steps, 1) != std::ssize(steps))
    return declined("a description of a tensor that artefacts do not have");
  std::ranges::reverse(map.shape);
  std::ranges::reverse(map.box);
  const Result<format::Relocation> operand = find_operand(at, 0, kRegion);
  if (!operand) return declined("{}", operand.reason());
  if (operand->addend != 0) return declined("a tensor that begins inside of a buffer");
  map.buffer = operand->buffer;
  return map;
}

Result<format::TensorMap> read_map(const std::string& text) {
  std::istringstream words(text);
  format::TensorMap map;
  std::string mode;
  words >> map.offset >> mode;
  if (mode != "tiled") return declined("a tensor described for {}", mode);
  return tiled_map(words, std::move(map));
}

}  // namespace

Result<Launch> find_launch(const Instance& instance, const Product& product, int multiprocessors, const Ask& ask) {
  Answer answers[2];
  for (int world : {0, 1}) {
    const Result<std::string> text = ask(question(instance, product, multiprocessors, world));
    if (!text) return declined("{}", text.reason());
    Result<Answer> answer = read_answer(*text);
    if (!answer) return declined("{}", answer.reason());
    answers[world] = std::move(answer).value();
  }
  Answer& first = answers[0];
  Launch launch;
  format::CudaStep& step = launch.step;
  launch.workspace_bytes = first.numbers["workspace"][0];
  for (size_t d = 0; d < 3; ++d) step.grid[d] = first.numbers["grid"][d], step.block[d] = first.numbers["block"][d];
  step.shared_bytes = first.numbers["shared"][0];
  step.arguments = {0};
  for (const std::string& text : first.maps) {
    Result<format::TensorMap> map = read_map(text);
    if (!map) return declined("{}", map.reason());
    std::fill_n(first.params.begin() + map->offset, format::TensorMap::kBytes, uint8_t{0});
    step.tensor_maps.push_back(std::move(map).value());
  }
  const int64_t operands = 4 + std::ssize(instance.epilogue.operands);
  const auto is_described = [&](int64_t at) {
    return std::ranges::any_of(step.tensor_maps, [&](const format::TensorMap& m) {
      return at >= m.offset && at < m.offset + format::TensorMap::kBytes;
    });
  };
  for (int64_t at = 0; at + 8 <= std::ssize(first.params); at += 8) {
    if (is_described(at)) continue;
    uint64_t words[2];
    for (size_t w : {0, 1}) std::memcpy(&words[w], answers[w].params.data() + at, 8);
    if (words[0] == words[1]) continue;
    Result<format::Relocation> here = find_operand(words[0], 0, operands), there = find_operand(words[1], 1, operands);
    if (!here || !there || !(*here == *there)) return declined("parameter {} depends on addresses, but is none", at);
    std::fill_n(first.params.begin() + at, 8, uint8_t{0});
    step.relocations.push_back({at, here->buffer, here->addend});
  }
  step.params = std::move(first.params);
  return launch;
}

Result<HostProgram> HostProgram::start(const std::string& path) {
  Result<ChildProcess> process = ChildProcess::start({path});
  if (!process) return declined("{}", process.reason());
  return HostProgram(std::move(process).value());
}

Result<std::string> HostProgram::ask(const std::string& line) {
  const int channel = process_.channel();
  if (send(channel, line.data(), line.size(), MSG_NOSIGNAL) != std::ssize(line))
    return declined("the host program ended: {}", process_.end());
  std::string text;
  while (!text.ends_with("\nend\n")) {
    pollfd ready = {channel, POLLIN, 0};
    char part[4096];
    if (poll(&ready, 1, static_cast<int>(kAnswerSeconds * 1000)) <= 0)
      return declined("the host program gave no answer within {} s", kAnswerSeconds);
    const ssize_t got = recv(channel, part, sizeof(part), 0);
    if (got <= 0) return declined("the host program ended: {}", process_.end());
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace tw::templates
