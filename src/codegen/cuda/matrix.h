// The loops of a matrix step as one instruction of a warp. Private to src/codegen/cuda.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/threads.h"
#include "expr/analyzer.h"

namespace tw::codegen {

/// An operand of 16-bit floats in shared memory as ldmatrix brings it (PTX ISA): each lane names a row of eight
/// elements, those of one 8 x 8 matrix after the other.
struct MatrixRows {
  Expr row;                 // the load of a row's first element
  bool transposed = false;  // rows are steps
  int count = 2;            // matrices
};

/// D[16, 8] += A[16, 16] * B[16, 8] of 16-bit floats, summed in f32: what one lane holds of it, as the instruction
/// mma.m16n8k16 deals it out (PTX ISA, "Matrix fragments for mma.m16n8k16"). Of f32 rounded to tf32 it is two
/// instructions m16n8k8: which steps meet in one is free.
struct MatrixStep {
  DataType type;  // of A and B: f32 is rounded
  /// Loads of A, then of B, each list neighbours along the sum: pairs, of tf32 the four that two instructions take.
  std::vector<std::vector<Expr>> operands;
  std::optional<MatrixRows> a, b;  // where rows or steps are neighbours in the last dim
  std::string sums;
  std::array<std::vector<Expr>, 4> d;  // indices into `sums`
};

/// The step that `nest`, the outermost of three kMatrix loops (row half 2, column 2, step 16), is for the threads of
/// `group`, whose innermost loops are the rows of a half (8) and the pairs of columns (4):
///   sums[..] = fma(f32(A[.., row, .., step]), f32(B[.., column, .., step]), sums[..])
/// or, of f32, of to_tf32 of both (expr/tf32.h).
/// Throws InternalError when it is none.
MatrixStep matrix_step(const loop::Stmt& nest, const ThreadGroup& group, const Analyzer& ranges);

/// D[64, columns] += A[64, 16] * B[columns, 16]^T of 16-bit floats by a warp group, as wgmma.m64nNk16, or of f32
/// rounded to tf32, as two wgmma.m64nNk8, does it with A and B in shared memory: lines of 128 bytes, "128-byte swizzle"
/// (PTX ISA, "Asynchronous warpgroup-level matrix instructions"). Of 16-bit floats A may come from registers, as a
/// warp's instruction takes it, and lines may be steps: [block of 64 columns, step, column], [block of 64 rows, step,
/// row].
struct GroupStep {
  DataType type;  // of A and B: f32 is rounded
  int64_t columns = 8;
  Expr a, b;                                    // the loads of their first elements; `a` null where A has no such lines
  std::vector<std::vector<Expr>> held;          // then: its loads as in MatrixStep
  bool a_by_steps = false, b_by_steps = false;  // its lines are steps
  std::string sums;
  std::vector<std::vector<Expr>> d;  // indices into `sums` of what one lane holds, in the instruction's order
};

/// Whether `nest`, a kMatrix loop, is the step of a warp group: row half 2, one loop or more of column eighths, column
/// 2, step 16.
bool is_group_step(const loop::Stmt& nest);
/// The step that `nest` is for threads whose innermost loops are warps (4), rows of a half (8) and pairs of columns
/// (4). Throws InternalError when it is none.
GroupStep group_step(const loop::Stmt& nest, const ThreadGroup& group, const Analyzer& ranges);
/// All of them under `stmts`.
std::vector<loop::Stmt> group_steps(const std::vector<loop::Stmt>& stmts);

}  // namespace tw::codegen
