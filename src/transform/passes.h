// The graph passes; pipeline.cpp has them in order. Each returns a new graph and computes the same function.
#pragma once
#include "transform/pass.h"

namespace tw::transform {

/// Loops of few turns become their turns one after the other (loops/unroll.h).
graph::Graph unroll_loops(const graph::Graph& graph, const TransformContext& context);

/// On targets whose kernels read and write several elements at once, what loops read and write in each turn begins
/// where such an access may: rows have zeros at their ends.
graph::Graph align_rows(const graph::Graph& graph, const TransformContext& context);

/// Constants that a loop reads in every turn are constants of its body, stored as its kernels like them.
graph::Graph hold_constants(const graph::Graph& graph, const TransformContext& context);

/// Canonical forms: no-ops removed, chains of data movement merged, decomposed patterns as one operator
/// (canonicalize.cpp).
graph::Graph canonicalize(const graph::Graph& graph, const TransformContext& context);

/// Where context.dtype is f16 or bf16: weights and activations of f32 become values of that type, f32 where range or
/// whole numbers count; the graph's inputs and outputs keep their types. Sums and statistics are f32 as ever.
graph::Graph mixed_precision(const graph::Graph& graph, const TransformContext& context);

/// What moves dequantized numbers that are quantized again in the same way moves the numbers (quantize/linear.h).
graph::Graph move_quantized(const graph::Graph& graph, const TransformContext& context);

/// Products of dequantized bytes are integer products, scaled behind their sums. On CPUs.
graph::Graph narrow_products(const graph::Graph& graph, const TransformContext& context);

/// Quantizing by a constant scale multiplies by its inverse, unless precision is strict.
graph::Graph quantize_by_products(const graph::Graph& graph, const TransformContext& context);

/// Where the target sums quads of bytes: activations that products read are quantized to unsigned bytes.
graph::Graph unsigned_activations(const graph::Graph& graph, const TransformContext& context);

/// Contractions of 8-bit integers multiply words of neighbours along the summed axis: as many as the target sums in one
/// instruction. So do those of bf16, and where precision is fast matrix products of f32, if the target sums words of
/// bf16.
graph::Graph pack_dot_operands(const graph::Graph& graph, const TransformContext& context);

/// Nodes of constant inputs become constants, rounded to their type, unless that would blow up the data.
graph::Graph fold_constants(const graph::Graph& graph, const TransformContext& context);

/// Per-channel scales and shifts go into the constant weights before them; other batch norms become mul and add.
graph::Graph fold_batch_norm(const graph::Graph& graph, const TransformContext& context);

/// Numbers that what was only moved is multiplied by, before a product multiplies it, are factors of the product
/// instead, on targets where a kernel costs a launch: (a x) y = a (x y).
graph::Graph scale_products(const graph::Graph& graph, const TransformContext& context);

/// Element-wise operators between a reshape that splits batches of matrices and one that joins them again are operators
/// on joined batches, on targets where an operand may be read through a repetition.
graph::Graph join_batches(const graph::Graph& graph, const TransformContext& context);

/// Products of few rows with an operand that is repeated for several batches have their rows together and read it once.
graph::Graph join_rows(const graph::Graph& graph, const TransformContext& context);

/// Norms of rows come behind what moves whole rows of what contractions compute, on targets where a norm reads rows
/// wherever they are.
graph::Graph move_before_norms(const graph::Graph& graph, const TransformContext& context);

/// Sums along the rows of p times the gradient of p, where p multiplies v in o = p v, are sums along the rows of o
/// times the gradient of o.
graph::Graph move_row_dots(const graph::Graph& graph, const TransformContext& context);

/// Equal operators on equal inputs, and equal constants, are computed and kept once.
graph::Graph eliminate_common_subexpressions(const graph::Graph& graph, const TransformContext& context);

/// Adds the output graph::kErrorOutput where indices come at run time: nonzero when one is outside of [-n, n) of the
/// axis that it addresses.
graph::Graph check_indices(const graph::Graph& graph, const TransformContext& context);

/// An element of each row of a softmax that is read at a computed place is the sum of the row and zeros.
graph::Graph sum_picks(const graph::Graph& graph, const TransformContext& context);

/// Dropouts that drop the same elements read which ones from memory, in the variant that is measured; usually each
/// computes them.
graph::Graph store_masks(const graph::Graph& graph, const TransformContext& context);

/// Only what the outputs need remains.
graph::Graph eliminate_dead_code(const graph::Graph& graph, const TransformContext& context);

/// Transposed convolutions of constant weights become convolutions of stride 1, one for each phase of the stride, in
/// one operator that interleaves their results.
graph::Graph split_phases(const graph::Graph& graph, const TransformContext& context);

/// 3 x 3 convolutions of constant weights become Winograd convolutions where a closed-form cost predicts that they are
/// faster on the target. Not within the bounds of strict precision.
graph::Graph choose_algorithms(const graph::Graph& graph, const TransformContext& context);

/// Products of one activation with constant weights become one with all their columns, on targets where a kernel costs
/// a launch, if what read them can read columns of the whole by its own indices.
graph::Graph merge_products(const graph::Graph& graph, const TransformContext& context);

/// Strided convolutions of 16-bit floats over a few channels become those over more channels, pixels of a window, on
/// targets whose threads gather operands.
graph::Graph fold_strides(const graph::Graph& graph, const TransformContext& context);

/// Contractions of 16-bit floats sum over channels that fill whole accesses, with zeros added to them, on targets whose
/// threads gather operands and where a closed-form cost predicts that it is faster.
graph::Graph pad_channels(const graph::Graph& graph, const TransformContext& context);
/// Whether a group of what pad_channels() made writes zeros behind channels, and contracts nothing itself: its time is
/// that of the padding, with what is computed on the way.
bool makes_room(const graph::Node& group);

/// Where precision is fast and the target has matrix instructions of tf32: products and convolutions of f32 round their
/// operands to it, if they fill such instructions.
graph::Graph round_operands(const graph::Graph& graph, const TransformContext& context);

/// Transposes move through element-wise operators towards the outputs and cancel against their inverses.
graph::Graph compute_again(const graph::Graph& graph, const TransformContext& context);

graph::Graph sink_transposes(const graph::Graph& graph, const TransformContext& context);

/// Sets Value::layout of intermediate values, row-major or channels last, and inserts copies between the two (identity
/// transposes), by the least predicted time of the whole graph. Mechanism A4. Without it every value is row-major.
graph::Graph assign_layouts(const graph::Graph& graph, const TransformContext& context);

/// Sets Value::layout of contractions' results that are only transposed, where rows stay rows: the transpose is a view.
graph::Graph write_transposed(const graph::Graph& graph, const TransformContext& context);

/// On GPUs, selects by constant masks that are bands of a matrix become the operator band, and so do sums with masks of
/// zeros and -1e30 or less.
graph::Graph compute_masks(const graph::Graph& graph, const TransformContext& context);

/// Means and variances are sums of squares and of numbers, which one kernel can add.
graph::Graph part_statistics(const graph::Graph& graph, const TransformContext& context);

/// Values that several groups read, and that are a step or two (conversions, sums, products, ..) from one value of
/// their size that is stored, are computed by each of these groups.
graph::Graph compute_where_read(const graph::Graph& graph, const TransformContext& context);

/// Merges nodes into groups with one output each: contractions with their epilogues, rows, element-wise chains, and
/// data movement before them.
graph::Graph fuse(const graph::Graph& graph, const TransformContext& context);
/// By node of `graph`: the number of the group into which fuse() would put it, -1 for what stands alone whatever is
/// around it.
std::vector<int> grouping(const graph::Graph& graph, const TransformContext& context);

/// Contractions whose rows only one other contraction reads become one group with it, and with what lies between, where
/// computing them block by block saves more traffic than it repeats work: attention.
graph::Graph fuse_chains(const graph::Graph& graph, const TransformContext& context);

/// Reductions of a contraction's rows become part of its group where its tiles can combine the rows that they compute:
/// means over pixels or tokens. On GPU targets.
graph::Graph fuse_reductions(const graph::Graph& graph, const TransformContext& context);

/// Groups become one where a value that leaves the first, or that both read, need not be read again: element-wise
/// values at the points of the group's last output, statistics of its rows. On every target; groups of a contraction,
/// of rows, or of element-wise operators.
graph::Graph fuse_outputs(const graph::Graph& graph, const TransformContext& context);

/// So do groups that reduce rows and groups that sum columns of what these read or compute: one kernel takes the rows
/// of a part one after the other, and keeps the sums.
graph::Graph fuse_row_sums(const graph::Graph& graph, const TransformContext& context);

/// Groups that read a state come before the one that changes it, in its place, if only by a copy of its next value.
graph::Graph keep_states(const graph::Graph& graph, const TransformContext& context);

/// Values between groups are stored as `between` of the context says, with copies for the reads that it names.
graph::Graph reorder_values(const graph::Graph& graph, const TransformContext& context);

/// Every node that is no group yet becomes a group of one; every output of the graph is computed by a group.
graph::Graph partition(const graph::Graph& graph, const TransformContext& context);

}  // namespace tw::transform
