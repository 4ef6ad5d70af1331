#include "measure/worker_client.h"

#include "measure/protocol.h"

namespace tw::measure {
namespace {

constexpr double kGreetingSeconds = 20;  // a loaded machine and a large executable
constexpr double kEndSeconds = 0.5;      // between the end of the socket and the end of the process

}  // namespace

bool WorkerClient::start() {
  if (process_) return true;
  if (!why_.empty()) return false;
  Result<ChildProcess> started = ChildProcess::start(command_);
  if (!started.ok()) {
    why_ = started.reason();
    return false;
  }
  ++generation_;
  process_ = std::move(started).value();
  Payload payload;
  const Delivery received = receive_frame(process_->channel(), payload, kGreetingSeconds);
  const std::optional<Answer> greeting = received == Delivery::kDone ? decode_answer(payload) : std::nullopt;
  if (greeting && greeting->protocol == kMeasuringProtocol && greeting->error.empty()) {
    threads_ = static_cast<int>(greeting->threads);
    return true;
  }
  process_->wait_signal(kEndSeconds);
  if (greeting && !greeting->error.empty()) {
    why_ = greeting->error;
    process_.reset();
    return false;
  }
  why_ = greeting ? fmt::format("'{}' speaks version {} of the measuring protocol, not {}", command_[0],
                                greeting->protocol, kMeasuringProtocol)
                  : fmt::format("'{}' does not behave as a worker: {}", command_[0], process_->end());
  process_.reset();
  return false;
}

Reply WorkerClient::ask(const Request& request, double seconds) {
  if (!start()) return {Outcome::kNotMeasured, why_, {}};
  Delivery delivery = send_frame(process_->channel(), encode(request), seconds);
  Payload payload;
  if (delivery == Delivery::kDone) delivery = receive_frame(process_->channel(), payload, seconds);
  if (delivery != Delivery::kDone) return fail(delivery, seconds);
  std::optional<Answer> answer = decode_answer(payload);
  if (!answer) return fail(Delivery::kGarbage, seconds);
  if (answer->is_last) {
    process_->wait_signal(kEndSeconds);
    process_.reset();
    return {Outcome::kCrashed, answer->error, {}};
  }
  if (!answer->error.empty())
    return {answer->exhausted ? Outcome::kNotMeasured : Outcome::kDeclined, answer->error, {}};
  return {Outcome::kMeasured, "", std::move(*answer)};
}

Reply WorkerClient::fail(Delivery delivery, double seconds) {
  Reply reply;
  if (delivery == Delivery::kClosed) {
    const int signal = process_->wait_signal(kEndSeconds);
    reply.outcome = is_sent_by_others(signal) ? Outcome::kNotMeasured : Outcome::kCrashed;
    reply.reason = process_->end();
  } else if (delivery == Delivery::kTimedOut) {
    reply.outcome = Outcome::kTimedOut;
    reply.reason = fmt::format("no answer within {:.2f} s", seconds);
  } else {
    reply.outcome = Outcome::kGarbage;
    reply.reason = "an answer that is none";
  }
  process_.reset();
  return reply;
}

}  // namespace tw::measure
