// The iteration space of an operator as data, and the class of the operator that follows from it.
//
// Source: Ivanov et al., Data Movement Is All You Need, sections III-B and IV: every operator has independent
// dimensions, statistical normalizations have reduction dimensions besides, and tensor contractions have reduction
// dimensions and special independent dimensions for their input tensors.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "te/te.h"

namespace tw::dataflow {

enum class AxisRole : uint8_t {
  kIndependent,  // of a contraction: all operands move along it (batches)
  kSpecial,      // of a contraction: independent, and an operand stays the same along it (rows, columns, pixels)
  kReduction,    // something is combined along it
};

struct SpaceAxis {
  std::string name;  // "i0" the first dim of the operator's last result, "r0" the first that this does not have
  int64_t extent = 0;
  AxisRole role = AxisRole::kIndependent;
  /// Of a reduction: what was combined along it is applied to every point of it again, as softmax does.
  bool is_applied = false;
};

/// The axes of all computes of an operator, those that run along one dim of one tensor taken together. An axis that is
/// reduced anywhere is a reduction. Axes of extent 1 are left out unless they are special, and so are those of computes
/// that only move data on its way to others.
struct IterationSpace {
  std::vector<SpaceAxis> axes;  // in the order of the last result, then in the order of the computes

  std::vector<SpaceAxis> with(AxisRole role) const;
};
IterationSpace space_of(const te::Program& program);

/// "8 x 16 x 512 independent, 512 reduction"; "1 point" of no axes.
std::string to_string(const IterationSpace& space);

enum class OperatorClass : uint8_t { kContraction, kNormalization, kElementwise };
inline constexpr OperatorClass kOperatorClasses[] = {OperatorClass::kContraction, OperatorClass::kNormalization,
                                                     OperatorClass::kElementwise};

/// "contraction", "normalization", "elementwise".
std::string_view name_of(OperatorClass operator_class);

/// A contraction has special axes, a normalization has reductions but no special axes, all else is element-wise.
OperatorClass class_of(const IterationSpace& space);

}  // namespace tw::dataflow
