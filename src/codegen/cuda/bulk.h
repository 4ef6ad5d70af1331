// The loops of a bulk copy as one instruction of the copy engine. Private to src/codegen/cuda.
#pragma once
#include <string>
#include <vector>

#include "expr/analyzer.h"
#include "loop/loop.h"

namespace tw::codegen {

/// A box of a tensor that goes to shared memory as a whole, zeros where it leaves the tensor (PTX ISA, "Tensors", tiled
/// mode).
struct BulkCopy {
  std::string tensor;
  Shape box;                // of the tensor's dims, outermost first
  std::vector<Expr> start;  // of the box in the tensor
  std::string buffer;
  std::vector<Expr> to;  // indices of the box's first element in `buffer`
};

/// The copy that `nest`, the outermost of its kBulk loops, is:
///   buffer[.., row, step] = tensor[.., i + row, j + step], or 0 where a condition keeps one of these in the tensor
/// Each loop moves along one dim of the tensor, by one element a turn, and along the same dims from the last one in the
/// buffer. `params` are the tensors. Throws InternalError when it is none.
BulkCopy bulk_copy(const loop::Stmt& nest, const std::vector<loop::Buffer>& params, const Analyzer& ranges);

/// Leaves of `copy` one of `parts` equal parts of its outermost extent: the one whose number is `part`.
void take_part(BulkCopy& copy, int64_t parts, const Expr& part);

/// The outermost loops of all bulk copies under `stmts`.
std::vector<loop::Stmt> bulk_nests(const std::vector<loop::Stmt>& stmts);

}  // namespace tw::codegen
