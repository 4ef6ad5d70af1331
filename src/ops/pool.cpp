// Pooling over windows of the spatial axes of x [N, C, spatial..].
//
// op          attributes                                                                       types
// max_pool    kernel_shape, strides (ones), pads (zeros, [begin.., end..]), dilations (ones),  numbers
//             ceil_mode (0), outputs (1 or 2: with i64 indices into the whole input, the first of equal
//             elements), storage_order (0: row-major indices; 1: as if the spatial axes were column-major)
// avg_pool    the same but outputs and storage_order; count_include_pad (0): divides by the elements that exist, or
// with 1
//             by those that exist or are padding (never by those that only ceil_mode reaches)  float
// lp_pool     as avg_pool without count_include_pad, p (int, 2): (sum |x|^p)^(1/p)              float
// global_max_pool, global_avg_pool, global_lp_pool (p)  over all spatial axes, which stay with extent 1
#include <cmath>
#include <limits>

#include "ops/families.h"
#include "ops/reduce_te.h"
#include "ops/window.h"

namespace tw::ops {

Window pool_window(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  require(call, x.size() >= 3, "the input is {}, expected [N, C, spatial..]", to_string(call.inputs[0]));
  if (!call.node.op.starts_with("global_")) {
    const OutputSize size = call.node.int_attr_or("ceil_mode", 0) != 0 ? OutputSize::kCeil : OutputSize::kFloor;
    return window_of(call, call.node.ints_attr("kernel_shape"), size);
  }
  const Shape in(x.begin() + 2, x.end());
  const std::vector<int64_t> ones(in.size(), 1), zeros(in.size(), 0);
  for (int64_t extent : in) require(call, extent > 0, "the input {} has no elements", to_string(call.inputs[0]));
  return {in, in, ones, ones, ones, zeros, zeros};
}

namespace {

using te::CombinerKind;

enum class Kind : uint8_t { kMax, kAverage, kLp };

Kind kind_of(const OpCall& call) {
  const std::string& op = call.node.op;
  if (op.ends_with("max_pool")) return Kind::kMax;
  return op.ends_with("avg_pool") ? Kind::kAverage : Kind::kLp;
}

bool wants_indices(const OpCall& call) { return call.node.int_attr_or("outputs", 1) == 2; }
bool column_major(const OpCall& call) { return call.node.int_attr_or("storage_order", 0) != 0; }
bool counts_padding(const OpCall& call) { return call.node.int_attr_or("count_include_pad", 0) != 0; }

double order_of(const OpCall& call) {
  const int64_t p = call.node.int_attr_or("p", 2);
  require(call, p >= 1, "p is {}", p);
  return static_cast<double>(p);
}

Types infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  require(call, kind_of(call) == Kind::kMax ? !x.type.is_bool() : x.type.is_float(),
          "the input is {}, which this operator does not take", to_string(x));
  if (kind_of(call) == Kind::kLp) order_of(call);
  const Window window = pool_window(call);
  const Shape shape = joined(Shape{x.shape[0], x.shape[1]}, window.out);
  Types types{{x.type, shape}};
  if (wants_indices(call)) types.push_back({DataType::i64(), shape});
  return types;
}

// ---- te.

// Indices into the (padded) input for output indices i and window indices r.
Exprs window_indices(const Window& window, const Exprs& i, const Exprs& r, const std::vector<int64_t>& offset) {
  Exprs at{i[0], i[1]};
  for (size_t d = 0; d < window.rank(); ++d) at.push_back(window_index(window, d, i[2 + d], r[d], offset[d]));
  return at;
}

// Row-major indices into [N, C, spatial..] as indices whose first spatial axis runs fastest. (Of equal elements the
// first in row-major order is reported whatever the storage order, so the reduction works on row-major indices.)
te::Tensor te_column_major(const OpCall& call, te::Builder& builder, const te::Tensor& indices, const Window& window) {
  const int64_t area = num_elements(window.in);
  return builder.compute(tensor_name(call), indices.shape, [&](const Exprs& i) {
    const Expr flat = indices(i);
    Expr result = floor_div(flat, Expr(area)) * Expr(area);
    int64_t row_major = area, column_major = 1;
    for (size_t d = 0; d < window.rank(); column_major *= window.in[d++]) {
      row_major /= window.in[d];
      result = result + floor_mod(floor_div(flat, Expr(row_major)), Expr(window.in[d])) * Expr(column_major);
    }
    return result;
  });
}

Tensors te_max(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Window window = pool_window(call);
  const Types types = infer(call);
  const DataType math = math_type(inputs[0].type);
  std::vector<int64_t> offset;
  const te::Tensor x =
      pad_for_window(call, builder, inputs[0], window, te::identity_of(CombinerKind::kMax, inputs[0].type), &offset);
  if (!wants_indices(call)) {
    const te::Tensor largest = builder.reduce(
        tensor_name(call, math == x.type ? "" : "acc"), types[0].shape, window.kernel, CombinerKind::kMax,
        [&](const Exprs& i, const Exprs& r) { return read(x, window_indices(window, i, r, offset)); });
    return {cast_output(call, builder, largest, types[0].type)};
  }
  const Shape strides = row_major_strides(inputs[0].shape);
  const Tensors pair =
      builder.reduce_tuple({tensor_name(call, "max"), tensor_name(call, column_major(call) ? "row_major" : "")},
                           types[0].shape, window.kernel, extreme_index_combiner(math, Extreme::kMax, Tie::kFirst),
                           [&](const Exprs& i, const Exprs& r) -> Exprs {
                             const Exprs at = window_indices(window, i, r, offset);
                             Expr flat = i[0] * Expr(strides[0]) + i[1] * Expr(strides[1]);
                             Exprs exists;
                             for (size_t d = 0; d < window.rank(); ++d) {
                               const Expr position = at[2 + d] - Expr(offset[d]);
                               flat = flat + position * Expr(strides[2 + d]);
                               exists.push_back(inside(position, window.in[d], window.lowest(d), window.highest(d)));
                             }
                             // A padding element loses ties, also against real elements of -inf.
                             return {cast(math, x(at)), select(all_of(exists), flat, int_imm(INT64_MAX))};
                           });
  const te::Tensor indices = column_major(call) ? te_column_major(call, builder, pair[1], window) : pair[1];
  return {cast_output(call, builder, pair[0], types[0].type), indices};
}

// How many positions of the window at output position o lie in [low, high), along axis d.
Expr count_inside(const Window& window, size_t d, const Expr& o, int64_t low, int64_t high) {
  const int64_t kernel = window.kernel[d], dilation = window.dilations[d];
  const Expr start = o * Expr(window.strides[d]) - Expr(window.pad_begin[d]);
  const Expr first = max(Expr(0), floor_div(Expr(low + dilation - 1) - start, Expr(dilation)));
  const Expr end = min(Expr(kernel), floor_div(Expr(high + dilation - 1) - start, Expr(dilation)));
  return end - first;
}

Expr divisor(const OpCall& call, const Window& window, const Exprs& i, DataType type) {
  Expr varying = Expr(1);
  int64_t fixed = 1;
  for (size_t d = 0; d < window.rank(); ++d) {
    const int64_t low = counts_padding(call) ? -window.pad_begin[d] : 0;
    const int64_t high = window.in[d] + (counts_padding(call) ? window.pad_end[d] : 0);
    if (window.lowest(d) >= low && window.highest(d) < high) {
      fixed *= window.kernel[d];
    } else {
      varying = varying * count_inside(window, d, i[2 + d], low, high);
    }
  }
  if (varying.is_int(1)) return imm(type, static_cast<double>(fixed));
  return cast(type, varying * Expr(fixed));
}

Tensors te_sum(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Window window = pool_window(call);
  const TensorType out = infer(call)[0];
  const bool average = kind_of(call) == Kind::kAverage;
  const double p = average ? 1 : order_of(call);
  std::vector<int64_t> offset;
  const te::Tensor x = pad_for_window(call, builder, inputs[0], window, imm(inputs[0].type, 0), &offset);
  const te::Tensor sum = builder.reduce(
      tensor_name(call, "acc"), out.shape, window.kernel, CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
        const Expr value = read(x, window_indices(window, i, r, offset));
        if (average) return value;
        const Expr size = unary(Op::kAbs, value);
        return p == 1 ? size : p == 2 ? value * value : tw::call("pow", {size, imm(value.type(), p)});
      });
  return {builder.compute(tensor_name(call), out.shape, [&](const Exprs& i) {
    if (average) return cast(out.type, sum(i) / divisor(call, window, i, sum.type));
    const Expr root = p == 1   ? sum(i)
                      : p == 2 ? tw::call("sqrt", {sum(i)})
                               : tw::call("pow", {sum(i), imm(sum.type, 1 / p)});
    return cast(out.type, root);
  })};
}

Tensors te_pool(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  return kind_of(call) == Kind::kMax ? te_max(call, builder, inputs) : te_sum(call, builder, inputs);
}

// ---- Reference.

// Number of window elements an average divides by, at one output position.
int64_t count_of(const OpCall& call, const Window& window, const std::vector<int64_t>& position) {
  int64_t count = 1;
  for (size_t d = 0; d < window.rank(); ++d) {
    int64_t here = 0;
    for (int64_t k = 0; k < window.kernel[d]; ++k) {
      const int64_t p = position[d] * window.strides[d] - window.pad_begin[d] + k * window.dilations[d];
      const bool exists = p >= 0 && p < window.in[d];
      const bool padding = p >= -window.pad_begin[d] && p < window.in[d] + window.pad_end[d];
      here += exists || (padding && counts_padding(call)) ? 1 : 0;
    }
    count *= here;
  }
  return count;
}

// Offset in one channel of the largest element of a window; -1 if it holds padding only.
int64_t argmax_of(const RefTensor& x, int64_t base, const std::vector<int64_t>& window) {
  int64_t best = -1;
  for (int64_t offset : window) {
    if (offset < 0) continue;
    bool larger = best < 0;
    if (!larger && x.is_float()) {
      const double a = x.floats[base + best], b = x.floats[base + offset];
      larger = b > a || (std::isnan(b) && !std::isnan(a));
    } else if (!larger) {
      larger = x.ints[base + offset] > x.ints[base + best];
    }
    best = larger ? offset : best;
  }
  return best;
}

int64_t reported_index(const OpCall& call, const Window& window, int64_t base, int64_t offset) {
  if (!column_major(call)) return base + offset;
  int64_t index = 0, stride = num_elements(window.in);
  for (size_t d = window.rank(); d-- > 0; offset /= window.in[d]) {
    stride /= window.in[d];
    index += offset % window.in[d] * stride;
  }
  return base + index;
}

struct Cell {
  int64_t base;                         // offset of the channel in x
  int64_t out;                          // offset in y
  const std::vector<int64_t>& offsets;  // offsets in the channel, -1 in padding
};

void reduce_max(const OpCall& call, const Window& window, const RefTensor& x, const Cell& cell,
                std::vector<RefTensor>& y) {
  const int64_t best = argmax_of(x, cell.base, cell.offsets);
  if (x.is_float()) {
    y[0].floats[cell.out] = best < 0 ? -std::numeric_limits<double>::infinity() : x.floats[cell.base + best];
  } else {
    y[0].ints[cell.out] = best < 0 ? te::identity_of(CombinerKind::kMax, x.type.type)->value : x.ints[cell.base + best];
  }
  if (y.size() > 1) y[1].ints[cell.out] = best < 0 ? INT64_MAX : reported_index(call, window, cell.base, best);
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  const RefTensor& x = inputs[0];
  const Window window = pool_window(call);
  const Kind kind = kind_of(call);
  const double p = kind == Kind::kLp ? order_of(call) : 1;
  std::vector<RefTensor> y = mapped(infer(call), RefTensor::zeros);
  const int64_t area = num_elements(window.in), positions = num_elements(window.out);
  int64_t at = 0;
  for_each_index(window.out, [&](const std::vector<int64_t>& position) {
    const std::vector<int64_t> offsets = window_offsets(window, position);
    const auto count = static_cast<double>(count_of(call, window, position));
    for (int64_t channel = 0; channel < x.type.shape[0] * x.type.shape[1]; ++channel) {
      const Cell cell{channel * area, channel * positions + at, offsets};
      if (kind == Kind::kMax) {
        reduce_max(call, window, x, cell, y);
        continue;
      }
      double sum = 0;
      for (int64_t offset : offsets)
        sum += offset < 0               ? 0
               : kind == Kind::kAverage ? x.floats[cell.base + offset]
                                        : std::pow(std::fabs(x.floats[cell.base + offset]), p);
      y[0].floats[cell.out] = kind == Kind::kAverage ? sum / count : std::pow(sum, 1 / p);
    }
    ++at;
  });
  return y;
}

}  // namespace

std::vector<OpDef> pool_ops() {
  std::vector<OpDef> rows;
  for (std::string_view name :
       {"max_pool", "avg_pool", "lp_pool", "global_max_pool", "global_avg_pool", "global_lp_pool"}) {
    rows.push_back({name, OpClass::kReduction, infer, te_pool, reference});
  }
  return rows;
}

}  // namespace tw::ops
