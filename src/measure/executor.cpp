#include "measure/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure/fill.h"
#include "support/error.h"

namespace tw::measure {

int64_t count_copies(const Workload& workload, CacheState copied, double rotate_bytes, double max_bytes) {
  double bytes = 0;
  for (const BufferSpec& b : workload.buffers)
    bytes += b.cache_state == copied ? static_cast<double>(storage_size(b)) : 0;
  if (bytes == 0) return 1;
  const double wanted = std::min(std::ceil(rotate_bytes / bytes) + 1, std::floor(max_bytes / bytes));
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, kMaxCopies);
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_written(const BufferSpec& spec) { return spec.fill == Fill::kNothing; }

void check_workload(const Workload& w) {
  const auto buffers = static_cast<int64_t>(w.buffers.size());
  const auto is_buffer = [&](int64_t b) { return b >= 0 && b < buffers; };
  for (const WorkStep& s : w.steps) {
    TW_CHECK(s.tiles >= 0, "a step of {} tiles", s.tiles);
    TW_CHECK(std::ranges::all_of(s.args, is_buffer), "an argument that is no buffer");
  }
  for (const Wanted& want : w.wanted) {
    TW_CHECK(is_buffer(want.buffer), "elements of no buffer");
    const BufferSpec& b = w.buffers[static_cast<size_t>(want.buffer)];
    const int64_t elements = storage_size(b) / b.type.type.bytes();
    TW_CHECK(std::ranges::all_of(want.elements, [&](int64_t e) { return e >= 0 && e < elements; }),
             "an element outside of its buffer");
  }
}

void Executor::take_outputs(const Workload& workload, const Storage& storage, Request::Outputs outputs, Ran& ran) {
  if (outputs == Request::Outputs::kKeep) kept_.clear();
  for (size_t w = 0; w < workload.wanted.size(); ++w) {
    const Wanted& want = workload.wanted[w];
    const auto b = static_cast<size_t>(want.buffer);
    const DataType type = workload.buffers[b].type.type;
    const std::span<const std::byte> data = storage(b);
    std::vector<std::byte> bytes;
    if (want.elements.empty()) bytes.assign(data.begin(), data.end());
    for (const int64_t e : want.elements) {
      const auto element = data.subspan(static_cast<size_t>(e * type.bytes()), static_cast<size_t>(type.bytes()));
      bytes.insert(bytes.end(), element.begin(), element.end());
    }
    ran.samples.push_back(std::move(bytes));
    if (outputs == Request::Outputs::kKeep) {
      kept_.emplace_back(data.begin(), data.end());
    } else {
      TW_CHECK(w < kept_.size() && kept_[w].size() == data.size(), "no outputs were kept to compare with");
      ran.differences.push_back(difference(type, data, kept_[w]));
    }
  }
}

}  // namespace tw::measure
