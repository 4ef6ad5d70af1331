// CUDA C++ text to a cubin, through NVRTC. The library is opened when it is first needed: a build needs no toolkit.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "support/error.h"

namespace tw::codegen {

/// Whether NVRTC can be opened here, and if not why. Looked for as $TW_NVRTC, then libnvrtc.so.13, .12 and libnvrtc.so
/// on the loader's path, then below /usr/local/cuda.
Result<bool> nvrtc_available();

/// Everything but the text that a cubin depends on: NVRTC's version and its options. Unsupported without NVRTC.
std::string describe_compilation(const std::string& architecture);

/// The cubin of `source` for `architecture` ("sm_90a"); for one that is_portable() (fatbin.h) in a fatbin with its PTX,
/// which drivers take in a cubin's place. Contraction of products and sums is off, so that floats follow
/// the IR. Throws InternalError with NVRTC's log when the text does not compile, Unsupported when there is no NVRTC.
std::vector<std::byte> compile_cubin(const std::string& source, const std::string& architecture);

}  // namespace tw::codegen
