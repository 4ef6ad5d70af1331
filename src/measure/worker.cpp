#include "measure/worker.h"

#include <signal.h>
#include <sys/prctl.h>

#include <exception>
#include <new>

#include "measure/protocol.h"
#include "runtime/format/error.h"

namespace tw::measure {
namespace {

// A candidate that hangs keeps the worker from seeing that its compiler has gone.
void end_with_the_compiler() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

Answer answer(Executor& executor, const Request& request) {
  Answer out;
  try {
    switch (request.question) {
      case Question::kLoad:
        executor.load(request.slot, request.workload, request.rotate_bytes, request.threads);
        break;
      case Question::kRun: {
        Executor::Ran ran = executor.run(request.slot, request.outputs);
        out.outputs = std::move(ran.samples);
        out.differences = std::move(ran.differences);
        out.warm_ns = ran.warm_ns;
        break;
      }
      case Question::kSample:
        out.samples = executor.sample(request.slot, request.repetitions, request.samples);
        break;
      case Question::kReset:
        executor.reset();
        break;
      default:
        out.error = "an unknown question";
    }
  } catch (const std::bad_alloc& error) {
    out.error = error.what();
    out.exhausted = true;
  } catch (const format::Error& error) {
    out.error = error.what();
    // A device that declines code says something of the code; memory maps do not.
    out.exhausted = error.code() != format::ErrorCode::kDevice && error.code() != format::ErrorCode::kIncompatible;
  } catch (const std::exception& error) {
    out.error = error.what();
  }
  out.is_last = !out.error.empty() && !executor.is_usable();
  return out;
}

// Null where there is none, and then the greeting says why.
std::unique_ptr<Executor> greet(const MakeExecutor& make, Answer& greeting) {
  greeting.protocol = kMeasuringProtocol;
  try {
    std::unique_ptr<Executor> executor = make();
    greeting.threads = executor->threads();
    return executor;
  } catch (const std::exception& error) {
    greeting.error = error.what();
    return nullptr;
  }
}

}  // namespace

void serve_worker(int channel, const MakeExecutor& make, const std::function<void(const Request& request)>& before) {
  end_with_the_compiler();
  Answer greeting;
  const std::unique_ptr<Executor> executor = greet(make, greeting);
  if (send_frame(channel, encode(greeting), -1) != Delivery::kDone || executor == nullptr) return;
  Payload payload;
  while (receive_frame(channel, payload, -1) == Delivery::kDone) {
    const std::optional<Request> request = decode_request(payload);
    if (!request) return;
    if (before) before(*request);
    const Answer out = answer(*executor, *request);
    if (send_frame(channel, encode(out), -1) != Delivery::kDone || out.is_last) return;
  }
}

}  // namespace tw::measure
