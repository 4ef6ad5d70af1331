// A compiled model allocates nothing after warm-up: every allocation of the process is counted.
#include <gtest/gtest.h>

#include <atomic>

#include "driver/session.h"
#include "tests/driver/small_model.h"

// The sanitizers bring an allocator of their own; the counting one would take its place.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<int64_t> allocations{0};
}

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr;
}
}

namespace tw::driver::test {
namespace {

TEST(Allocation, TheCounterCounts) {
  const int64_t before = allocations;
  const auto some = std::make_unique<std::vector<int>>(100);
  EXPECT_EQ(allocations - before, 2);
}

TEST(Allocation, TenThousandRunsOfAModelAllocateNothing) {
  const graph::Graph model = small_model();
  const std::vector<uint8_t> artefact = artefact_bytes(compile_graph(model, {}));
  for (const int threads : {1, 2}) {
    Session session = Session::load_memory(artefact, {threads, false});
    session.bind(random_arrays(model, 3));
    for (int i = 0; i < 4; ++i) session.run_bound();
    const int64_t before = allocations;
    for (int i = 0; i < 10'000; ++i) session.run_bound();
    EXPECT_EQ(allocations - before, 0) << threads << " threads";
  }
}

}  // namespace
}  // namespace tw::driver::test

#endif
