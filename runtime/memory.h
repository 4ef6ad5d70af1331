// Blocks of memory: mapped by us (zeroed, 2 MiB aligned and backed by huge pages where that pays) or from the caller's
// allocator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tw::runtime {

/// The caller's functions, as in TwOptions; both or neither are set.
struct Allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*deallocate)(void* user, void* memory, size_t bytes) = nullptr;
  void* user = nullptr;
};

struct ReleaseMemory {
  size_t size = 0;
  size_t mapped = 0;  // bytes to unmap; 0 for the caller's memory
  Allocator allocator;
  void operator()(uint8_t* data) const;
};

class Memory {
 public:
  Memory() = default;
  /// `bytes` of zeroed memory, at least page aligned. Throws Error(kOutOfMemory), also for more than the machine has or
  /// the control group leaves.
  static Memory map(size_t bytes, const char* purpose);
  /// The same through `allocator` if it is set, 4 KiB aligned.
  static Memory allocate(size_t bytes, const Allocator& allocator, const char* purpose);

  uint8_t* data() const { return data_.get(); }
  size_t size() const { return data_.get_deleter().size; }
  /// Touches every page, so that a run meets no page fault.
  void populate();
  /// From now on, for mapped memory: a write, or a jump that is not into executable memory, is a fault.
  void make_read_only();
  void make_executable();

 private:
  size_t mapped() const { return data_.get_deleter().mapped; }
  std::unique_ptr<uint8_t[], ReleaseMemory> data_;
};

/// The bytes of the regular file `path`. Throws Error: kInvalidArgument when there is none or it may not be read, kIo,
/// kOutOfMemory, kDamaged when it became shorter meanwhile.
Memory read_file(const std::string& path);

}  // namespace tw::runtime
