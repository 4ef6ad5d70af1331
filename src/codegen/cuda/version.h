// Version of what makes CUDA C++ of lowered loops.
#pragma once

namespace tw::codegen {

/// Counts up when equal loops may give another text than before. Used as lower/version.h; NVRTC and its options have
/// names of their own (nvrtc.h).
inline constexpr int kEmitterVersion = 9;

}  // namespace tw::codegen
