// What the tables of operators (unary.cpp, binary.cpp, reduce.cpp) share.
#pragma once
#include <algorithm>

#include "ops/common.h"

namespace tw::ops {

/// The types that an operator takes.
enum class Domain : uint8_t { kFloat, kNumber, kInteger, kBool, kAny };
enum class Gives : uint8_t { kSame, kBool };

inline bool accepts(Domain domain, DataType type) {
  if (domain == Domain::kFloat) return type.is_float();
  if (domain == Domain::kInteger) return type.is_int();
  return domain == Domain::kAny || type.is_bool() == (domain == Domain::kBool);
}

/// The call's row in a table of rows with names.
template <typename Rows>
const auto& row_in(const Rows& rows, const OpCall& call) {
  const auto* row = std::ranges::find(rows, call.node.op, [](const auto& r) { return r.name; });
  TW_CHECK(row != std::end(rows), "'{}' is not in its operator's table", call.node.op);
  return *row;
}

inline Expr lit(const Expr& x, double value) { return imm(x.type(), value); }

}  // namespace tw::ops
