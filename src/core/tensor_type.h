// Element type and logical shape of a tensor.
#pragma once
#include <string>

#include "core/data_type.h"
#include "core/shape.h"

namespace tw {

struct TensorType {
  DataType type;
  Shape shape;
  int64_t elements() const { return num_elements(shape); }
  int64_t bytes() const { return elements() * type.bytes(); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// "f32[1,3,224,224]".
inline std::string to_string(const TensorType& t) { return to_string(t.type) + to_string(t.shape); }

}  // namespace tw
