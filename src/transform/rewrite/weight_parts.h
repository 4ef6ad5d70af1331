// Weights of a channel that is summed several times.
#pragma once
#include <cstdint>
#include <optional>

#include "core/data_type.h"

namespace tw::transform {

/// A weight in parts: rest + copies * part = the weight, exactly, all of its sign and of its type. So a channel that is
/// summed once with the rest and `copies` times with the part is summed with the weight, were it infinite.
struct WeightParts {
  double rest = 0, part = 0;
};

/// The part is a unit in the last place of the weight, of type f16 or bf16. Nothing where the weight has too few of
/// them: where it is subnormal.
std::optional<WeightParts> weight_parts(double weight, int64_t copies, DataType type);

}  // namespace tw::transform
