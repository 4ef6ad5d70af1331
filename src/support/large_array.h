// Arrays of hundreds of megabytes that are filled once: what takes time there is zeroing them and their page faults.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace tw {

/// Elements are not set to zero, and are stored in huge pages where the system has some for us.
template <typename T>
struct LargeAllocator {
  using value_type = T;
  LargeAllocator() = default;
  template <typename U>
  LargeAllocator(const LargeAllocator<U>&) {}  // NOLINT: containers convert allocators

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kHugePage) return static_cast<T*>(::operator new(bytes));
    const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = rounded < bytes ? nullptr : std::aligned_alloc(kHugePage, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    ::madvise(memory, rounded, MADV_HUGEPAGE);  // refused: small pages do as well
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < kHugePage) return ::operator delete(memory);
    std::free(memory);
  }
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Parts>
  void construct(U* at, Parts&&... parts) {
    ::new (static_cast<void*>(at)) U(std::forward<Parts>(parts)...);
  }
  friend bool operator==(const LargeAllocator&, const LargeAllocator&) { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
};

using LargeArray = std::vector<uint8_t, LargeAllocator<uint8_t>>;

}  // namespace tw
