// The f64 meaning of a te program at some points of its outputs, as another te program: quick to run as plain machine
// code, and independent of every schedule that it judges.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "support/error.h"
#include "te/te.h"

namespace tw::driver {

/// Evaluations with random errors (see driver/tune/tolerance.h).
inline constexpr int kSampledTrials = 3;

struct SampledOutput {
  std::string tensor;               // of the sampled program
  DataType type;                    // there
  DataType rounded;                 // the narrowest type of what is computed on the way, at most `type`
  std::vector<int64_t> elements;    // row-major indices of its points
  std::string exact;                // tensor of the reference: one element for each point, f64 or the integer type
  std::vector<std::string> trials;  // the same with random errors; empty: nothing is rounded on the way here
};

struct SampledReference {
  /// Reads the inputs of the sampled program, and those below. Floats are computed in f64.
  te::Program program;
  std::map<std::string, std::vector<int64_t>> indices;  // i64 inputs and their elements: coordinates of the points
  std::vector<std::string> signs;                       // f64 inputs that hold 1 and -1, independent of each other
  std::vector<SampledOutput> outputs;
  double magnification = 1;  // of the errors in the trials
};

/// The reference of `program` at the given elements of each of its outputs (by name). Only what the points need is
/// computed: a compute that is read at e(p, r) is sampled over the points p and those reduction axes r that occur.
/// Declines when the maths looks at the bits of computed floats.
Result<SampledReference> sample_reference(const te::Program& program,
                                          const std::map<std::string, std::vector<int64_t>>& elements);

/// Points of all computes of `program`, reduction axes included: what an evaluation costs.
double count_points(const te::Program& program);

/// About `count` different elements of a tensor, row-major and sorted, all when it has no more: corners, places beside
/// multiples of `factors` (where tiles meet) and at the far ends of axes (where tails are), the rest at random.
std::vector<int64_t> choose_elements(const Shape& shape, const std::vector<int64_t>& factors, int64_t count);

}  // namespace tw::driver
