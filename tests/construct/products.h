// Products of matrices as matrix instructions multiply them.
#pragma once
#include "expr/tf32.h"
#include "te/te.h"

namespace tw::construct {

// As matrix instructions multiply it: f32 is rounded to tf32.
inline Expr multiplied(const Expr& x) { return x.type() == DataType::f32() ? to_tf32(x) : cast(DataType::f32(), x); }

// Of 16-bit floats or tf32: steps of matrix instructions, batched, B along its rows or along its columns.
inline te::Program halves(const Shape& x_shape, const Shape& w_shape, DataType type) {
  te::Builder b;
  const te::Tensor x = b.placeholder("x", type, x_shape);
  const te::Tensor w = b.placeholder("w", type, w_shape);
  const bool along = w_shape[1] == x_shape[2];
  const int64_t n = w_shape[along ? 2 : 1];
  const te::Tensor y = b.reduce("y", {x_shape[0], x_shape[1], n}, {x_shape[2]}, te::CombinerKind::kSum,
                                [&](const auto& i, const auto& r) {
                                  const Expr a = x({i[0], i[1], r[0]});
                                  const Expr c = along ? w({i[0], r[0], i[2]}) : w({i[0], i[2], r[0]});
                                  return multiplied(a) * multiplied(c);
                                });
  const te::Tensor z = b.compute("z", y.shape, [&](const auto& i) { return cast(type, y(i)); });
  return b.finish("halves", {z});
}

}  // namespace tw::construct
