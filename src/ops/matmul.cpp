// matmul(a, b) by numpy's rules: y[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]; batch axes are broadcast, a
// one-dimensional operand is a row (a) or a column (b) whose axis of extent 1 is dropped from y. Numbers of one type;
// f16 and bf16 are accumulated in f32, integers in their own type. Attribute operands: "tf32" (ops/common.h) or absent.
//
// matmul_integer(a, b, [a_zero_point], [b_zero_point]): the same of a - a_zero_point and b - b_zero_point in i32, of u8
// or i8 inputs; zero points are scalars or one-element tensors, a's also one for each row and b's one for each column.
//
// matmul_words(a, b): attribute words (ops/words.h): y[.., m, n] = sum over k of the product of the words a[.., m, k]
// and b[.., k, n], in i32 or f32.
#include "ops/families.h"
#include "ops/ref_product.h"
#include "ops/words.h"

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
  require_same_type(call, 0, 1);
  require(call, !call.inputs[0].type.is_bool(), "the inputs are bool, expected numbers");
  return {{call.inputs[0].type, matmul_of(call).out_shape()}};
}

// The plain sum of products of the two operands (their own shapes).
te::Tensor te_product(te::Builder& builder, const std::string& name, const MatMul& mm, const Tensors& operands,
                      const MultiplyFn& product) {
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
  const te::Tensor sum =
      te_product(builder, tensor_name(call, direct ? "" : "acc"), matmul_of(call), inputs, product_of(call));
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

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const MatMul mm = matmul_of(call);
  if (y.is_float()) {
    std::vector<double> rounded[2];
    multiply_batches(mm, multiplied(call, inputs[0], rounded[0]), multiplied(call, inputs[1], rounded[1]), y.floats);
  } else {
    multiply_batches(mm, inputs[0].ints, inputs[1].ints, y.ints);
    y.round_to_type();
  }
}

// ---- Integers of 8 bits.

Types infer_integer(const OpCall& call) {
  const MatMul mm = matmul_of(call);
  for (size_t k : {0, 1}) {
    require_byte(call, k);
    if (!call.has(2 + k)) continue;
    require_same_type(call, k, 2 + k);
    const TensorType& zero = call.inputs[2 + k];
    const bool each = zero.shape == Shape{k == 0 ? mm.m : mm.n} && !(k == 0 ? mm.row : mm.column);
    require(call, each || (zero.elements() == 1 && zero.shape.size() <= 1), "the zero point {} does not fit {}",
            to_string(zero), to_string(call.inputs[k]));
  }
  return {{DataType::i32(), mm.out_shape()}};
}

Tensors te_integer(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor a = less_zero_point(call, builder, inputs, 0, std::max<size_t>(2, inputs[0].shape.size()) - 2);
  const te::Tensor b = less_zero_point(call, builder, inputs, 1, inputs[1].shape.size() - 1);
  return {te_product(builder, tensor_name(call), matmul_of(call), {a, b},
                     [](const Expr& x, const Expr& y) { return x * y; })};
}

void ref_integer(const OpCall& call, Refs inputs, RefTensor& y) {
  const MatMul mm = matmul_of(call);
  std::vector<int64_t> operands[2] = {inputs[0].ints, inputs[1].ints};
  for (size_t k : {0, 1}) {
    if (!call.has(2 + k)) continue;
    const std::vector<int64_t>& zero = inputs[2 + k].ints;
    for (size_t i = 0; i < operands[k].size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t along = k == 0 ? at / mm.k % mm.m : at % mm.n;
      operands[k][i] -= zero[zero.size() == 1 ? 0 : static_cast<size_t>(along)];
    }
  }
  multiply_batches(mm, operands[0], operands[1], y.ints);
  y.round_to_type();
}

// ---- Words.

Types infer_words(const OpCall& call) {
  require_words(call, 0);
  require_words(call, 1);
  return {{sum_type(word_format(call)), matmul_of(call).out_shape()}};
}

Tensors te_words(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  return {te_product(builder, tensor_name(call), matmul_of(call), inputs, product_of_words(call))};
}

std::vector<RefTensor> ref_words(const OpCall& call, Refs inputs) {
  MatMul mm = matmul_of(call);
  const WordFormat format = word_format(call);
  const std::vector<double> a = unpacked(inputs[0].ints, 1, format, WordSide::kLeft);
  const std::vector<double> b = unpacked(inputs[1].ints, mm.n, format, WordSide::kRight);
  mm.k *= numbers_of(format);
  std::vector<double> sums(static_cast<size_t>(num_elements(mm.out_shape())));
  multiply_batches(mm, a, b, sums);
  return {of_sums(infer_words(call)[0], std::move(sums))};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {
      {"matmul", OpClass::kContraction, infer, te_matmul, filled<infer, reference>, {2, 2}},
      {"matmul_integer", OpClass::kContraction, infer_integer, te_integer, filled<infer_integer, ref_integer>, {2, 4}},
      {"matmul_words", OpClass::kContraction, infer_words, te_words, ref_words, {2, 2}}};
}

}  // namespace tw::ops
