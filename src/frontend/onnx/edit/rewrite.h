// What may be changed in a model file, as data.
#pragma once
#include <cstdint>
#include <string>

#include "core/tensor_type.h"

namespace tw::frontend {

/// One change of a model's main graph. Which fields say more than the kind and the target, the kinds say.
struct Rewrite {
  enum class Kind : uint8_t {
    kActivation,  // `activation` of `source` (a value of `type`) computes the value `target`
    kExtent,      // axis `axis` of the initializer `target` has `extent` elements
    kGroup,       // the convolution that computes the value `target` has `extent` groups
    kPointwise,   // behind the activation that makes `target` of `source` stand a convolution with weights of `type`,
                  // whose window is one element, and the same activation once more
  };
  Kind kind = Kind::kActivation;
  std::string target;
  std::string source = {};
  std::string activation = {};  // operator of ops/unary.cpp
  int64_t axis = 0;
  int64_t extent = 0;
  bool is_read = false;  // kExtent: sums run over the axis, so that zeros in its new elements change no sum
  TensorType type = {};
  friend bool operator==(const Rewrite&, const Rewrite&) = default;
};

}  // namespace tw::frontend
