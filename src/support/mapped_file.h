// A file's bytes without copying them, and a hash of them on all CPUs.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "support/error.h"

namespace tw {

struct Unmap {
  size_t size = 0;
  void operator()(const uint8_t* data) const;
};

class MappedFile {
 public:
  /// Maps `path` for reading; a reason when it is no regular file or cannot be read.
  static Result<MappedFile> open(const std::string& path);
  std::span<const uint8_t> bytes() const { return {data_.get(), data_.get_deleter().size}; }
  /// Nanoseconds since the epoch at which the content last changed.
  int64_t modified_ns() const { return modified_ns_; }

 private:
  MappedFile() = default;
  std::unique_ptr<const uint8_t[], Unmap> data_;
  int64_t modified_ns_ = 0;
};

/// BLAKE3 of the BLAKE3 hashes of all pieces of 4 MiB and of the size: large files at the speed of memory.
std::string hash_pieces(std::span<const uint8_t> bytes);

}  // namespace tw
