// Whole files in memory of their own.
#pragma once
#include <string>

#include "runtime/memory.h"

namespace tw::runtime {

/// The bytes of the regular file `path`. Throws Error: kInvalidArgument when there is none or it may not be read, kIo,
/// kOutOfMemory, kDamaged when it became shorter meanwhile.
Memory read_file(const std::string& path);

}  // namespace tw::runtime
