// What code generation makes of a loop program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/data_type.h"
#include "core/shape.h"

namespace tw::driver {

/// What a kernel's bulk copies must know of a buffer that it takes (format::TensorMap).
struct TensorMap {
  int64_t param = 0;  // of the kernel
  DataType type;
  Shape shape, box;
};

/// Machine code of one distinct loop program: position-independent code or a cubin, and its kernels.
struct ProgramCode {
  std::vector<std::byte> bytes;
  struct Entry {
    std::string name;                  // of the function in a cubin
    int64_t offset = 0;                // CPU: of the entry point in `bytes`
    int64_t bytes = 0;                 // CPU: of the function
    int64_t scratch_bytes = 0;         // CPU: for each thread
    int64_t threads = 0;               // CUDA: of a block
    int64_t shared_bytes = 0;          // CUDA: of a block
    std::vector<TensorMap> maps = {};  // CUDA: parameters behind the buffers
    bool overlaps = false;             // CUDA: waits itself for the end of the kernel before
  };
  std::vector<Entry> kernels;  // in the order of the loop program
};

}  // namespace tw::driver
