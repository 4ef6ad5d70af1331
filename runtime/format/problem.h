// What a kernel that is not of our own making computes, as data: a product of matrices or a convolution and what
// follows it, or attention. Compilers print it into plans and artefacts; libraries and templates are set up from it.
//
//   gemm         sum[b, i, j] = sum over l of a[b, i, l] * b[b, l, j]
//   convolution  sum[i, p.., j] = sum over r.., l of a[i, p * stride + r * dilation - pad.., l] * b[j, r.., l], zeros
//                around a; with groups, filter j reads those channels of a that are its group's
//   out = late_residual + activation(sum + bias[j] + residual): sums and what follows them in f32, rounded at the end
//   attention    s[b, h, i, t] = sum over l of a[b, h, i, l] * b[b, h, t, l]
//                out[b, h, i, j] = sum over t of softmax(scale * s + residual)[b, h, i, t] * values[b, h, t, j]
//                as above, but for the weights that softmax gives, which are rounded to the operands' type
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/format/data_type.h"

namespace tw::format {

/// A tensor by the name that the kernel's parameters have for it.
struct Operand {
  std::string name;  ///< empty: there is none
  DataType dtype = DataType::kF32;
  // a, b and out of a gemm and all operands of attention, stored row by row; in elements:
  int64_t line = 0;         ///< from one row as stored to the next
  int64_t matrix = 0;       ///< from one matrix of the batch to the next; 0: all are the same one
  bool transposed = false;  ///< the rows as stored are the columns of the formula
  int64_t head = 0;         ///< from one head of attention to the next
  int64_t first = 0;        ///< where attention's first element lies
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// Clip has a lower and an upper bound as parameters, leaky ReLU its slope below zero; GELU is by the error function.
/// Softmax, with its scale, is that of attention.
enum class Activation : uint8_t {
  kNone,
  kRelu,
  kClip,
  kLeakyRelu,
  kSigmoid,
  kTanh,
  kSilu,
  kGelu,
  kGeluTanh,
  kHardSwish,
  kSoftplus,
  kSoftmax
};

struct ProblemDescriptor {
  enum class Kind : uint8_t { kGemm, kConvolution, kAttention } kind = Kind::kGemm;
  /// Of a convolution: images, none, filters, all channels of a.
  int64_t batch = 0, m = 0, n = 0, k = 0, keys = 0;
  /// Of a convolution, whose tensors lie without gaps: a[batch, spatial.., k], b[n, window.., k / groups],
  /// out[batch, out_spatial.., n].
  int64_t groups = 0;  ///< of attention: heads
  std::vector<int64_t> spatial, window, strides, dilations;
  std::vector<int64_t> pads, pads_end;  ///< zeros before and after
  Operand a, b, values, out;
  Operand bias;                     ///< one number for each j
  Operand residual, late_residual;  ///< stored as `out` (attention: the mask): added before the activation, or after it
  bool tf32 = false;                ///< operands of f32 without their last 13 bits
  bool causal = false;              ///< of attention: row i has the keys up to i
  Activation activation = Activation::kNone;
  std::vector<double> parameters;  ///< of the activation

  std::vector<int64_t> out_spatial() const;
  /// Those that there are: a, b, bias, residual, late_residual, out.
  std::vector<const Operand*> operands() const;
  /// Elements from the first to the last one of an operand of this problem.
  int64_t span(const Operand& operand) const;
  friend bool operator==(const ProblemDescriptor&, const ProblemDescriptor&) = default;
};

/// One line: "gemm batch=1 m=8 n=4 k=2 a=x0:f16:2:0 b=x1:f16:4:0 out=y:f16:4:0 bias=x2:f32 act=clip:0:6". Operands are
/// name:type[:line:matrix[:t]], of attention name:type:line:matrix:head:first; numbers that are 0, lists and operands
/// that are empty are left out. "math=tf32" stands before the activation.
std::string to_string(const ProblemDescriptor& problem);
/// Inverse of to_string. Throws Error(kDamaged) for any other text, and for what is no problem: operands or extents
/// are missing, strides do not fit.
ProblemDescriptor parse_problem(std::string_view text);

/// Which library computes a problem, and by which of the ways that it offers.
struct LibraryCall {
  std::string library;    ///< "cublaslt", "cudnn"
  int64_t version = 0;    ///< that it was measured with: another one may offer other ways
  int64_t algorithm = 0;  ///< cublaslt: the place in its list, 0 being the best; cudnn: the number of an engine
  ProblemDescriptor problem;
  std::vector<std::pair<int64_t, int64_t>> knobs = {};  ///< settings of an engine of cudnn: type and value
  friend bool operator==(const LibraryCall&, const LibraryCall&) = default;
};

/// Why the library does not compute such a problem in one call, or has no such ways; empty: it may.
std::string why_declined(const LibraryCall& call);

/// "cublaslt 130100 0 gemm batch=..", "cudnn 91900 34,2=5,14=3 convolution batch=..".
std::string to_string(const LibraryCall& call);
/// Inverse of to_string; throws as parse_problem().
LibraryCall parse_library_call(std::string_view text);

}  // namespace tw::format
