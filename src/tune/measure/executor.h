// Runs workloads in this process, with the runtime's own code mapping, kernel interface and thread pool.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/memory.h"
#include "tune/measure/messages.h"
#include "tune/measure/quiet.h"

namespace tw::tune {

class Executor {
 public:
  Executor();
  ~Executor();
  int threads() const;

  /// Maps code and fills buffers under the number `slot`. Buffers that are described alike are shared between slots, so
  /// that candidates meet the same memory pages. What kernels must not write is read-only. Throws InternalError for a
  /// workload that makes no sense, format::Error when there is no memory.
  void load(int64_t slot, const Workload& workload, double rotate_bytes, int threads);
  struct Ran {
    Samples samples;                      // the elements that were wanted
    std::vector<Difference> differences;  // of the wanted buffers from those that were kept
    double warm_ns = 0;                   // time of a second run
  };
  /// Runs `slot` twice. Throws InternalError when a kernel wrote outside its buffers.
  Ran run(int64_t slot, Request::Outputs outputs);
  /// `samples` times the time of `repetitions` runs in one parallel region, over the copies of rotated buffers in turn;
  /// of one run, for which buffers were flushed, when there are such.
  std::vector<Sample> sample(int64_t slot, int64_t repetitions, int64_t samples);
  void reset();

 private:
  struct Loaded;
  class Region;
  struct Block {
    runtime::Memory memory;
    uint8_t* data = nullptr;
    int64_t bytes = 0;
    void guard();  // fills what lies around the data with the byte that must stay
  };

  Loaded& slot(int64_t slot);
  Block make_block(int64_t bytes, size_t ordinal) const;
  void fill_block(Block& block, const BufferSpec& spec) const;
  Block& input_block(const BufferSpec& spec, int64_t copy);
  Block& output_block(size_t ordinal, int64_t bytes);
  void check_guards();
  void keep_or_compare(const Loaded& loaded, Request::Outputs outputs, Ran& ran);
  void build(Loaded& loaded, int64_t repetitions);
  void bind(Loaded& loaded);
  Sample time_once(Loaded& loaded);

  std::map<int64_t, std::unique_ptr<Loaded>> slots_;
  std::map<std::string, Block> inputs_;                  // by description and copy
  std::map<std::pair<size_t, int64_t>, Block> outputs_;  // by position and size
  std::vector<std::vector<std::byte>> kept_;             // wanted buffers of an earlier run
  std::vector<QuietWatch> watches_;                      // of each thread
  int64_t turn_ = 0;                                     // of the copies, whichever candidate uses them
};

}  // namespace tw::tune
