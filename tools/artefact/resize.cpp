#include "artefact/resize.h"

#include <algorithm>

namespace tw::artefact {

std::vector<size_t> nearest_elements(const Shape& from, const Shape& to) {
  std::vector<size_t> places(static_cast<size_t>(num_elements(to)));
  const Shape strides = row_major_strides(from), own = row_major_strides(to);
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < to.size(); ++d)
      at += std::min(static_cast<int64_t>(i) / own[d] % to[d], from[d] - 1) * strides[d];
    places[i] = static_cast<size_t>(at);
  }
  return places;
}

Array resized(const Array& array, const Shape& shape) {
  if (array.type.shape == shape) return array;
  Array out{{array.type.type, shape}, {}};
  const auto size = static_cast<std::ptrdiff_t>(array.type.type.bytes());
  for (const size_t place : nearest_elements(array.type.shape, shape)) {
    const auto from = array.bytes.begin() + static_cast<std::ptrdiff_t>(place) * size;
    out.bytes.insert(out.bytes.end(), from, from + size);
  }
  return out;
}

graph::RefTensor resized(const graph::RefTensor& tensor, const Shape& shape) {
  if (tensor.type.shape == shape) return tensor;
  graph::RefTensor out = graph::RefTensor::zeros({tensor.type.type, shape});
  const std::vector<size_t> places = nearest_elements(tensor.type.shape, shape);
  for (size_t i = 0; i < out.floats.size(); ++i) out.floats[i] = tensor.floats[places[i]];
  for (size_t i = 0; i < out.ints.size(); ++i) out.ints[i] = tensor.ints[places[i]];
  return out;
}

}  // namespace tw::artefact
