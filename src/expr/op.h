// The operations of expressions; expr.h says what each means.
#pragma once
#include <cstdint>

namespace tw {

enum class Op : uint8_t {
  kIntImm,
  kFloatImm,
  kVar,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kFloorMod,
  kMin,
  kMax,
  kFma,
  kNeg,
  kAbs,
  kFloor,
  kCeil,
  kRound /* ties to even */,
  kTrunc,
  kAnd,
  kOr,
  kXor,
  kNot,
  kShiftLeft,
  kShiftRight,
  kEq,
  kNe,
  kLt,
  kLe,
  kSelect,     // condition, then, else
  kCast,       // value
  kBitcast,    // same width
  kCall,       // elementary function `name`: see elementary.h
  kLoad,       // element of tensor or buffer `name` at args[0..rank)
  kRamp,       // vector: args[0] + args[1] * lane (both scalar)
  kBroadcast,  // vector: every lane is args[0]
  kReduceAdd,
  kReduceMin,
  kReduceMax,
  kReduceMul,
  kReduceAnd,
  kReduceOr,  // over all lanes, to a scalar
  kExtract,   // lane `value` of args[0]
};

inline bool is_lane_reduction(Op op) { return op >= Op::kReduceAdd && op <= Op::kReduceOr; }

}  // namespace tw
