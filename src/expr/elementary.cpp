#include "expr/elementary.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"

namespace tw {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// Of words, which f64 holds.
double philox_word(const double* x) {
  const auto word = [x](size_t k) { return static_cast<uint32_t>(x[k]); };
  return philox4x32({word(1), word(2), word(3), word(4)}, {word(5), word(6)}).at(word(0));
}

template <double (*function)(double)>
double apply(const double* args) {
  return function(args[0]);
}

constexpr double kRounded = 0.501;  // half a unit and a little: computed in f64 and rounded

// Sorted by name: docs/internals/vector-math.md holds the same bounds, tests/math and tests/expr enforce them.
constexpr std::array<ElementaryFunction, 26> kFunctions = {{
    {"acos", 1, apply<std::acos>, kRounded},
    {"acosh", 1, apply<std::acosh>, kRounded},
    {"asin", 1, apply<std::asin>, kRounded},
    {"asinh", 1, apply<std::asinh>, kRounded},
    {"atan", 1, apply<std::atan>, kRounded},
    {"atanh", 1, apply<std::atanh>, kRounded},
    {"cos", 1, apply<std::cos>, 2},
    {"cosh", 1, apply<std::cosh>, kRounded},
    {"erf", 1, apply<std::erf>, 4},
    {"exp", 1, apply<std::exp>, 2},
    {"expm1", 1, apply<std::expm1>, kRounded},
    {"fmod", 2, [](const double* x) { return std::fmod(x[0], x[1]); }, 0},
    {"log", 1, apply<std::log>, 1},
    {"pow", 2, [](const double* x) { return std::pow(x[0], x[1]); }, kRounded},
    {"sigmoid", 1, apply<sigmoid>, 3},
    {"sin", 1, apply<std::sin>, 2},
    {"sinh", 1, apply<std::sinh>, kRounded},
    {"softplus", 1, apply<softplus>, 3},
    {"sqrt", 1, apply<std::sqrt>, 0.5},
    {"tan", 1, apply<std::tan>, kRounded},
    {"tanh", 1, apply<std::tanh>, 4},
    {kPhilox, 7, philox_word, 0},
    {kRough, 1, [](const double* x) { return x[0]; }, 0},
    // PTX ISA 9.0: ex2.approx.ftz, div.full, rcp.approx.ftz. Of the first and the last subnormals are zeros.
    {"exp2_approx", 1, apply<std::exp2>, 2},
    {"quotient_approx", 2, [](const double* x) { return x[0] / x[1]; }, 2},
    {"reciprocal_approx", 1, [](const double* x) { return 1 / x[0]; }, 1},
}};

}  // namespace

std::span<const ElementaryFunction> elementary_functions() { return std::span(kFunctions).first(21); }

const ElementaryFunction* find_elementary(std::string_view name) {
  const auto* it = std::ranges::find(kFunctions, name, &ElementaryFunction::name);
  return it != kFunctions.end() ? it : nullptr;
}

}  // namespace tw
