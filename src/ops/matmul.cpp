// matmul(a, b) by numpy's rules: y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]; batch axes are broadcast, a
// one-dimensional operand is a row (a) or a column (b) whose axis of extent 1 is dropped from y. Numbers of one type;
// f16 and bf16 are accumulated in f32, integers in their own type. No attributes.
//
// Integers of 8 bits with zero points are summed in i32 by pairs (expr/pair_product.h):
// pack_pairs(x, [zero_point]) of u8 or i8, attribute `axis` (one of the last two, the axis that will be summed): words
// of x - zero_point of two neighbours along the axis, 0 beyond its end; a zero point is a scalar, a one-element tensor,
// or one number for each element of the other one of the last two axes. matmul_pairs(a, b) of such words: y[.., m, n] =
// sum over k of low(a) low(b) + high(a) high(b), by the rules of matmul.
#include "expr/pair_product.h"
#include "ops/common.h"
#include "ops/families.h"
#include "ops/ref_product.h"
#include "support/math.h"

namespace tw::ops {
namespace {

struct MatMul {
  Shape a, b;   // with at least two dimensions
  Shape batch;  // of y
  int64_t m, n, k;
  bool row, column;  // a or b has one dimension
  Shape out_shape() const {
    Shape shape = batch;
    if (!row) shape.push_back(m);
    if (!column) shape.push_back(n);
    return shape;
  }
};

MatMul matmul_of(const OpCall& call) {
  MatMul mm{call.inputs[0].shape, call.inputs[1].shape, {}, 0, 0, 0, false, false};
  require(call, !mm.a.empty() && !mm.b.empty(), "an operand of {} x {} is a scalar", to_string(call.inputs[0]),
          to_string(call.inputs[1]));
  mm.row = mm.a.size() == 1;
  mm.column = mm.b.size() == 1;
  if (mm.row) mm.a.insert(mm.a.begin(), 1);
  if (mm.column) mm.b.push_back(1);
  mm.m = mm.a[mm.a.size() - 2];
  mm.k = mm.a.back();
  mm.n = mm.b.back();
  const bool fits =
      broadcast_shapes(Shape(mm.a.begin(), mm.a.end() - 2), Shape(mm.b.begin(), mm.b.end() - 2), &mm.batch);
  require(call, fits && mm.b[mm.b.size() - 2] == mm.k, "{} and {} do not multiply", to_string(call.inputs[0]),
          to_string(call.inputs[1]));
  return mm;
}

Types infer(const OpCall& call) {
  require_inputs(call, 2, 2);
  require_same_type(call, 0, 1);
  require(call, !call.inputs[0].type.is_bool(), "the inputs are bool, expected numbers");
  return {{call.inputs[0].type, matmul_of(call).out_shape()}};
}

// The plain sum of products of the two operands (their own shapes).
te::Tensor te_product(te::Builder& builder, const std::string& name, const MatMul& mm, const Tensors& operands,
                      Expr (*product)(const Expr& a, const Expr& b)) {
  const te::Tensor& a = operands[0];
  const te::Tensor& b = operands[1];
  return builder.reduce(name, mm.out_shape(), {mm.k}, te::CombinerKind::kSum, [&](const Exprs& i, const Exprs& r) {
    const Exprs batch(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(mm.batch.size()));
    Exprs at_a, at_b;
    if (!mm.row) {
      at_a = broadcast_indices(batch, Shape(mm.a.begin(), mm.a.end() - 2));
      at_a.push_back(i[batch.size()]);
    }
    at_a.push_back(r[0]);
    if (!mm.column) at_b = broadcast_indices(batch, Shape(mm.b.begin(), mm.b.end() - 2));
    at_b.push_back(r[0]);
    if (!mm.column) at_b.push_back(i.back());
    return product(read(a, at_a), read(b, at_b));
  });
}

Tensors te_matmul(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const DataType type = inputs[0].type;
  const bool direct = math_type(type) == type;
  const te::Tensor sum = te_product(builder, tensor_name(call, direct ? "" : "acc"), matmul_of(call), inputs,
                                    [](const Expr& x, const Expr& y) { return x * y; });
  return {cast_output(call, builder, sum, type)};
}

// Rows of b added up, contiguous: with few rows of a, packing panels of b would cost more than it saves.
void multiply_few_rows(const MatMul& mm, const double* a, const double* b, double* c) {
  parallel_ranges(mm.n, mm.m * mm.k, [&](int64_t begin, int64_t end) {
    for (int64_t m = 0; m < mm.m; ++m) {
      for (int64_t k = 0; k < mm.k; ++k) {
        const double value = a[m * mm.k + k];
        const double* row = b + k * mm.n;
        for (int64_t n = begin; n < end; ++n) c[m * mm.n + n] += value * row[n];
      }
    }
  });
}

// c[m, n] = a[m, k] b[k, n], all row-major; c is zero before.
void multiply(const MatMul& mm, const double* a, const double* b, double* c) {
  if (mm.m < kPanel) return multiply_few_rows(mm, a, b, c);
  const int64_t panels = (mm.n + kPanel - 1) / kPanel;
  parallel_ranges(panels, kPanel * mm.m * mm.k, [&](int64_t begin, int64_t end) {
    std::vector<double> panel(mm.k * kPanel);
    std::vector<double> sums(mm.m * kPanel);
    for (int64_t first = begin * kPanel; first < end * kPanel && first < mm.n; first += kPanel) {
      const int64_t count = std::min<int64_t>(kPanel, mm.n - first);
      for (int64_t k = 0; k < mm.k; ++k) {
        for (int64_t j = 0; j < count; ++j) panel[k * kPanel + j] = b[k * mm.n + first + j];
      }
      multiply_panel(a, mm.m, mm.k, panel.data(), sums.data());
      for (int64_t m = 0; m < mm.m; ++m) {
        for (int64_t j = 0; j < count; ++j) c[m * mm.n + first + j] = sums[m * kPanel + j];
      }
    }
  });
}

void multiply(const MatMul& mm, const int64_t* a, const int64_t* b, int64_t* c) {
  for (int64_t m = 0; m < mm.m; ++m) {
    for (int64_t k = 0; k < mm.k; ++k) {
      const auto value = static_cast<uint64_t>(a[m * mm.k + k]);
      for (int64_t n = 0; n < mm.n; ++n) {
        c[m * mm.n + n] = static_cast<int64_t>(static_cast<uint64_t>(c[m * mm.n + n]) +
                                               value * static_cast<uint64_t>(b[k * mm.n + n]));
      }
    }
  }
}

template <typename T>
void multiply_batches(const MatMul& mm, const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& c) {
  const Shape batch_a(mm.a.begin(), mm.a.end() - 2), batch_b(mm.b.begin(), mm.b.end() - 2);
  const std::vector<int64_t> at_a = offsets(mm.batch, broadcast_strides(batch_a, mm.batch));
  const std::vector<int64_t> at_b = offsets(mm.batch, broadcast_strides(batch_b, mm.batch));
  for (int64_t i = 0; i < num_elements(mm.batch); ++i) {
    multiply(mm, a.data() + at_a[i] * mm.m * mm.k, b.data() + at_b[i] * mm.k * mm.n, c.data() + i * mm.m * mm.n);
  }
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  RefTensor y = RefTensor::zeros(infer(call)[0]);
  const MatMul mm = matmul_of(call);
  if (y.is_float()) {
    multiply_batches(mm, inputs[0].floats, inputs[1].floats, y.floats);
  } else {
    multiply_batches(mm, inputs[0].ints, inputs[1].ints, y.ints);
    y.round_to_type();
  }
  return {std::move(y)};
}

// ---- Pairs of integers.

size_t axis_of(const OpCall& call) { return static_cast<size_t>(call.node.int_attr("axis")); }

// The axis that zero points run along; the rank of x where it is a vector.
size_t zero_axis(const OpCall& call) {
  const size_t rank = call.inputs[0].shape.size();
  return rank < 2 ? rank : axis_of(call) == rank - 1 ? rank - 2 : rank - 1;
}

Types infer_pack(const OpCall& call) {
  require_inputs(call, 1, 2);
  const TensorType& x = call.inputs[0];
  const size_t rank = x.shape.size();
  require(call, x.type.is_int() && x.type.bits() == 8, "the input is {}, expected u8 or i8", to_string(x));
  require(call, rank > 0 && axis_of(call) < rank && axis_of(call) + 2 >= rank,
          "axis {} is not one of the last two of {}", axis_of(call), to_string(x));
  if (call.has(1)) {
    require_same_type(call, 0, 1);
    const TensorType& zero = call.inputs[1];
    const bool each = rank >= 2 && zero.shape == Shape{x.shape[zero_axis(call)]};
    require(call, each || (zero.elements() == 1 && zero.shape.size() <= 1), "the zero point {} does not fit {}",
            to_string(zero), to_string(x));
  }
  Shape shape = x.shape;
  shape[axis_of(call)] = ceil_div(shape[axis_of(call)], int64_t{2});
  return {{DataType::i32(), shape}};
}

Tensors te_pack(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const size_t axis = axis_of(call);
  const int64_t extent = x.shape[axis];
  return {builder.compute(tensor_name(call), infer_pack(call)[0].shape, [&](const Exprs& i) {
    const auto element = [&](const Expr& k) {
      Exprs at = i;
      at[axis] = k;
      const Expr value = cast(DataType::i32(), x(at));
      if (!call.has(1)) return value;
      Exprs zero_at;
      if (!inputs[1].shape.empty()) zero_at.push_back(inputs[1].shape[0] == 1 ? Expr(0) : i[zero_axis(call)]);
      return value - cast(DataType::i32(), inputs[1](zero_at));
    };
    const Expr second = i[axis] * 2 + 1;
    const Expr high = element(second);
    return pack_pair(element(i[axis] * 2),
                     extent % 2 == 0 ? high : select(second < extent, high, int_imm(0, DataType::i32())));
  })};
}

std::vector<RefTensor> ref_pack(const OpCall& call, Refs inputs) {
  RefTensor y = RefTensor::zeros(infer_pack(call)[0]);
  const Shape& shape = inputs[0].type.shape;
  const size_t axis = axis_of(call);
  const Shape strides = row_major_strides(shape), out_strides = row_major_strides(y.type.shape);
  for (size_t i = 0; i < inputs[0].ints.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    int64_t value = inputs[0].ints[i];
    if (call.has(1)) {
      const std::vector<int64_t>& zero = inputs[1].ints;
      const size_t along = zero_axis(call);
      value -= zero[zero.size() == 1 ? 0 : static_cast<size_t>(at / strides[along] % shape[along])];
    }
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t index = at / strides[d] % shape[d];
      place += (d == axis ? index / 2 : index) * out_strides[d];
    }
    const bool high = at / strides[axis] % shape[axis] % 2 == 1;
    // Modulo 2^32, as the halves are put together.
    y.ints[static_cast<size_t>(place)] += high ? value * 0x10000 : value & 0xffff;
  }
  y.round_to_type();
  return {std::move(y)};
}

Types infer_pairs(const OpCall& call) {
  require_inputs(call, 2, 2);
  for (const TensorType& x : call.inputs)
    require(call, x.type == DataType::i32(), "an input is {}, expected words in i32", to_string(x));
  return {{DataType::i32(), matmul_of(call).out_shape()}};
}

Tensors te_pairs(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  return {te_product(builder, tensor_name(call), matmul_of(call), inputs, pair_product)};
}

// Both halves of every word, neighbours along an axis after which `inner` elements follow.
std::vector<int64_t> halves(const std::vector<int64_t>& words, int64_t inner) {
  std::vector<int64_t> out(2 * words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto low = static_cast<size_t>(at / inner * 2 * inner + at % inner);
    const auto word = static_cast<uint32_t>(words[i]);
    out[low] = static_cast<int16_t>(word & 0xffff);
    out[low + static_cast<size_t>(inner)] = static_cast<int16_t>(word >> 16);
  }
  return out;
}

std::vector<RefTensor> ref_pairs(const OpCall& call, Refs inputs) {
  RefTensor y = RefTensor::zeros(infer_pairs(call)[0]);
  MatMul mm = matmul_of(call);
  const std::vector<int64_t> a = halves(inputs[0].ints, 1), b = halves(inputs[1].ints, mm.n);
  mm.k *= 2;
  multiply_batches(mm, a, b, y.ints);
  y.round_to_type();
  return {std::move(y)};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {{"matmul", OpClass::kContraction, infer, te_matmul, reference},
          {"matmul_pairs", OpClass::kContraction, infer_pairs, te_pairs, ref_pairs},
          {"pack_pairs", OpClass::kInjective, infer_pack, te_pack, ref_pack}};
}

}  // namespace tw::ops
