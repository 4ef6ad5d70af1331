// Linear quantization as graphs spell it out, operator by operator: real = (number - zero) * scale.
#pragma once
#include <optional>

#include "transform/editor.h"

namespace tw::transform {

/// (numbers - zero) * scale: integers of at most 16 bits; a zero among them, kAbsent where there is none, of their type
/// or a constant of a wider one; scale of the real's type. Both have one element, or the rank of the numbers with all
/// extents but one 1.
struct Dequantization {
  ValueId numbers, zero, scale;
};

/// How `real` is dequantized; nothing where it is not.
std::optional<Dequantization> dequantization_of(const Editor& editor, ValueId real);

/// The quotient real / scale, rounded to nearest even, plus zero (kAbsent where there is none), clipped to the numbers'
/// type. Where `is_inverse`, the graph multiplies by `scale` instead.
struct Quantization {
  ValueId real, zero, scale, quotient;
  bool is_inverse;
};

/// How `numbers` are quantized; nothing where they are not.
std::optional<Quantization> quantization_of(const Editor& editor, ValueId numbers);

/// The one number that a constant is, also one that is reshaped or cast; nothing where it is none.
std::optional<double> number_of(const Editor& editor, ValueId id);

/// Whether both bring the same numbers: quantizing again what was dequantized changes nothing.
bool is_undone_by(const Editor& editor, const Dequantization& from, const Quantization& to);

}  // namespace tw::transform
