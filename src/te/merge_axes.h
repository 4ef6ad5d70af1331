// Axis fusion (Roller R5): adjacent axes that are adjacent in every tensor, or absent from it, become one.
#pragma once
#include <map>
#include <string>

#include "te/te.h"

namespace tw::te {

/// Fuse primitives for every tensor of `program` (inputs, intermediates, outputs) under which no compute needs div or
/// mod: dims of extent 1 disappear, and dims d and d+1 of a tensor are fused when every read and its producer index
/// them by two adjacent axes of the output, or of the reduction, that are fused as well; before that, axes that a
/// reduction divides are split (te/split_axes.cpp). Of a program of one row the row keeps an axis of extent 1. Tensors
/// with nothing to fuse or split are left out. No bytes move.
std::map<std::string, Layout> mergeable_axes(const Program& program);

/// Reductions of one tensor alone run over its dims in the order in which it is stored, so that those beside each other
/// can become one. What is combined in another order is the same but for rounding.
Program order_reductions(const Program& program);

/// The program in which two neighbouring reduction axes that every index holds as a * E + b, E the extent of b, are
/// one: sums over planes whose axes `mergeable_axes` has fused.
Program merge_reductions(const Program& program);

/// The program without reduction axes of extent 1 (the variable becomes 0); a reduction keeps at least one axis.
Program drop_unit_reductions(const Program& program);

/// Reads of one-element tensors named in `scalars` become immediates; the inputs disappear.
Program bind_scalars(const Program& program, const std::map<std::string, double>& scalars);

// The opposite of merging axes: an axis that a sum takes apart by division (the channels of a grouped convolution, the
// heads of grouped attention) becomes two, so that every index is linear again.

/// Split primitives for tensors of `program`: where a reduction divides one of its axes by a constant that divides the
/// extent, that dim of its output becomes [extent / constant, constant], and so does every dim that is read or written
/// along that axis. Splitting never moves bytes. Empty when nothing is divided, or when parts of a dim do not nest.
std::map<std::string, Layout> divided_axes(const Program& program);

/// The program in which a reduction axis that indices divide, as the channels of a blocked operand, is several, one for
/// each block: r / 16 and r % 16 become axes. Blocks of several sizes divide one another, or the axis stays. Where they
/// do not divide its extent, what is behind it is combined as the neutral element.
Program split_reductions(const Program& program);

}  // namespace tw::te
