// Measuring as an interface: machine code and a description of its buffers in, times and samples of outputs out.
// Nothing here knows graphs, schedules or how code is made.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "core/tensor_type.h"
#include "runtime/format/cuda_step.h"

namespace tw::measure {

/// Content of a buffer before the kernels run. Element i (row-major in the logical shape) depends on the seed, on i and
/// on the type only, so that programs with other layouts compute the same.
enum class Fill : uint8_t {
  kNothing,   // kernels write it before anybody reads it
  kSigned,    // floats: magnitudes in [1/16, 1) of either sign; integers: 1 .. 100; bools: 0 or 1
  kPositive,  // the same without the sign
  kSigns,     // floats: 1 or -1
  kBytes,     // BufferSpec::bytes
};

/// Where a buffer's content is when a kernel starts: in all caches, beyond the private ones (L2 of a CPU), in memory.
enum class CacheState : uint8_t {
  kHot,     // the same memory in every repetition: an activation that the step before has just written
  kL2Cold,  // out of the private caches: one of several copies in turn, MeasureOptions::rotate_bytes of them; a GPU's
            // private caches keep nothing from one kernel to the next
  kCold,    // out of all caches: a weight of a model that is larger than they are; on a GPU one of several copies
};

struct BufferSpec {
  TensorType type;     // logical
  Layout layout = {};  // of the storage; what a pad adds is zero
  Fill fill = Fill::kNothing;
  CacheState cache_state = CacheState::kHot;
  uint64_t seed = 0;
  std::vector<std::byte> bytes = {};  // kBytes: elements in row-major order of the logical shape
  int64_t most = 100;                 // integers are 1 and up to this
};

/// One kernel over tiles [0, tiles) as the runtime runs it (runtime/device/cpu/code_map.h, runtime/format/cuda_step.h);
/// every step waits for the one before it.
struct WorkStep {
  int64_t offset = 0;         // CPU: of the entry point in Workload::code
  int64_t scratch_bytes = 0;  // CPU: of each thread
  int64_t tiles = 0;
  std::vector<int64_t> args;  // indices in Workload::buffers
  std::string kernel = {};    // CUDA: of the function in Workload::code
  format::CudaLaunch cuda = {};
};

/// Elements of a buffer that are wanted back: indices into its row-major storage, all when empty.
struct Wanted {
  int64_t buffer = 0;
  std::vector<int64_t> elements;
};

/// A candidate as a worker gets it.
struct Workload {
  std::vector<std::byte> code;  // position independent, or a cubin
  std::vector<BufferSpec> buffers;
  std::vector<WorkStep> steps;
  std::vector<Wanted> wanted;
  double expected_ns = 0;  // of one run; 0: unknown. Time-outs grow with it.
};

enum class Outcome : uint8_t {
  kMeasured,
  kCrashed,      // the worker died, or its device was of no use any more
  kTimedOut,     // the worker did not answer and was ended
  kGarbage,      // the worker answered nonsense and was ended
  kDeclined,     // by code generation or the worker; records say "refused"
  kWrong,        // its outputs are not those of the reference
  kNotMeasured,  // the budget was spent, the user interrupted, or no worker could be had: says nothing of the candidate
};
std::string_view outcome_name(Outcome outcome);
/// Whether the candidate must never be tried again.
inline bool is_quarantined(Outcome o) { return o != Outcome::kMeasured && o != Outcome::kNotMeasured; }

struct Timing {
  double best_decile_ns = 0;  // of one run
  double median_ns = 0;
  int64_t samples = 0;
  double quiet_share = 0;  // of the samples: those that nothing seems to have disturbed
};

/// How much of the measuring a time rests on.
enum class Effort : uint8_t {
  kWhole,
  kDropped,   // slower than the best one by MeasureOptions::drop_ratio: measured no further, a rough time
  kCutShort,  // measuring ended before there were enough samples: good for a choice, not to be kept
};

struct Measured {
  Outcome outcome = Outcome::kNotMeasured;
  std::string reason;  // unless measured
  Timing timing;       // when measured
  Effort effort = Effort::kWhole;
};

/// Elements that were wanted, as bytes of their type: one vector for each Workload::wanted.
using Samples = std::vector<std::vector<std::byte>>;

/// How far one wanted buffer lies from that of another candidate, over all its elements.
struct Difference {
  double largest = 0;    // |a - b|; infinite where only one of them is a number
  int64_t element = -1;  // where; -1: all bits are equal
};

struct RunOnce {
  Outcome outcome = Outcome::kNotMeasured;
  std::string reason;
  Samples samples;
};

struct MeasureOptions {
  int threads = 0;           // 0: every CPU of the affinity mask
  double rotate_bytes = 0;   // of copies that are used before one is used again
  double drop_ratio = 1.25;  // a candidate this much slower than the best one is measured no further
  int64_t samples = 12;      // of each candidate that is not dropped
  /// Called with the samples of a candidate's first run: a reason when they are wrong, an empty string otherwise.
  std::function<std::string(size_t candidate, const Samples& samples)> check;
  /// Called when a candidate passed `check` and another one did before it: a reason when they differ by more than two
  /// right ones may, an empty string otherwise. Then one of the two is wrong, and neither is trusted.
  std::function<std::string(std::span<const Difference> differences)> disagree;
  /// Asked between samples; true ends measuring, and what is not measured by then stays so.
  std::function<bool()> stop;
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  /// Times all workloads against each other, interleaved; one result for each. Never throws for what a candidate does.
  virtual std::vector<Measured> measure(std::span<const Workload> workloads, const MeasureOptions& options) = 0;
  /// Runs one workload once, untimed.
  virtual RunOnce run(const Workload& workload, int threads) = 0;
};

}  // namespace tw::measure
