// The loops of a matrix step as one instruction of a warp. Private to src/codegen/cuda.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "codegen/cuda/threads.h"
#include "expr/analyzer.h"

namespace tw::codegen {

/// D[16, 8] += A[16, 16] * B[16, 8] of 16-bit floats, summed in f32: what one lane holds of it, as the instruction
/// mma.m16n8k16 deals it out (PTX ISA, "Matrix fragments for mma.m16n8k16").
struct MatrixStep {
  struct Pair {
    Expr low, high;  // two loads, neighbours along the sum
  };
  DataType type;  // of A and B
  std::array<Pair, 4> a;
  std::array<Pair, 2> b;
  std::string sums;
  std::array<std::vector<Expr>, 4> d;  // indices into `sums`
};

/// The step that `nest`, the outermost of three kMatrix loops (row half 2, column 2, step 16), is for the threads of
/// `group`, whose innermost loops are the rows of a half (8) and the pairs of columns (4):
///   sums[..] = fma(f32(A[.., row, .., step]), f32(B[.., column, .., step]), sums[..])
/// Throws InternalError when it is none.
MatrixStep matrix_step(const loop::Stmt& nest, const ThreadGroup& group, const Analyzer& ranges);

}  // namespace tw::codegen
