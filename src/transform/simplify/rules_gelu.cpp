// GELU however a model spells it: x * 1/2 * (1 + f(u)), its three factors multiplied in any order, with u the
// polynomial of x for f = erf, x / sqrt(2), or for f = tanh, sqrt(2 / pi) * (x + 0.044715 x^3). Sources: Hendrycks and
// Gimpel, Gaussian Error Linear Units, section 2.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>

#include "transform/rules.h"

namespace tw::transform {
namespace {

constexpr int kProductDepth = 3;     // multiplications between the factors
constexpr int kPolynomialDepth = 8;  // operators between x and f

using Polynomial = std::array<double, 4>;  // coefficients of 1, x, x^2, x^3

struct Gate {
  std::string_view gelu, function;
  Polynomial argument;
};

const double kTanhScale = std::sqrt(2 / std::numbers::pi);
const Gate kGates[] = {{"gelu", "erf", {0, 1 / std::numbers::sqrt2, 0, 0}},
                       {"gelu_tanh", "tanh", {0, kTanhScale, 0, 0.044715 * kTanhScale}}};

// Nothing beyond the third degree.
std::optional<Polynomial> product_of(const Polynomial& a, const Polynomial& b) {
  Polynomial out = {};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      const double term = a[i] * b[j];
      if (term != 0 && i + j >= out.size()) return std::nullopt;
      if (term != 0) out[i + j] += term;
    }
  }
  return out;
}

Polynomial sum_of(Polynomial a, const Polynomial& b, double factor) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
  return a;
}

// What is inside f as a polynomial of one of the values that it is made of.
class Argument {
 public:
  Argument(const Editor& editor, ValueId id) : editor_(editor), id_(id) { collect(id, kPolynomialDepth); }

  // The value x of which it is the polynomial `wanted`, with constants as exact as x has them; kAbsent: none.
  ValueId find(const Polynomial& wanted) const {
    for (const ValueId x : values_) {
      const std::optional<Polynomial> have = polynomial(id_, x, kPolynomialDepth);
      const auto is_as = [&](double a, double b) { return b == 0 ? a == 0 : is_about(a, b, editor_.type(x).type); };
      if (have && std::ranges::equal(*have, wanted, is_as)) return x;
    }
    return kAbsent;
  }

 private:
  void collect(ValueId id, int depth) {
    if (editor_.value(id).is_constant() || !values_.insert(id).second || depth == 0) return;
    const Node* node = editor_.producer(id);
    if (node == nullptr || node->is_group()) return;
    for (const std::string_view op : {"mul", "add", "sub", "div", "neg", "pow"}) {
      if (node->op != op) continue;
      for (const ValueId in : node->inputs) collect(in, depth - 1);
    }
  }

  std::optional<Polynomial> polynomial(ValueId id, ValueId x, int depth) const {
    if (id == x) return Polynomial{0, 1, 0, 0};
    if (const auto splat = splat_of(editor_.value(id))) return Polynomial{*splat, 0, 0, 0};
    const Node* node = editor_.producer(id);
    if (node == nullptr || node->is_group() || depth == 0) return std::nullopt;
    const auto operand = [&](size_t i) { return polynomial(node->inputs[i], x, depth - 1); };
    const auto number = [&](size_t i) { return splat_of(editor_.value(node->inputs[i])); };
    if (node->op == "neg") return scaled(operand(0), -1);
    if (node->op == "div") return number(1) ? scaled(operand(0), 1 / *number(1)) : std::nullopt;
    if (node->op == "pow") return number(1) ? power(operand(0), *number(1)) : std::nullopt;
    if (node->op != "mul" && node->op != "add" && node->op != "sub") return std::nullopt;
    const std::optional<Polynomial> a = operand(0), b = a ? operand(1) : std::nullopt;
    if (!a || !b) return std::nullopt;
    return node->op == "mul" ? product_of(*a, *b) : sum_of(*a, *b, node->op == "add" ? 1 : -1);
  }

  static std::optional<Polynomial> scaled(const std::optional<Polynomial>& a, double factor) {
    return a ? product_of(*a, {factor, 0, 0, 0}) : std::nullopt;
  }

  static std::optional<Polynomial> power(const std::optional<Polynomial>& a, double exponent) {
    if (exponent != 1 && exponent != 2 && exponent != 3) return std::nullopt;
    std::optional<Polynomial> out = Polynomial{1, 0, 0, 0};
    for (int k = 0; k < exponent && a && out; ++k) out = product_of(*out, *a);
    return a ? out : std::nullopt;
  }

  const Editor& editor_;
  ValueId id_;
  std::set<ValueId> values_;
};

// x where `id` is 1 + f(u) of x, kAbsent otherwise.
ValueId argument_of(const Editor& editor, const Gate& gate, ValueId id) {
  const Node* sum = editor.producer(id, "add");
  for (size_t k = 0; sum != nullptr && k < 2; ++k) {
    const Node* function = editor.producer(sum->inputs[k], gate.function);
    if (function == nullptr || splat_of(editor.value(sum->inputs[1 - k])) != 1.0) continue;
    return Argument(editor, function->inputs[0]).find(gate.argument);
  }
  return kAbsent;
}

// The factors of a product tree of multiplications; `stop` is one more factor that is not taken apart.
void collect_factors(const Editor& editor, ValueId id, int depth, ValueId stop, std::vector<ValueId>& factors) {
  const Node* node = depth == 0 || id == stop ? nullptr : editor.producer(id, "mul");
  if (node == nullptr) {
    factors.push_back(id);
    return;
  }
  for (const ValueId in : node->inputs) collect_factors(editor, in, depth - 1, stop, factors);
}

std::vector<ValueId> factors_of(const Editor& editor, ValueId id, ValueId stop = kAbsent) {
  std::vector<ValueId> factors;
  collect_factors(editor, id, kProductDepth, stop, factors);
  return factors;
}

// x when the product `id` is x / 2 * (1 + f(u)).
ValueId argument_of_product(const Editor& editor, const Gate& gate, ValueId id) {
  for (const ValueId factor : factors_of(editor, id)) {
    const ValueId x = argument_of(editor, gate, factor);
    if (x == kAbsent || editor.type(x) != editor.type(id)) continue;
    std::vector<ValueId> others = factors_of(editor, id, x);  // without taking x apart, which may be a product itself
    if (others.size() != 3 || std::erase(others, factor) != 1 || std::erase(others, x) != 1) continue;
    if (splat_of(editor.value(others[0])) == 0.5) return x;
  }
  return kAbsent;
}

bool match_gelu(Editor& editor, const Node& node) {
  for (const Gate& gate : kGates) {
    const ValueId x = argument_of_product(editor, gate, node.outputs[0]);
    if (x != kAbsent) return editor.replace(node.outputs[0], editor.emit(node, std::string(gate.gelu), {x}));
  }
  return false;
}

constexpr Rule kRules[] = {{"gelu", "mul", match_gelu}};

}  // namespace

std::span<const Rule> gelu_rules() { return kRules; }

}  // namespace tw::transform
