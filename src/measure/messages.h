// What a compiler asks a worker and what it answers, as CBOR. Every question has one answer; the first message is the
// worker's greeting.
//
//   load     workload under a number: buffers filled, code mapped; nothing of it runs
//   run      once; the answer has the wanted elements and the time of a second, warm run
//   sample   several times, timed
//   reset    forgets all workloads
#pragma once
#include <optional>

#include "measure/measurer.h"
#include "support/frame.h"

namespace tw::measure {

enum class Question : uint8_t { kLoad, kRun, kSample, kReset };

struct Request {
  Question question = Question::kReset;
  int64_t slot = 0;         // number of the workload
  int threads = 0;          // kLoad; 0: all
  double rotate_bytes = 0;  // kLoad
  Workload workload;        // kLoad
  /// kRun: whether its outputs are to be kept and later ones compared with them, or to be compared with what was kept.
  enum class Outputs : uint8_t { kKeep, kCompare } outputs = Outputs::kKeep;
  int64_t repetitions = 1;  // kSample: runs in one sample
  int64_t samples = 1;      // kSample
};

struct Sample {
  double nanoseconds = 0;  // of one run
  bool quiet = true;
};

struct Answer {
  std::string error;       // why the worker declines; empty: it did what was asked
  bool exhausted = false;  // it had no memory for it: no fault of the workload
  bool is_last = false;    // the worker ends: what it failed at cannot be put right in its process
  int64_t protocol = 0;
  int64_t threads = 0;                  // greeting
  Samples outputs;                      // kRun
  std::vector<Difference> differences;  // kRun, of each wanted buffer
  double warm_ns = 0;                   // kRun
  std::vector<Sample> samples;          // kSample
};

Payload encode(const Request& request);
Payload encode(const Answer& answer);
/// Nothing when the bytes are no such message.
std::optional<Request> decode_request(const Payload& payload);
std::optional<Answer> decode_answer(const Payload& payload);

}  // namespace tw::measure
