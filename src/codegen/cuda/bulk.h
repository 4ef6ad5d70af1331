// The loops of a bulk copy as one instruction of TMA. Private to src/codegen/cuda.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/source.h"
#include "expr/analyzer.h"
#include "loop/loop.h"

namespace tw::codegen {

/// The pixels of a convolution's result that the lines of a copy belong to, in a row, images outermost; and which place
/// in their windows the copy reads.
struct Pixels {
  Expr first;  // number of the first one
  CudaWindows windows;
  std::vector<Expr> offsets;  // of the place, of each spatial dim, outermost first
  /// Where the first pixel's window begins: image, then each spatial dim.
  std::vector<Expr> start() const;
};

/// The pixels that the iterations of the loop `lines` read at `indices`, of a tensor [images, spatial.., channels], by
/// each loop that may count tiles of them; `condition` (may be null) bounds their number. Empty if they are none.
std::vector<Pixels> find_pixels(const std::vector<Expr>& indices, const loop::Stmt& lines, const Expr& condition,
                                const Analyzer& ranges);

/// A box of a tensor that goes to shared memory as a whole, zeros where it leaves the tensor (PTX ISA, "Tensors", tiled
/// mode), or as many pixels as its first extent says (im2col mode).
struct BulkCopy {
  std::string tensor;
  Shape shape;              // of the tensor: as it is declared, or with one image around it
  Shape box;                // of these dims, outermost first
  std::vector<Expr> start;  // of the box in the tensor; of pixels: of the window and the channel
  std::optional<Pixels> pixels;
  std::string buffer;
  std::vector<Expr> to;  // indices of the box's first element in `buffer`
};

/// The copy that `nest`, the outermost of its kBulk loops, is:
///   buffer[.., row, step] = tensor[.., i + row, j + step], or 0 where a condition keeps one of these in the tensor
/// Each loop moves along one dim of the tensor, by one element a turn, and along the same dims from the last one in the
/// buffer; or the first of two loops moves along pixels and the second along their channels. `params` are the tensors,
/// `around` knows the variables around it. Throws InternalError when it is none.
BulkCopy bulk_copy(const loop::Stmt& nest, const std::vector<loop::Buffer>& params, const Analyzer& around);

/// Leaves of `copy` one of `parts` equal parts of its outermost extent: the one whose number is `part`.
void take_part(BulkCopy& copy, int64_t parts, const Expr& part);

/// The outermost loops of all bulk copies under `stmts`.
std::vector<loop::Stmt> bulk_nests(const std::vector<loop::Stmt>& stmts);

}  // namespace tw::codegen
