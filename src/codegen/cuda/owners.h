// Which thread holds what of a buffer in registers. Private to src/codegen/cuda.
#pragma once
#include <vector>

#include "loop/loop.h"

namespace tw::codegen {

/// For a register buffer that is allocated in `scope` outside of thread loops: the dims that tell the thread. Threads
/// may have a copy each of one element, if all that is stored there are constants and what they combine. Throws
/// InternalError when they use one element in another way, or other threads in different loops.
std::vector<bool> thread_dims(const loop::Buffer& buffer, const std::vector<loop::Stmt>& scope);

}  // namespace tw::codegen
