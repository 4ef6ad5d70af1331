// Counts every allocation of the process. Link tw_allocation_counter; its allocator takes the place of the C library's.
#pragma once
#include <cstdint>

namespace tw::testing {

// The sanitizers bring an allocator of their own, which the counting one would displace.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;
#endif

/// Calls of malloc and its kin so far, by all threads.
int64_t allocation_count();

/// What the counter adds for an object and its array on the heap: 2 when it works.
int64_t allocations_of_a_vector();

}  // namespace tw::testing
