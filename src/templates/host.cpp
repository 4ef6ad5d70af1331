#include "templates/host.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <sstream>

#include "support/math.h"

namespace tw::templates {
namespace {

constexpr double kAnswerSeconds = 30;

// The line of numbers of cutlass/host.cu.
std::string question(const Instance& instance, const GemmDescriptor& p, int multiprocessors) {
  constexpr size_t kSizes = 24, kVectors = 4;
  std::vector<int64_t> numbers = {p.m, p.n, p.k, p.batch, p.m * p.k, p.k * p.n, p.m * p.n, p.m * p.n};
  if (p.is_conv) {
    numbers = {p.images, p.channels, p.n};
    for (const GemmDescriptor::Extents* list : {&p.image, &p.window, &p.out, &p.pad, &p.stride, &p.dilation})
      numbers.insert(numbers.end(), list->begin(), list->begin() + p.dims);
  }
  numbers.resize(kSizes);
  numbers.push_back(multiprocessors);
  numbers.push_back(1);  // swizzle
  // Operands are counted from 1 there: 0 is none.
  const int64_t result = 3 + std::ssize(instance.epilogue.operands);
  std::vector<int64_t> operands = {1, 2, 0, result, result + 1};
  for (int64_t operand = 3; const Epilogue::Operand& o : instance.epilogue.operands) {
    if (o.is_tensor) operands[2] = operand;
    if (!o.is_tensor) operands.push_back(operand);
    ++operand;
  }
  operands.resize(5 + kVectors);
  return fmt::format("{} {}\n", fmt::join(numbers, " "), fmt::join(operands, " "));
}

void read_params(std::istringstream& words, std::vector<uint8_t>& params) {
  std::string digits;
  words >> digits;
  params.resize(digits.size() / 2);
  for (size_t i = 0; i < params.size(); ++i) std::from_chars(&digits[2 * i], &digits[2 * i] + 2, params[i], 16);
}

format::TensorMap read_map(std::istringstream& words) {
  format::TensorMap map;
  std::string type;
  size_t rank = 0;
  words >> map.offset >> map.buffer >> type >> rank;
  const auto dtype = format::parse_data_type(type);
  if (!dtype || rank < 1 || rank > format::TensorMap::kMaxRank) words.setstate(std::ios::failbit);
  if (!words) return map;
  map.dtype = *dtype;
  map.shape.resize(rank), map.box.resize(rank);
  format::Windows& w = map.windows;
  for (std::vector<int64_t>* list : {&map.shape, &map.box, &w.extents, &w.steps, &w.before}) {
    if (list == &w.extents && words.eof()) break;  // there are none
    if (list->empty()) list->resize(std::max<size_t>(rank, 2) - 2);
    for (int64_t& extent : *list) words >> extent;
  }
  return map;
}

}  // namespace

Result<Launch> find_launch(const Instance& instance, const GemmDescriptor& product, int multiprocessors,
                           const Ask& ask) {
  const Result<std::string> text = ask(question(instance, product, multiprocessors));
  if (!text) return declined("{}", text.reason());
  Launch launch;
  format::CudaStep& step = launch.step;
  step.arguments = {0};
  bool is_launch = false;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line) && line != "end";) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "refused") return declined("{}", line.substr(std::min(line.size(), name.size() + 1)));
    if (name == "launch") {
      is_launch = true;
      for (std::array<int64_t, 3>* extents : {&step.grid, &step.block}) {
        for (int64_t& extent : *extents) words >> extent;
      }
      words >> step.shared_bytes >> launch.workspace_bytes;
    } else if (name == "params") {
      read_params(words, step.params);
    } else if (name == "relocation") {
      format::Relocation& relocation = step.relocations.emplace_back();
      words >> relocation.offset >> relocation.buffer >> relocation.addend;
    } else if (name == "map") {
      step.tensor_maps.push_back(read_map(words));
    }
    if (!words) return declined("the host program's answer is not understood: {}", line);
  }
  if (!is_launch || step.params.empty()) return declined("the host program's answer is not understood");
  if (!instance.row.stream_k) return launch;
  // Sums of whole tiles, and behind them a barrier for each warp group of each.
  constexpr int64_t kBarriers = 2 * sizeof(int32_t), kLine = 128;
  const int64_t tile = int64_t{instance.row.tile_m} * instance.row.tile_n * static_cast<int64_t>(sizeof(float));
  launch.zero_bytes = launch.workspace_bytes % tile;
  if (launch.zero_bytes != round_up(launch.workspace_bytes / tile * kBarriers, kLine))
    return declined("{} bytes of memory that are no sums and barriers of tiles", launch.workspace_bytes);
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
    int answered = -1;
    while ((answered = poll(&ready, 1, static_cast<int>(kAnswerSeconds * 1000))) < 0 && errno == EINTR) continue;
    if (answered <= 0) return declined("the host program gave no answer within {} s", kAnswerSeconds);
    const ssize_t got = recv(channel, part, sizeof(part), 0);
    if (got <= 0) return declined("the host program ended: {}", process_.end());
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace tw::templates
