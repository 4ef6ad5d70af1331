#include "tests/harness/allocations/counter.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace {
std::atomic<int64_t> allocations{0};
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The names of the C library; visible, so that shared libraries use them too.
#pragma GCC visibility push(default)
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
#pragma GCC visibility pop

#endif

namespace tw::testing {

int64_t allocation_count() { return allocations; }

int64_t allocations_of_a_vector() {
  const int64_t before = allocations;
  const auto some = std::make_unique<std::vector<int>>(100);
  return allocations - before;
}

}  // namespace tw::testing
