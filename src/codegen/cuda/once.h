// What a block that walks over tiles does once for all of them. Private to src/codegen/cuda.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace tw::codegen {

/// A buffer of the block's shared memory, and the thread loops that fill it.
struct OnceFilled {
  loop::Buffer buffer;
  loop::Stmt fill;
};

/// The buffers that every tile of `kernel` fills with the same values, all by one statement, before others read them.
std::vector<OnceFilled> once_filled(const loop::Kernel& kernel);

/// Whether a buffer is a parameter that the kernel does not write.
bool is_read_only(const loop::Kernel& kernel, const std::string& buffer);

/// Whether `s` runs its body once, whatever it does besides.
bool runs_body_once(const loop::Stmt& s);

/// Whether `s` stores to one of `buffers`.
bool fills_any(const loop::Stmt& s, const std::set<std::string>& buffers);

}  // namespace tw::codegen
