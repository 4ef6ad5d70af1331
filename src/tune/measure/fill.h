// Contents of buffers that are measured with: the same values whatever the layout.
#pragma once
#include "tune/measure/measurer.h"

namespace tw::tune {

/// The storage bytes of `spec`: its logical elements, brought into its layout.
std::vector<std::byte> storage_bytes(const BufferSpec& spec);
/// Size of the same.
int64_t storage_size(const BufferSpec& spec);

}  // namespace tw::tune
