// Turns elementary functions and conversions of narrow floats into plain arithmetic, so that generated code calls no
// library. Everything is branch-free and works on vectors.
#pragma once
#include "expr/share.h"

namespace tw {

/// An expression without kCall except `sqrt` of f32 and f64 (a hardware instruction). f32 within the bounds of
/// elementary.h (docs/internals/vector-math.md); f64 within 8 ULP, fmod exact; f16 and bf16 computed in f32 and
/// rounded. NaN, infinities, signed zeros and subnormals as C's functions give them. Without `share` the result is a
/// graph whose nodes are shared: its size as a tree may be a thousand times as large.
Expr expand_elementary(const Expr& e, const Share& share = {}, const Usual& usual = {});

/// The same for values that are rounded to 16 bits: over the approximations of elementary.h, quotients too, with an
/// error below 0.4 of half a unit in the last place of f16. So has 1 + erf(x), and x / 2 of it.
Expr expand_approximate(const Expr& e, const Share& share = {}, const Usual& usual = {});

/// Which instructions beyond the basic arithmetic a target has.
struct Instructions {
  bool fma = true;              // kFma
  bool rounding = true;         // kFloor, kCeil, kRound, kTrunc
  bool halves = false;          // kCast between f32 and f16, bf16
  bool approximations = false;  // those of elementary.h
};

/// An expression without kCast from or to f16 and bf16 (but for f16 and bf16 loads, arithmetic and bitcasts to u16,
/// which stay, and for the casts that `has` names): integer arithmetic, rounding to nearest even once, exact for
/// subnormals, infinities; NaN stays NaN.
Expr expand_conversions(const Expr& e, const Instructions& has = {}, const Share& share = {});

// ---- Operations that a target has no instruction for, as arithmetic that every target has.
/// kFma as a product and a sum, each rounded: a * b + c.
Expr split_fma(const Expr& e, const Share& share = {});

/// An expression without the operations that `has` lacks. kFma of f32: through f64, where the product is exact (two
/// roundings, the first one to 53 bits). kFma of f64 stays: its arithmetic uses each operand many times, so that code
/// generation makes it. Roundings to integers: exact, signed zeros, infinities and NaN as the operations have them.
Expr expand_missing(const Expr& e, const Instructions& has, const Share& share = {});

}  // namespace tw
