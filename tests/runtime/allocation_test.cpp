// run allocates nothing after the first run of an entry: every allocation of the process is counted.
#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <fstream>

#include "tests/runtime/api_harness.h"

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

namespace tw {
namespace {

/// Pages of address space, so that mappings are seen too.
int64_t mapped_pages() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(Allocation, TheCounterCounts) {
  const int64_t before = allocations;
  const auto some = std::make_unique<std::vector<int>>(100);
  EXPECT_EQ(allocations - before, 2);
}

TEST(Allocation, TenThousandRunsAllocateNothing) {
  const auto model = test::load(test::sum_model({7, 301}).file());
  for (const int threads : {1, 0}) {
    for (const int profile : {0, 1}) {
      const auto context = test::make_context(model.get(), test::options_with(threads, profile));
      test::SumCase small(7), large(301);
      const DLTensor small_in[] = {small.a.view(), small.b.view()}, large_in[] = {large.a.view(), large.b.view()};
      const DLTensor small_out = small.y.view(), large_out = large.y.view();
      const auto run = [&](int i) {
        return i % 2 == 0 ? test::api().run(context.get(), small_in, 2, &small_out, 1)
                          : test::api().run(context.get(), large_in, 2, &large_out, 1);
      };
      for (int i = 0; i < 4; ++i) EXPECT_OK(run(i));
      const int64_t pages = mapped_pages();
      const int64_t before = allocations;
      int failed = 0;
      for (int i = 0; i < 10'000; ++i) failed += run(i) != nullptr;
      const int64_t during = allocations - before;
      EXPECT_EQ(failed, 0);
      EXPECT_EQ(during, 0) << threads << " threads, profile " << profile;
      EXPECT_EQ(mapped_pages(), pages);
      EXPECT_EQ(large.y.data, large.expected());
    }
  }
}

}  // namespace
}  // namespace tw

#endif
