// The one pass that changes storage layouts (mechanism A3), and inlining. Both rewrite any operator: none is written
// twice for a layout.
#pragma once
#include <map>
#include <set>
#include <string>

#include "expr/analyzer.h"
#include "te/te.h"

namespace tw::te {

/// Values of the elements that a kPad or a kUnfold adds, by tensor name; 0 for tensors that are not named.
using PadFills = std::map<std::string, double>;

/// What becomes of the indices of a rewritten program. Composed ones are left to whoever knows more about the axes:
/// once an index modulo n is simple, axes that stand for parts of one number do not join to it again.
enum class Indices : uint8_t { kSimple, kComposed };

/// Rebuilds `program` so that every tensor named in `layouts` has its storage shape: loops of a producing compute run
/// over the new shape with the old axis variables replaced through the inverse sequence; every access goes through the
/// tensor's own sequence; reduction axes stay (split_reductions, te/merge_axes.h, divides them). Inputs named in
/// `layouts` become placeholders of their storage shape. Div and mod are simplified where possible; an element-wise
/// read between tensors of one layout becomes the identity. All outputs of one compute must have one layout. Computes
/// that nothing reads are left out.
///
/// Padding of a produced tensor. Element-wise: select(inside, body, fill). Reduction whose reads stay in bounds over
/// the padded domain: computed there without a guard, and when the tensor leaves the program a second compute
/// (reduction named NAME_raw) selects the fill. Any other reduction: its body is select(inside, body, neutral element),
/// followed by the second compute only when that does not give the fill already. So padding of outputs holds the fill;
/// padding of tensors that stay inside is never read, as every access goes through logical indices, and may hold
/// anything. `inside` states exactly the elements that no kPad or kUnfold added, also under unpad-then-pad sequences.
///
/// kStoreAt attaches one input to another: its reads become reads of the slice, and it is no input any more. It has the
/// storage shape of the other at that point, under its own layout, without the dim.
///
/// Windows. An index V * i + r, r in [0, M), of a kUnfold(k, B, S) reads tile i / w at V * (i mod w) + r, of
/// w = (B - M) / V + 1 windows; any S other than V * w is refused. A single point, whose tile need not be that of its
/// neighbour, is read in the first tile that has it.
/// Source: ALT, section on layout manipulation (mechanism A3). Errors: InternalError for unknown tensors, primitives
/// that do not fit.
Program apply_layouts(const Program& program, const std::map<std::string, Layout>& layouts, const PadFills& fills = {},
                      Indices indices = Indices::kSimple);

/// A program under the layouts that its tensors have so far.
struct Relaid {
  Program program;
  std::map<std::string, Layout> layouts;
  /// Each of `more` follows what its tensor has.
  void apply(const std::map<std::string, Layout>& more);
};

/// Indices into the storage of a tensor of shape `logical` under `layout` for the logical indices `indices`:
/// split gives e/(f2*..*fm), .., (e/fm) mod f(m-1), e mod fm; reorder permutes; fuse gives sum e_j * later sizes;
/// pad adds `before`, unpad subtracts it; unfold gives tile and place, fold tile * step + place. Not simplified.
/// `ranges` knows the variables of windows; without it all indices are points.
std::vector<Expr> storage_indices(const Layout& layout, const Shape& logical, std::vector<Expr> indices,
                                  const Analyzer* ranges = nullptr);
/// The inverse: logical indices, outside `logical` for what is padding, and whether the element is inside: not added by
/// a kPad or a kUnfold of the sequence.
struct LogicalPoint {
  std::vector<Expr> indices;
  Expr inside;
};
LogicalPoint logical_point(const Layout& layout, const Shape& logical, std::vector<Expr> indices);

/// Replaces reads of some computes by their bodies, in one compute after the other, producers first: the time of
/// inlining many is that of one pass.
class Inliner {
 public:
  /// `compute`, to which apply() came already, is replaced from now on; it has no reduction and one output.
  void add(const Compute& compute);
  /// `reader` without reads of them; a predicated read becomes select(predicate, body, 0).
  Compute apply(Compute reader) const;

 private:
  std::map<std::string, Compute> inlined_;
};

/// Inlines `tensors` into their readers and drops their computes, but for those that are outputs of the program.
Program inline_computes(const Program& program, const std::set<std::string>& tensors);

/// Drops what no output of the program needs: whole computes, and single outputs of those that have several and reduce
/// nothing. Returns the names of all tensors that are left to be read, or leave.
std::set<std::string> drop_unread(Program& program);

/// Of the tensors of `program` that are neither inputs nor outputs: the layout of an output of the same shape, else of
/// an input in `layouts`, unless it expands that, else the order of dims of an output with as many dims, so that loops
/// over both are the same loops. `layouts` are those of inputs and outputs; what is left out is in the identical order.
std::map<std::string, Layout> followed_layouts(const Program& program, const std::map<std::string, Layout>& layouts);

}  // namespace tw::te
