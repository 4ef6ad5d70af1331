#include <algorithm>

#include "transform/passes.h"

namespace tw::transform {
namespace {

constexpr std::string_view kLeftOut[] = {kOff}, kLeftOutOrAlways[] = {kOff, kAlways}, kAlwaysToo[] = {kAlways},
                           kPadded[] = {kOff, kAlways, kPadToCacheLine},
                           kChains[] = {kProductsApart, kOperandsComputed};

const GraphPass kPasses[] = {
    {"unroll-loops", unroll_loops, "no loop is of a few turns", true},
    {"align-rows", align_rows, "what a loop reads and writes in a turn begins where accesses may", false},
    {"canonicalize", canonicalize, "no no-ops, no chains of reshapes or transposes", true},
    {"move-quantized", move_quantized, "nothing that only moves numbers dequantizes and quantizes them", true},
    {"narrow-products", narrow_products, "products of dequantized bytes are those of the bytes", true},
    {"fold-constants", fold_constants, "no cheap node has constant inputs only", true},
    {"hold-constants", hold_constants, "no loop reads a constant of the graph in every turn", true},
    {"fold-batch-norm", fold_batch_norm, "no batch norm follows a contraction of constant weights", true},
    {"scale-products", scale_products, "no operand of a product is a number times what was only moved", true},
    {"join-batches", join_batches, "no batches of matrices are split for an element-wise operator alone", true},
    {"join-rows", join_rows, "no product of few rows reads an operand that is repeated for its batches", true},
    {"move-before-norms", move_before_norms, "no norm of rows is followed by a copy of its rows alone", true},
    {"move-row-dots", move_row_dots, "no row of weights times their gradient is summed where their product is known",
     true},
    {"mixed-precision", mixed_precision, "contractions of f32 multiply numbers of the type that is asked for", false},
    {"part-statistics", part_statistics, "means and variances are two sums that one kernel can add", true},
    {"quantize-by-products", quantize_by_products, "no number is divided by a constant scale to be quantized", true},
    {"unsigned-activations", unsigned_activations, "no product of quads reads signed bytes that are quantized here",
     true},
    {"pack-dot-operands", pack_dot_operands, "contractions of narrow numbers multiply words of them", true},
    {"common-subexpressions", eliminate_common_subexpressions, "no two nodes compute the same", true},
    {"dead-code", eliminate_dead_code, "every node is needed", true},
    {"merge-products", merge_products, "products of one activation are one where their readers can share it", true,
     kLeftOutOrAlways},
    {"check-indices", check_indices, "every index that is read at run time is compared with its axis", false},
    {"sum-picks", sum_picks, "no row of a softmax is stored for one element of it", true},
    {"split-phases", split_phases, "transposed convolutions are convolutions by phases", true},
    {"choose-algorithms", choose_algorithms, "convolutions are Winograd's where that is predicted to be faster", true},
    {"fold-strides", fold_strides, "strides over few channels of 16-bit products are more channels", true, kLeftOut},
    {"pad-channels", pad_channels, "channels of 16-bit products fill whole accesses where that is faster", true,
     kPadded},
    {"round-operands", round_operands, "products of f32 multiply tf32 where that is allowed and faster", true},
    {"compute-again", compute_again, "no wide value between products of few columns is stored for several of them",
     true, kLeftOut},
    {"sink-transposes", sink_transposes, "no element-wise operator reads a transpose that could follow it", true},
    {"assign-layouts", assign_layouts, "values have the layouts of least predicted time", true},
    {"write-transposed", write_transposed, "no transpose copies the rows of a contraction's result", true},
    {"compute-masks", compute_masks, "no select reads a constant mask that is a band of a matrix", true},
    {"store-masks", store_masks, "dropouts share bits where one comes again, or that is faster", true, kAlwaysToo},
    {"compute-where-read", compute_where_read, "nothing is stored that is a step or two from what is stored already",
     true},
    {"fuse", fuse, "every group has one output", true},
    {"fuse-chains", fuse_chains, "rows of contractions are computed where they are read, where that is less traffic",
     true, kChains, "chain"},
    {"fuse-reductions", fuse_reductions, "rows are combined in the tiles that compute them, where that is faster", true,
     kLeftOutOrAlways, "reduced"},
    {"fuse-outputs", fuse_outputs, "values leave the groups whose kernels hold them, beside their last output", true,
     kLeftOut},
    {"fuse-row-sums", fuse_row_sums, "rows and sums of their columns are one kernel, where that is faster", true,
     kLeftOut},
    {"partition", partition, "every node is a group and every output is computed by one", false},
    {"keep-states", keep_states, "groups that read a state come before the one that changes it", false},
    {"reorder-values", reorder_values, "values between groups are stored as they were measured to be best", true},
};

const GraphPass& first_of_groups() { return *std::ranges::find(kPasses, "fuse", &GraphPass::name); }

const Pipeline<GraphPass> kGraphPipeline{kPasses, "graph pass", "import"};

}  // namespace

graph::Graph eliminate_dead_code(const graph::Graph& graph, const TransformContext&) { return graph::compact(graph); }

std::span<const GraphPass> pipeline() { return kPasses; }

bool forms_groups(std::string_view pass) {
  const auto* found = std::ranges::find(kPasses, pass, &GraphPass::name);
  return found != std::end(kPasses) && found >= &first_of_groups();
}

std::string_view last_before_groups() { return std::prev(&first_of_groups())->name; }

const GraphPass& find_pass(std::string_view name) { return find_row(kGraphPipeline, name); }

graph::Graph transform(const graph::Graph& graph, const TransformContext& context, const RunOptions& options) {
  return run_passes(
      kGraphPipeline, graph, options,
      [&](const GraphPass& pass, const graph::Graph& current) {
        TransformContext own = context;
        if (const auto variant = context.variants.find(pass.name); variant != context.variants.end())
          own.variant = variant->second;
        return pass.run(current, own);
      },
      [&](const graph::Graph& current) { graph::verify(current, context.ops); });
}

}  // namespace tw::transform
