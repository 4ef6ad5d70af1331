// Element-wise operators of several inputs; what was broadcast is summed by the caller. Where max and min meet equal
// elements each side gets half. fmod's divisor gets -trunc(a / b). where and band choose for gradients as they do for
// values.
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

Terms mul(const GradientCall& g) {
  return {g.wants(0) ? g.dy() * g.x(1) : Term{}, g.wants(1) ? g.dy() * g.x(0) : Term{}};
}

Terms div(const GradientCall& g) {
  const Term scaled = g.dy() / g.x(1);
  return {scaled, g.wants(1) ? -(scaled * g.y()) : Term{}};
}

Terms fmod(const GradientCall& g) {
  const auto divisor = [&] { return -(g.dy() * emit("round", {(g.x(0) - g.y()) / g.x(1)})); };
  return {g.dy(), g.wants(1) ? divisor() : Term{}};
}

Terms extreme(const GradientCall& g) {
  const char* wins = g.node().op == "max" ? "greater" : "less";
  const Term half = where(emit("equal", {g.x(0), g.x(1)}), g.dy() * 0.5, 0);
  const auto side = [&](size_t k) {
    return g.wants(k) ? where(emit(wins, {g.x(k), g.x(1 - k)}), g.dy(), half) : Term{};
  };
  return {side(0), side(1)};
}

Terms prelu(const GradientCall& g) {
  const Term negative = compare("less_equal", g.x(0), 0);
  return {g.wants(0) ? where(negative, g.dy() * g.x(1), g.dy()) : Term{},
          g.wants(1) ? where(negative, g.dy() * g.x(0), 0) : Term{}};
}

// b a^(b - 1), 0 where b is 0; y log(a), 0 where a is 0.
Terms pow(const GradientCall& g) {
  const auto base = [&] {
    const Term b = cast(g.x(1), g.x(0).element());
    return where(compare("equal", b, 0), 0, g.dy() * b * emit("pow", {g.x(0), b - 1}));
  };
  const auto exponent = [&] {
    const Term a = g.x(0);
    const Term zero = compare("equal", a, 0);
    return cast(where(zero, 0, g.dy() * g.y() * emit("log", {where(zero, 1, a)})), g.x(1).element());
  };
  return {g.wants(0) ? base() : Term{}, g.wants(1) ? exponent() : Term{}};
}

Terms choose(const GradientCall& g) {
  return {Term{}, g.wants(1) ? where(g.x(0), g.dy(), 0) : Term{}, g.wants(2) ? where(g.x(0), 0, g.dy()) : Term{}};
}

Terms band(const GradientCall& g) {
  graph::Attrs attrs = g.node().attrs;
  attrs["fill"] = 0.0;
  return {emit("band", {g.dy()}, attrs)};
}

Terms pick(const GradientCall& g) {
  return {Term{}, sum_to(emit("pick", {g.x(0), g.dy()}, g.node().attrs), g.x(1).shape())};
}

// Between floats; an integer has no gradient, and what only it reaches gets none.
Terms cast_back(const GradientCall& g) { return {cast(g.dy(), g.x().element())}; }

constexpr std::string_view kNoFloat = "its result is no float";

}  // namespace

std::vector<GradientRow> binary_gradients() {
  using G = const GradientCall&;
  std::vector<GradientRow> rows = {
      by_rule("add",
              [](G g) {
                return Terms{g.dy(), g.dy()};
              }),
      by_rule("sub",
              [](G g) {
                return Terms{g.dy(), g.wants(1) ? -g.dy() : Term{}};
              }),
      by_rule("mul", mul),
      by_rule("div", div),
      by_rule("min", extreme),
      by_rule("max", extreme),
      by_rule("fmod", fmod),
      by_rule("prelu", prelu),
      by_rule("pow", pow),
      by_rule("where", choose),
      by_rule("band", band),
      by_rule("pick", pick),
      by_rule("cast", cast_back),
      is_refused("bitcast", "bits have no gradient"),
  };
  for (const std::string_view op : {"mod", "and", "or", "xor", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
                                    "shift_right", "equal", "less", "less_equal", "greater", "greater_equal"})
    rows.push_back(is_zero(op, kNoFloat));
  return rows;
}

}  // namespace tw::ops
