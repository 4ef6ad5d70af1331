// Contents of buffers that are measured with: the same values whatever the layout; and how two of them differ.
#pragma once
#include <span>

#include "measure/measurer.h"

namespace tw::measure {

/// The storage bytes of `spec`: its logical elements, brought into its layout.
std::vector<std::byte> storage_bytes(const BufferSpec& spec);
/// Size of the same.
int64_t storage_size(const BufferSpec& spec);
/// Equal texts, equal storage bytes.
std::string describe(const BufferSpec& spec);

/// The largest difference between elements of two buffers of `type`.
Difference difference(DataType type, std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace tw::measure
