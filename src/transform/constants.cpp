#include <cmath>

#include "transform/editor.h"

namespace tw::transform {

namespace {
constexpr int64_t kSplatElements = 4096;  // splats are found among parameters, not among weights
}

std::optional<double> splat_of(const graph::Value& value) {
  if (!value.is_constant() || value.type.elements() == 0 || value.type.elements() > kSplatElements) return std::nullopt;
  const graph::RefTensor t = elements_of(value);
  for (int64_t i = 1; i < value.type.elements(); ++i) {
    if (t.at(i) != t.at(0)) return std::nullopt;
  }
  return t.at(0);
}

bool is_about(double x, double wanted, DataType type) {
  const double tolerance = type.bits() == 16 ? 0x1p-7 : 0x1p-21;
  return std::abs(x - wanted) <= tolerance * std::abs(wanted);
}

graph::RefTensor elements_of(const graph::Value& constant) {
  return graph::RefTensor::from_bytes(constant.type, *constant.constant);
}

graph::Bytes bytes_of(const graph::RefTensor& tensor) { return share(tensor.to_bytes()); }

graph::Bytes scalar_bytes(DataType type, double number) {
  graph::RefTensor t = graph::RefTensor::zeros({type, {}});
  if (t.is_float()) {
    t.floats[0] = number;
  } else {
    t.ints[0] = static_cast<int64_t>(number);
  }
  return bytes_of(t);
}

}  // namespace tw::transform
