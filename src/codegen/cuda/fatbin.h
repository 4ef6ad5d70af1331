// Fatbins: what NVIDIA's drivers load where the code for one GPU is to run on those that come after it.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw::codegen {

/// Whether code for `architecture` may be translated for GPUs of a higher compute capability: "sm_80" may, what a
/// suffix binds to one GPU or family ("sm_90a", "sm_100f") may not.
bool is_portable(std::string_view architecture);

/// The fatbin of `cubin` for `architecture` ("sm_80") and of the PTX that it was made from, compressed: a driver loads
/// the cubin on GPUs of that major compute capability and translates the PTX on later ones. Deterministic.
std::vector<std::byte> make_fatbin(std::span<const std::byte> cubin, const std::string& ptx,
                                   std::string_view architecture);

/// `bytes` as one LZ4 block.
std::vector<std::byte> compress_lz4(std::span<const std::byte> bytes);

}  // namespace tw::codegen
