// NVRTC in a process of its own: what crashes or hangs there costs one kernel, and several of them compile at the same
// time whatever NVRTC locks.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "support/child_process.h"

namespace tw::codegen {

/// The worker's side: compiles what the socket `channel` asks for until it is closed, and ends with the compiler even
/// in the middle of a kernel.
void serve_cubins(int channel);

/// What became of one text.
struct CubinReply {
  enum class Outcome : uint8_t {
    kCompiled,
    kRejected,  // by NVRTC; the worker lives
    kCrashed,   // the worker died
    kKilled,    // the worker was killed, as systems without memory do, or had none itself
    kTimedOut,  // the worker did not answer and was ended
  } outcome = Outcome::kCompiled;
  std::vector<std::byte> cubin;
  std::string reason;  // unless compiled
};

/// One worker, seen from the compiler.
class CubinWorker {
 public:
  /// Executes `command`, a program that calls serve_cubins(). A reason when it cannot be had or is no such program.
  static Result<CubinWorker> start(const std::vector<std::string>& command);
  /// compile_cubin() over there, at most `seconds` of it, and until `stop` (may be empty) says so: kTimedOut. Only
  /// after kCompiled and kRejected there is still a worker.
  CubinReply compile(const std::string& source, const std::string& architecture, double seconds,
                     const std::function<bool()>& stop = {});

 private:
  explicit CubinWorker(ChildProcess process) : process_(std::move(process)) {}
  ChildProcess process_;
};

}  // namespace tw::codegen
