// What a launch of a template's kernel takes: asked of the instance's host program (cutlass/host.cu), a child process.
#pragma once
#include <functional>
#include <string>

#include "runtime/format/manifest.h"
#include "support/child_process.h"
#include "templates/source.h"

namespace tw::templates {

struct Launch {
  /// Buffers of relocations and tensor maps are numbers of operands: a, b, those of the epilogue, the result, and
  /// behind it the workspace. `kernel` and `name` are not set.
  format::CudaStep step;
  int64_t workspace_bytes = 0, zero_bytes = 0;  ///< format::CudaLaunch
};

/// Sends a line, gives the answer. A reason when the program does not answer.
using Ask = std::function<Result<std::string>(const std::string& line)>;

/// The launch that computes `product`, or why the instance does not.
Result<Launch> find_launch(const Instance& instance, const GemmDescriptor& product, int multiprocessors,
                           const Ask& ask);

/// The host program of an instance.
class HostProgram {
 public:
  static Result<HostProgram> start(const std::string& path);
  Result<std::string> ask(const std::string& line);

 private:
  explicit HostProgram(ChildProcess process) : process_(std::move(process)) {}
  ChildProcess process_;
};

}  // namespace tw::templates
