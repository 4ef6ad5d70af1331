// The native strided-copy executor: brings the bytes of a tensor into a layout (weights at compile time, tests).
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "core/layout.h"

namespace tw::te {

/// The storage bytes of a tensor of shape `logical`, row-major in `data`, under `layout`. Elements have `element_size`
/// bytes; those that a kPad adds are `fill` (element_size bytes; empty: zeros). Splits and fuses move nothing, each
/// reorder is one blocked transpose, each pad or unpad one copy.
/// Back again: materialize(storage, element_size, layout.storage_shape(logical), layout.inverse(logical)).
/// Throws InternalError when sizes do not fit.
std::vector<std::byte> materialize(std::span<const std::byte> data, size_t element_size, const Shape& logical,
                                   const Layout& layout, std::span<const std::byte> fill = {});

/// The same, into `to`, which has that size.
void materialize_into(std::span<std::byte> to, std::span<const std::byte> data, size_t element_size,
                      const Shape& logical, const Layout& layout, std::span<const std::byte> fill = {});

/// Row-major transpose: new dim i is old dim order[i].
std::vector<std::byte> transpose(std::span<const std::byte> data, size_t element_size, const Shape& shape,
                                 const std::vector<int64_t>& order);

}  // namespace tw::te
