// Norms with the sums before them.
#include "frontend/onnx/contrib/contrib.h"

namespace tw::frontend {
namespace {

constexpr double kSkipEpsilon = 1e-12F;  // the default of the operators that add

ValueId normalized(NodeContext& c, ValueId sum, ValueId scale, ValueId shift) {
  std::vector<ValueId> inputs{sum, scale};
  if (shift != kAbsent) inputs.push_back(shift);
  return c.emit().op(
      "layer_norm", inputs,
      {{"axis", c.emit().rank(sum) - 1}, {"epsilon", c.float_or("epsilon", kSkipEpsilon)}, {"outputs", int64_t{1}}});
}

// input + skip (+ bias), which output 3 is, too; skip may be one for all batches.
ValueId skip_sum(NodeContext& c, size_t bias) {
  Emitter& e = c.emit();
  ValueId sum = e.add(c.input(0), c.input(1));
  if (e.shape(sum) != c.shape(0))
    throw UserError("skip {} does not fit input {}", to_string(c.shape(1)), to_string(c.shape(0)));
  return c.has(bias) ? e.add(sum, c.input(bias)) : sum;
}

Outputs convert_skip_layer_norm(NodeContext& c) {
  const ValueId sum = skip_sum(c, 4);
  return {normalized(c, sum, c.input(2), c.input_or_absent(3)), kAbsent, kAbsent, sum};
}

Outputs convert_skip_rms_norm(NodeContext& c) {
  const ValueId sum = skip_sum(c, 3);
  const double epsilon = c.float_or("epsilon", kSkipEpsilon);
  const ValueId y = c.emit().op("rms_norm", {sum, c.input(2)}, {{"axis", c.rank(0) - 1}, {"epsilon", epsilon}});
  return {y, kAbsent, kAbsent, sum};
}

Outputs convert_simplified_layer_norm(NodeContext& c) {
  c.ignore_attr("stash_type");  // statistics are f32 at least
  const int64_t axis = c.axis_or("axis", -1, c.rank(0));
  const double epsilon = c.float_or("epsilon", 1e-5F);
  return {c.emit().op("rms_norm", {c.input(0), c.input(1)}, {{"axis", axis}, {"epsilon", epsilon}})};
}

// Words, positions and segments looked up, added and normalized; how many words of each row the mask leaves.
Outputs convert_embed_layer_norm(NodeContext& c) {
  Emitter& e = c.emit();
  require_attr(c, "mask_index_type", c.wants(1) ? 1 : c.int_or("mask_index_type", 1), "use a mask of lengths");
  const Shape ids = c.shape(0);
  if (ids.size() != 2) throw UserError("input_ids {} must be [batch, length]", to_string(ids));
  ValueId sum = e.gather(c.input(2), c.input(0), 0);
  sum = e.add(sum, c.has(8) ? e.gather(c.input(3), c.input(8), 0) : e.slice(c.input(3), 0, 0, ids[1]));
  if (c.has(1) && c.has(4)) sum = e.add(sum, e.gather(c.input(4), c.input(1), 0));
  ValueId lengths = e.filled(0, {DataType::i32(), {ids[0]}});
  if (c.has(7)) {
    const ValueId words = e.cast(e.op("equal", {c.input(7), e.number(c.input(7), 1)}), DataType::i32());
    lengths = e.reduce("reduce_sum", words, {1}, KeepDims::kNo);
  }
  return {normalized(c, sum, c.input(5), c.input(6)), lengths, sum};
}

}  // namespace

void require_attr(const NodeContext& c, const std::string& key, int64_t only, std::string_view remedy) {
  const int64_t value = c.int_or(key, only);
  if (value != only) throw Unsupported("attribute '{}' is {}, only {} is supported: {}", key, value, only, remedy);
}

std::vector<ConverterRow> contrib_norm_rows() {
  return {{"SkipLayerNormalization", 1, 0, convert_skip_layer_norm, kMicrosoft},
          {"SkipSimplifiedLayerNormalization", 1, 0, convert_skip_rms_norm, kMicrosoft},
          {"SimplifiedLayerNormalization", 1, 0, convert_simplified_layer_norm},  // onnxruntime has it in this domain
          {"SimplifiedLayerNormalization", 1, 0, convert_simplified_layer_norm, kMicrosoft},
          {"EmbedLayerNormalization", 1, 0, convert_embed_layer_norm, kMicrosoft}};
}

}  // namespace tw::frontend
