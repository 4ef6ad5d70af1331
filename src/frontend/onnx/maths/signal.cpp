// Fourier transforms as products with matrices of cosines and sines.
#include <cmath>
#include <numbers>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

constexpr int64_t kMaxTransform = 4096;  // points; the matrices have its square

struct Complex {
  ValueId real, imaginary;  // imaginary may be kAbsent for real data
};

// scale(n) * cos or sin(2 pi n k / points), [rows n, columns k].
template <typename Scale>
ValueId wave(Emitter& e, DataType type, double (*function)(double), Shape shape, int64_t points, const Scale& scale) {
  graph::RefTensor matrix = graph::RefTensor::zeros({type, shape});
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t k = 0; k < shape[1]; ++k) {
      // The angle is reduced in integers: n * k grows far beyond a turn.
      const double angle = 2 * std::numbers::pi * static_cast<double>(n * k % points) / static_cast<double>(points);
      matrix.floats[n * shape[1] + k] = scale(n) * function(angle);
    }
  }
  matrix.round_to_type();
  return e.constant(matrix);
}

double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

struct Transform {
  int64_t points;  // N
  bool inverse, onesided;
};

// Along the last axis, which has `points` elements (or points / 2 + 1 of a one-sided inverse).
Complex transform(Emitter& e, const Complex& x, const Transform& t) {
  const DataType type = e.data_type(x.real);
  const int64_t rows = e.shape(x.real).back();
  const int64_t columns = t.onesided && !t.inverse ? t.points / 2 + 1 : t.points;
  const double norm = t.inverse ? 1.0 / static_cast<double>(t.points) : 1.0;
  // A one-sided spectrum stands for its mirror image, too: all but the first and the middle element count twice.
  const auto scale = [&](int64_t n) {
    return t.inverse && t.onesided && n != 0 && 2 * n != t.points ? 2 * norm : norm;
  };
  const ValueId cos = wave(e, type, cosine, {rows, columns}, t.points, scale);
  const ValueId sin = wave(e, type, sine, {rows, columns}, t.points, scale);
  const ValueId real_cos = e.matmul(x.real, cos);
  const ValueId real_sin = e.matmul(x.real, sin);
  if (x.imaginary == kAbsent) return {real_cos, t.inverse ? real_sin : e.op("neg", {real_sin})};
  const ValueId imaginary_cos = e.matmul(x.imaginary, cos);
  const ValueId imaginary_sin = e.matmul(x.imaginary, sin);
  if (t.inverse) return {e.sub(real_cos, imaginary_sin), e.add(imaginary_cos, real_sin)};
  return {e.add(real_cos, imaginary_sin), e.sub(imaginary_cos, real_sin)};
}

// Splits the last axis (1: real, 2: real and imaginary) off.
Complex split_complex(Emitter& e, ValueId x) {
  Shape shape = e.shape(x);
  if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2))
    throw UserError("the last axis must have 1 or 2 elements");
  const int64_t last = static_cast<int64_t>(shape.size()) - 1;
  if (!e.data_type(x).is_float()) throw UserError("the input is {}, it must be a float", to_string(e.data_type(x)));
  const bool complex = shape.back() == 2;
  shape.pop_back();
  const ValueId real = e.reshape(e.slice(x, last, 0, 1), shape);
  return {real, complex ? e.reshape(e.slice(x, last, 1, 1), shape) : kAbsent};
}

ValueId join_complex(Emitter& e, const Complex& x) {
  const int64_t last = e.rank(x.real);
  return e.concat({e.unsqueeze(x.real, last), e.unsqueeze(x.imaginary, last)}, last);
}

// The last axis cut or filled with zeros to `points`.
ValueId fit(Emitter& e, ValueId x, int64_t points) {
  const int64_t rank = static_cast<int64_t>(e.shape(x).size());
  std::vector<int64_t> pads(2 * rank, 0);
  pads.back() = points - e.shape(x).back();
  return e.pad(x, pads, "constant", int64_t{0});
}

void check_points(int64_t points) {
  if (points < 1) throw UserError("a transform of {} points", points);
  if (points > kMaxTransform)
    throw Unsupported("a transform of {} points; at most {} are supported", points, kMaxTransform);
}

Outputs convert_dft(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t rank = c.rank(0);
  int64_t axis = c.opset() < 20 ? c.int_or("axis", 1) : c.has(2) ? c.const_int(2, "axis") : -2;
  axis = normalize_axis(axis, rank);
  if (axis == rank - 1) throw UserError("the axis of real and imaginary parts cannot be transformed");
  Transform t{0, c.int_or("inverse", 0) != 0, c.int_or("onesided", 0) != 0};
  const int64_t extent = c.shape(0)[axis];
  const bool half = t.inverse && t.onesided;
  t.points = c.has(1) ? c.const_int(1, "dft_length") : half ? 2 * (extent - 1) : extent;
  check_points(t.points);
  std::vector<int64_t> perm = sequence(rank - 1);
  std::swap(perm[axis], perm.back());
  const auto prepared = [&](ValueId x) {
    return x == kAbsent ? x : fit(e, e.transpose(x, perm), half ? t.points / 2 + 1 : t.points);
  };
  Complex x = split_complex(e, c.input(0));
  if (t.onesided && !t.inverse && x.imaginary != kAbsent) throw UserError("a one-sided transform needs real input");
  const Complex y = transform(e, {prepared(x.real), prepared(x.imaginary)}, t);
  x = {e.transpose(y.real, perm), e.transpose(y.imaginary, perm)};
  return {half ? e.unsqueeze(x.real, e.rank(x.real)) : join_complex(e, x)};
}

// Frames of the signal, weighted by the window, each transformed.
Outputs convert_stft(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.rank(0) != 3 && c.rank(0) != 2) throw UserError("the signal must have shape (batch, length, 1 or 2)");
  const ValueId signal = c.rank(0) == 3 ? c.input(0) : e.reshape(c.input(0), {c.shape(0)[0], c.shape(0)[1], 1});
  const int64_t step = c.const_int(1, "frame_step");
  const int64_t length = c.has(3)   ? c.const_int(3, "frame_length")
                         : c.has(2) ? c.type(2).elements()
                                    : e.shape(signal)[1];
  check_points(length);
  if (step < 1 || length > e.shape(signal)[1])
    throw UserError("frames of {} with step {} in a signal of {}", length, step, e.shape(signal)[1]);
  const int64_t frames = (e.shape(signal)[1] - length) / step + 1;
  if (frames > kMaxFoldInputElements / length) throw Unsupported("{} frames of {} are not supported", frames, length);
  graph::RefTensor indices = graph::RefTensor::zeros({DataType::i64(), {frames, length}});
  for (int64_t i = 0; i < frames * length; ++i) indices.ints[i] = i / length * step + i % length;
  const ValueId positions = e.constant(indices);
  const auto framed = [&](ValueId x) {
    if (x == kAbsent) return x;
    const ValueId all = e.gather(x, positions, 1);  // [batch, frames, length]
    return c.has(2) ? e.mul(all, c.input(2)) : all;
  };
  const Complex x = split_complex(e, signal);
  const bool onesided = c.int_or("onesided", 1) != 0 && x.imaginary == kAbsent;
  return {join_complex(e, transform(e, {framed(x.real), framed(x.imaginary)}, {length, false, onesided}))};
}

}  // namespace

std::vector<ConverterRow> signal_rows() { return {{"DFT", 17, 0, convert_dft}, {"STFT", 17, 0, convert_stft}}; }

}  // namespace tw::frontend
