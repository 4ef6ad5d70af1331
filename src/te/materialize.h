// The native strided-copy executor: brings the bytes of a tensor into a layout (weights at compile time, tests).
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/layout.h"

namespace tw::te {

/// What is in the storage of a tensor beside its own elements.
struct Added {
  std::span<const std::byte> fill = {};  // one element, for all that a kPad or a kUnfold adds; empty: zeros
  std::map<std::string, std::span<const std::byte>> slices = {};  // of each kStoreAt, by its tensor, as that is stored
};

/// The storage bytes of a tensor of shape `logical`, row-major in `data`, under `layout`. Elements have `element_size`
/// bytes. Splits and fuses move nothing, each reorder is one blocked transpose, any other primitive one copy.
/// Back again: materialize(storage, element_size, layout.storage_shape(logical), layout.inverse(logical)).
/// Throws InternalError when sizes do not fit.
std::vector<std::byte> materialize(std::span<const std::byte> data, size_t element_size, const Shape& logical,
                                   const Layout& layout, const Added& added = {});

/// The same, into `to`, which has that size.
void materialize_into(std::span<std::byte> to, std::span<const std::byte> data, size_t element_size,
                      const Shape& logical, const Layout& layout, const Added& added = {});

}  // namespace tw::te
