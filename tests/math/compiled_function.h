// A function of one or two floats on its ordinary way to machine code: te program, the target's schedule families,
// loop passes, code generation; vectors with a scalar tail.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/data_type.h"

namespace tw::testing {

/// Operands of one point as bits of the type, in the low end.
struct Point {
  uint32_t x = 0;
  uint32_t y = 0;
};

class CompiledFunction {
 public:
  /// `name` is an elementary function of expr/elementary.h or a unary operator of the graph.
  CompiledFunction(const std::string& name, DataType type, const std::string& target);
  ~CompiledFunction();
  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;

  /// Whether this machine runs code of `target`.
  static bool runs_here(const std::string& target);

  /// Bits of the value at each point.
  std::vector<uint32_t> operator()(const std::vector<Point>& points) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::testing
