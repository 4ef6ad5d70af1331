// Evaluates an expression at many points: compiled once into a list of steps, each run over a block of points. Every
// step rounds exactly as its type does. Vectors are evaluated as any one of their lanes.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "expr/elementary.h"
#include "expr/expr.h"

namespace tw::testing {

class Tape {
 public:
  static constexpr size_t kBlock = 512;
  using Block = std::array<uint64_t, kBlock>;  // bits of the value in the low end; integers extended by their sign

  /// `inputs` are the names of the variables that eval fills.
  Tape(const Expr& e, const std::vector<std::string>& inputs) : inputs_(inputs) { result_ = compile(e); }

  size_t steps() const { return steps_.size(); }

  /// Moves what approximations give by their bounds: up, down, or (0) not at all.
  void err(int direction) { direction_ = direction; }

  /// points[i] holds the bits of input i; results are the bits of the value.
  void eval(const std::vector<Block>& points, Block* results) {
    slots_.resize(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) run(steps_[i], points, slots_[i]);
    *results = slots_[result_];
  }

 private:
  struct Step {
    const ExprNode* node;
    Expr keep;
    std::vector<size_t> args;
  };

  size_t compile(const Expr& e) {
    const auto it = slot_of_.find(&*e);
    if (it != slot_of_.end()) return it->second;
    Step step{&*e, e, {}};
    for (const Expr& x : e->args) step.args.push_back(compile(x));
    steps_.push_back(step);
    return slot_of_[&*e] = steps_.size() - 1;
  }

  static ScalarType scalar(const Expr& e) { return e.type().scalar(); }

  template <typename T>
  static T get(uint64_t bits) {
    if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
    if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
    if constexpr (std::is_integral_v<T>) return static_cast<T>(bits);
  }
  template <typename T>
  static uint64_t put(T x) {
    if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(x);
    if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(x);
    if constexpr (std::is_integral_v<T>) return static_cast<uint64_t>(static_cast<int64_t>(x));
  }

  template <typename F>
  static void fill(Block& out, F f) {
    for (size_t i = 0; i < kBlock; ++i) out[i] = f(i);
  }

  // Calls f with a value of the C++ type that holds `type`.
  template <typename F>
  static void with_type(ScalarType type, F f) {
    switch (type) {
      case ScalarType::kF32:
        return f(float{});
      case ScalarType::kF64:
        return f(double{});
      case ScalarType::kI32:
        return f(int32_t{});
      case ScalarType::kI64:
        return f(int64_t{});
      case ScalarType::kU64:
        return f(uint64_t{});
      case ScalarType::kU32:
        return f(uint32_t{});
      case ScalarType::kI16:
        return f(int16_t{});
      case ScalarType::kI8:
        return f(int8_t{});
      case ScalarType::kU8:
        return f(uint8_t{});
      case ScalarType::kBool:
        return f(bool{});
      default:
        return f(uint16_t{});  // u16, and f16 and bf16 as bits
    }
  }

  void run(const Step& s, const std::vector<Block>& points, Block& out) {
    const Expr& e = s.keep;
    switch (e.op()) {
      case Op::kIntImm:
        return fill(out, [&](size_t) { return static_cast<uint64_t>(e->value); });
      case Op::kFloatImm:
        return with_type(scalar(e), [&](auto t) {
          if constexpr (std::is_floating_point_v<decltype(t)>)
            fill(out, [&](size_t) { return put(static_cast<decltype(t)>(e->number)); });
        });
      case Op::kVar:
        for (size_t i = 0; i < inputs_.size(); ++i) {
          if (inputs_[i] == e->name) out = points[i];
        }
        return;
      case Op::kBroadcast:
        out = slots_[s.args[0]];
        return;
      case Op::kSelect: {
        const Block &c = slots_[s.args[0]], &a = slots_[s.args[1]], &b = slots_[s.args[2]];
        return fill(out, [&](size_t i) { return c[i] ? a[i] : b[i]; });
      }
      case Op::kBitcast:
        // Narrow integers are kept extended by their sign.
        return with_type(scalar(e), [&](auto t) {
          using T = decltype(t);
          const Block& a = slots_[s.args[0]];
          fill(out, [&](size_t i) { return put(get<T>(a[i])); });
        });
      case Op::kCast:
        return run_cast(s, out);
      case Op::kFma:
        return run_fma(s, out);
      default:
        return s.args.size() == 1 ? run_unary(s, out) : run_binary(s, out);
    }
  }

  void run_cast(const Step& s, Block& out) {
    const Block& a = slots_[s.args[0]];
    with_type(scalar(s.keep.arg(0)), [&](auto from) {
      with_type(scalar(s.keep), [&](auto to) {
        using From = decltype(from);
        using To = decltype(to);
        fill(out, [&](size_t i) { return put(static_cast<To>(get<From>(a[i]))); });
      });
    });
  }

  void run_fma(const Step& s, Block& out) {
    const Block &a = slots_[s.args[0]], &b = slots_[s.args[1]], &c = slots_[s.args[2]];
    with_type(scalar(s.keep), [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<T>) {
        fill(out, [&](size_t i) { return put(std::fma(get<T>(a[i]), get<T>(b[i]), get<T>(c[i]))); });
      }
    });
  }

  void run_unary(const Step& s, Block& out) {
    const Block& a = slots_[s.args[0]];
    const Op op = s.keep.op();
    if (op == Op::kCall && !is_instruction(s.keep->name)) throw std::runtime_error("a call is left: " + s.keep->name);
    with_type(scalar(s.keep), [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<T>) {
        const auto each = [&](auto f) { fill(out, [&](size_t i) { return put(f(get<T>(a[i]))); }); };
        switch (op) {
          case Op::kNeg:
            return each([](T x) { return -x; });
          case Op::kAbs:
            return each([](T x) { return std::fabs(x); });
          case Op::kFloor:
            return each([](T x) { return std::floor(x); });
          case Op::kRound:
            return each([](T x) { return std::nearbyint(x); });
          case Op::kCall:
            return each([&](T x) { return static_cast<T>(instruction(s.keep->name, {x, 0})); });
          default:
            throw std::runtime_error("unary " + to_string(s.keep));
        }
      }
      throw std::runtime_error("integer " + to_string(s.keep));
    });
  }

  double instruction(const std::string& name, std::array<double, 2> x) const {
    const double y = find_elementary(name)->reference(x.data());
    if (name == "sqrt" || !std::isfinite(y)) return y;
    return std::fabs(y) < 0x1p-126 ? 0
                                   : y + direction_ * std::ldexp(find_elementary(name)->max_ulp, -23) * std::fabs(y);
  }

  void run_binary(const Step& s, Block& out) {
    const Block &a = slots_[s.args[0]], &b = slots_[s.args[1]];
    const Op op = s.keep.op();
    with_type(scalar(s.keep.arg(0)), [&](auto t) {
      using T = decltype(t);
      const auto each = [&](auto f) { fill(out, [&](size_t i) { return f(get<T>(a[i]), get<T>(b[i])); }); };
      switch (op) {
        case Op::kEq:
          return each([](T x, T y) { return uint64_t{x == y}; });
        case Op::kNe:
          return each([](T x, T y) { return uint64_t{x != y}; });
        case Op::kLt:
          return each([](T x, T y) { return uint64_t{x < y}; });
        case Op::kLe:
          return each([](T x, T y) { return uint64_t{x <= y}; });
        default:
          break;
      }
      if constexpr (std::is_floating_point_v<T>) {
        switch (op) {
          case Op::kAdd:
            return each([](T x, T y) { return put(static_cast<T>(x + y)); });
          case Op::kSub:
            return each([](T x, T y) { return put(static_cast<T>(x - y)); });
          case Op::kMul:
            return each([](T x, T y) { return put(static_cast<T>(x * y)); });
          case Op::kDiv:
            return each([](T x, T y) { return put(static_cast<T>(x / y)); });
          case Op::kCall:
            return each([&](T x, T y) { return put(static_cast<T>(instruction(s.keep->name, {x, y}))); });
          case Op::kMin:
            return each([](T x, T y) { return put(x < y || x != x ? x : y); });
          case Op::kMax:
            return each([](T x, T y) { return put(x > y || x != x ? x : y); });
          default:
            break;
        }
      } else {
        const auto ints = [&](auto f) { fill(out, [&](size_t i) { return put(static_cast<T>(f(a[i], b[i]))); }); };
        switch (op) {
          case Op::kAdd:
            return ints([](uint64_t x, uint64_t y) { return x + y; });
          case Op::kSub:
            return ints([](uint64_t x, uint64_t y) { return x - y; });
          case Op::kMul:
            return ints([](uint64_t x, uint64_t y) { return x * y; });
          case Op::kAnd:
            return ints([](uint64_t x, uint64_t y) { return x & y; });
          case Op::kOr:
            return ints([](uint64_t x, uint64_t y) { return x | y; });
          case Op::kXor:
            return ints([](uint64_t x, uint64_t y) { return x ^ y; });
          case Op::kShiftLeft:
            return ints([](uint64_t x, uint64_t y) { return x << y; });
          case Op::kShiftRight:
            return ints([](uint64_t x, uint64_t y) {
              return std::is_signed_v<T> ? static_cast<uint64_t>(static_cast<int64_t>(x) >> y) : x >> y;
            });
          default:
            break;
        }
      }
      throw std::runtime_error("binary " + to_string(s.keep));
    });
  }

  int direction_ = 0;
  std::vector<std::string> inputs_;
  std::vector<Step> steps_;
  std::unordered_map<const ExprNode*, size_t> slot_of_;
  std::vector<Block> slots_;
  size_t result_ = 0;
};

}  // namespace tw::testing
