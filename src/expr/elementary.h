// The elementary functions a kCall may name. Each takes and gives floats of one type; philox takes and gives u32.
// expand_elementary (expr/expand.h) turns each into arithmetic of this IR, with a stated error bound in ULP.
#pragma once
#include <span>
#include <string_view>

namespace tw {

struct ElementaryFunction {
  std::string_view name;
  int arity;
  double (*reference)(const double* args);  // correctly rounded enough: libm in f64
  double max_ulp;                           // bound of the f32 expansion: docs/internals/vector-math.md
};

/// exp, log, tanh, erf, sigmoid, sqrt, pow, sin, cos and those that follow from them, and fmod. Sorted by name.
std::span<const ElementaryFunction> elementary_functions();
/// Whether a call is an instruction and stays a call: sqrt, which every target has, or a GPU's approximation of f32.
inline bool is_instruction(std::string_view name) { return name == "sqrt" || name.ends_with("_approx"); }
/// philox(w, c0, c1, c2, c3, k0, k1): word w, from 0 to 3, of Philox4x32-10 (core/philox.h) of a counter and a key,
/// exact.
constexpr std::string_view kPhilox = "philox";
constexpr int kMostOperands = 7;
/// rough(x) = x, of which 16 bits are wanted: what it is made of may be approximate, though it is stored as f32.
constexpr std::string_view kRough = "rough";
/// The row of `name`, or null.
const ElementaryFunction* find_elementary(std::string_view name);

}  // namespace tw
