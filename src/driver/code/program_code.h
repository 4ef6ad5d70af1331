// What code generation takes, and what it makes of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "runtime/format/cuda_step.h"

namespace tw::driver {

/// A program and what it computes, for messages: the name of a group.
struct CodeTask {
  const loop::Program& program;
  const std::string& name;
};

/// Machine code of one distinct loop program: position-independent code or a cubin, and its kernels.
struct ProgramCode {
  std::vector<std::byte> bytes;
  struct Entry {
    std::string name;           // of the function in a cubin
    int64_t offset = 0;         // CPU: of the entry point in `bytes`
    int64_t bytes = 0;          // CPU: of the function
    int64_t scratch_bytes = 0;  // CPU: for each thread
    format::CudaLaunch cuda = {};
  };
  std::vector<Entry> kernels;     // in the order of the loop program
  bool is_mainloop_only = false;  // a kernel without the epilogue: as fast as the program can be, and wrong
  std::string group = {};         // after which the functions of a cubin are named; empty: they have other names
};

}  // namespace tw::driver
