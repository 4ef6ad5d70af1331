// Memory planning: offsets in one arena for buffers that live over known ranges of steps. A pure function of its input.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tw::driver {

/// A buffer that must keep its place from the start of `first_step` to the end of `last_step`.
struct BufferRequest {
  int64_t bytes = 0;
  int64_t first_step = 0;
  int64_t last_step = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // of each request, in bytes; multiples of 64
  int64_t arena_bytes = 0;
};

/// Greedy by size: the largest buffer first, each at the lowest offset where nothing that lives at the same time lies.
/// Large buffers (a page or more) that live at the same time start at different L1 sets, as long as there are sets
/// left. Deterministic. Errors: InternalError for negative sizes and for a last step before the first.
/// Source: greedy by size of Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.
MemoryPlan plan_memory(std::span<const BufferRequest> requests);

}  // namespace tw::driver
