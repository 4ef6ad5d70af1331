// Runs workloads in this process, as the runtime runs kernels.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "measure/messages.h"

namespace tw::measure {

class Executor {
 public:
  virtual ~Executor() = default;
  /// Threads that candidates may use; 1 where that means nothing.
  virtual int threads() const = 0;
  /// Whether more can be asked of it after a failure. If not, this process is to end: a new one starts afresh.
  virtual bool is_usable() const { return true; }

  /// Brings code and buffers into place under the number `slot`. Buffers that are described alike are shared between
  /// slots, so that candidates meet the same memory pages. Throws InternalError for a workload that makes no sense,
  /// format::Error when there is no memory or a device refuses the code.
  virtual void load(int64_t slot, const Workload& workload, double rotate_bytes, int threads) = 0;
  struct Ran {
    Samples samples;                      // the elements that were wanted
    std::vector<Difference> differences;  // of the wanted buffers from those that were kept
    double warm_ns = 0;                   // time of a second run
  };
  /// Runs `slot` twice. Throws InternalError when a kernel wrote outside its buffers.
  virtual Ran run(int64_t slot, Request::Outputs outputs) = 0;
  /// `samples` times the time of one run among `repetitions` of them in a row, over the copies of L2-cold buffers in
  /// turn.
  virtual std::vector<Sample> sample(int64_t slot, int64_t repetitions, int64_t samples) = 0;
  virtual void reset() = 0;

 protected:
  /// The storage of a buffer after a run.
  using Storage = std::function<std::span<const std::byte>(size_t buffer)>;

  /// Puts the wanted elements of `workload` into `ran`, and keeps whole buffers or compares with those that were kept.
  void take_outputs(const Workload& workload, const Storage& storage, Request::Outputs outputs, Ran& ran);
  void forget_outputs() { kept_.clear(); }

 private:
  std::vector<std::vector<std::byte>> kept_;  // wanted buffers of an earlier run
};

inline constexpr int64_t kMaxCopies = 64;     // of a buffer that is used in turn
inline constexpr int64_t kGuardBytes = 4096;  // before and after every buffer that kernels may write
inline constexpr uint8_t kGuardByte = 0xa5;

/// Copies of the buffers in this cache state, so that `rotate_bytes` are read before one is read again; they have no
/// more than `max_bytes` together.
int64_t count_copies(const Workload& workload, CacheState copied, double rotate_bytes, double max_bytes);

/// Of a steady clock.
double now_ns();

/// Whether kernels write the buffer.
bool is_written(const BufferSpec& spec);
/// Throws InternalError where `workload` names buffers or elements that it does not have.
void check_workload(const Workload& workload);

/// Makes the executor of a worker: throws format::Error where its device is not there.
using MakeExecutor = std::function<std::unique_ptr<Executor>()>;
std::unique_ptr<Executor> make_cpu_executor();

}  // namespace tw::measure
