// Blocks of memory: mapped by us (zeroed, 2 MiB aligned and backed by huge pages where that pays) or from the caller's
// allocator.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw::runtime {

/// The caller's functions, as in TwOptions; both or neither are set.
struct Allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*deallocate)(void* user, void* memory, size_t bytes) = nullptr;
  void* user = nullptr;
};

class Memory {
 public:
  Memory() = default;
  /// `bytes` of zeroed memory, at least page aligned. Throws Error(kOutOfMemory), also for more than the machine has.
  static Memory map(size_t bytes, const char* purpose);
  /// The same through `allocator` if it is set, 4 KiB aligned.
  static Memory allocate(size_t bytes, const Allocator& allocator, const char* purpose);
  Memory(Memory&& other) noexcept { *this = static_cast<Memory&&>(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory() { release(); }

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  /// Touches every page, so that a run meets no page fault.
  void populate();
  /// From now on, for mapped memory: a write, or a jump that is not into executable memory, is a fault.
  void make_read_only();
  void make_executable();

 private:
  void release();

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;  // bytes to unmap; 0 for the caller's memory
  Allocator allocator_;
};

}  // namespace tw::runtime
