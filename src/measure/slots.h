// What executors of all devices have in common: workloads in slots, whose buffers they share.
#pragma once
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "measure/executor.h"
#include "measure/fill.h"
#include "support/error.h"

namespace tw::measure {

/// A Block is a buffer between guards, with an address `data` and `bytes`. Loaded has its `workload`, the number of
/// `copies` that it rotates, and `data`, the addresses of its buffers, copy after copy.
template <typename Loaded, typename Block>
class SlotExecutor : public Executor {
 public:
  void reset() override {
    slots_.clear();
    inputs_.clear();
    outputs_.clear();
    forget_outputs();
  }

 protected:
  virtual Block make_block(int64_t bytes, size_t ordinal) = 0;
  /// Fills an input; null, or a block that holds the same already.
  virtual void fill(Block& block, const BufferSpec& spec, const Block* same) = 0;
  virtual void guard(Block& block) = 0;
  virtual bool is_guarded(const Block& block) = 0;

  Loaded& slot(int64_t slot) {
    const auto found = slots_.find(slot);
    TW_CHECK(found != slots_.end(), "there is no workload {}", slot);
    return *found->second;
  }

  // Inputs in this cache state have as many copies as the workload.
  void place_buffers(Loaded& loaded, CacheState copied) {
    const std::vector<BufferSpec>& buffers = loaded.workload.buffers;
    for (int64_t copy = 0; copy < loaded.copies; ++copy) {
      for (size_t b = 0; b < buffers.size(); ++b) {
        Block& block = is_written(buffers[b]) ? output_block(b, storage_size(buffers[b]))
                                              : input_block(buffers[b], buffers[b].cache_state == copied ? copy : 0);
        loaded.data.push_back(block.data);
      }
    }
  }

  void check_guards() {
    int64_t overwritten = -1;
    for (auto& [key, block] : outputs_) {
      if (is_guarded(block)) continue;
      overwritten = block.bytes;
      guard(block);  // the next candidate is not to blame
    }
    TW_CHECK(overwritten < 0, "a kernel wrote outside of a buffer of {} bytes", overwritten);
  }

  std::map<int64_t, std::unique_ptr<Loaded>> slots_;

 private:
  Block& input_block(const BufferSpec& spec, int64_t copy) {
    const auto [found, fresh] = inputs_.try_emplace(fmt::format("{} {}", describe(spec), copy));
    if (!fresh) return found->second;
    found->second = make_block(storage_size(spec), inputs_.size());
    fill(found->second, spec, copy == 0 ? nullptr : &input_block(spec, 0));
    return found->second;
  }

  Block& output_block(size_t ordinal, int64_t bytes) {
    const auto [found, fresh] = outputs_.try_emplace({ordinal, bytes});
    if (fresh) found->second = make_block(bytes, ordinal);
    if (fresh) guard(found->second);
    return found->second;
  }

  std::map<std::string, Block> inputs_;                  // by description and copy
  std::map<std::pair<size_t, int64_t>, Block> outputs_;  // by position and size
};

}  // namespace tw::measure
