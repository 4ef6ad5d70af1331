// The slow, direct meaning of te programs: floats in f64 without intermediate rounding, integers wrapped in their type.
// The oracle of tests; reductions run in row-major order of the reduction axes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "te/te.h"

namespace tw::te {

/// The elements of one tensor, row-major: floats in `floats`, integers and bools (0, 1) in `ints`.
struct TensorValues {
  DataType type;
  Shape shape;
  std::vector<double> floats;
  std::vector<int64_t> ints;
};
using ValueMap = std::map<std::string, TensorValues>;

/// Tensor of `shape` filled with zeros.
TensorValues zeros(DataType type, const Shape& shape);

/// Values of every tensor of the program (inputs, intermediates and outputs) for the given inputs.
/// Float operations are f64 operations whatever their type; casts between floats change nothing. Throws InternalError
/// on a missing or misshapen input, on a read outside a tensor (naming compute, tensor and index) and on an integer
/// division by zero.
ValueMap evaluate(const Program& program, const ValueMap& inputs);

}  // namespace tw::te
