#include "codegen/cuda/cubin_worker.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "codegen/cuda/nvrtc.h"
#include "support/frame.h"

namespace tw::codegen {
namespace {

using Outcome = CubinReply::Outcome;

// Messages: the greeting; then a question, the architecture and the text, and its answer, a mark and the cubin or why
// there is none.
constexpr std::string_view kGreeting = "tilewright cubins 1";
constexpr uint8_t kCubin = 'c', kReason = 'r', kShort = 's';  // of memory
constexpr char kEndOfArchitecture = '\n';
constexpr double kGreetingSeconds = 20;  // limit: loaded machine, large executable
constexpr double kLookSeconds = 0.05;    // interval of looks whether the answer is wanted
constexpr double kEndSeconds = 0.5;      // between the end of the socket and the end of the process

Payload bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const Payload& payload) { return {payload.begin(), payload.end()}; }

Payload answer(const std::string& architecture, const std::string& source) {
  Payload out = {kCubin};
  try {
    const std::vector<std::byte> cubin = compile_cubin(source, architecture);
    const auto* data = reinterpret_cast<const uint8_t*>(cubin.data());
    out.insert(out.end(), data, data + cubin.size());
  } catch (const std::exception& error) {
    out = bytes_of(error.what());
    const bool is_short = dynamic_cast<const ResourceError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error);
    out.insert(out.begin(), is_short ? kShort : kReason);
  }
  return out;
}

// A compiler that has gone wants no cubin, and NVRTC may not come back by itself. (A signal at the parent's death would
// come at the end of the thread that started this process.)
void end_with_the_compiler(int channel) {
  std::thread([channel] {
    pollfd closed = {channel, POLLRDHUP, 0};
    while (poll(&closed, 1, -1) <= 0) continue;
    _exit(0);
  }).detach();
}

}  // namespace

void serve_cubins(int channel) {
  end_with_the_compiler(channel);
  if (send_frame(channel, bytes_of(kGreeting), -1) != Delivery::kDone) return;
  Payload payload;
  while (receive_frame(channel, payload, -1) == Delivery::kDone) {
    const auto end = std::ranges::find(payload, static_cast<uint8_t>(kEndOfArchitecture));
    if (end == payload.end()) return;
    const std::string architecture(payload.begin(), end), source(end + 1, payload.end());
    if (send_frame(channel, answer(architecture, source), -1) != Delivery::kDone) return;
  }
}

Result<CubinWorker> CubinWorker::start(const std::vector<std::string>& command) {
  Result<ChildProcess> started = ChildProcess::start(command);
  if (!started.ok()) return declined("{}", started.reason());
  ChildProcess process = std::move(started).value();
  Payload payload;
  const Delivery received = receive_frame(process.channel(), payload, kGreetingSeconds);
  if (received == Delivery::kDone && text_of(payload) == kGreeting) return CubinWorker(std::move(process));
  process.wait_signal(kEndSeconds);
  return declined("'{}' is no worker that compiles kernels: {}", command[0], process.end());
}

CubinReply CubinWorker::compile(const std::string& source, const std::string& architecture, double seconds,
                                const std::function<bool()>& stop) {
  Payload payload = bytes_of(architecture + kEndOfArchitecture + source);
  Delivery delivery = send_frame(process_.channel(), payload, seconds);
  pollfd answered = {process_.channel(), POLLIN, 0};
  for (double left = seconds; left > 0 && !(stop && stop()); left -= kLookSeconds)
    if (poll(&answered, 1, static_cast<int>(kLookSeconds * 1e3)) > 0) break;
  if (delivery == Delivery::kDone && answered.revents == 0) delivery = Delivery::kTimedOut;
  if (delivery == Delivery::kDone) delivery = receive_frame(process_.channel(), payload, seconds);
  if (delivery == Delivery::kTimedOut) {
    process_.end();
    return {Outcome::kTimedOut, {}, fmt::format("NVRTC gave nothing within {} s", seconds)};
  }
  if (delivery != Delivery::kDone || payload.empty()) {
    const int signal = process_.wait_signal(kEndSeconds);
    const std::string how = process_.end();
    if (is_sent_by_others(signal)) return {Outcome::kKilled, {}, fmt::format("NVRTC was killed: {}", how)};
    return {Outcome::kCrashed, {}, fmt::format("NVRTC crashed: {}", how)};
  }
  const Outcome failure = payload.front() == kShort ? Outcome::kKilled : Outcome::kRejected;
  if (payload.front() != kCubin) return {failure, {}, text_of({payload.begin() + 1, payload.end()})};
  const auto* data = reinterpret_cast<const std::byte*>(payload.data());
  return {Outcome::kCompiled, {data + 1, data + payload.size()}, ""};
}

}  // namespace tw::codegen
