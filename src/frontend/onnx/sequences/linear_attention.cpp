// Linear attention: a recurrence over the sequence on a state of [keys, values] for each head, unrolled like RNNs.
#include <cmath>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/sequences/heads.h"

namespace tw::frontend {
namespace {

// Shapes while it runs: state [B, H, K, V]; of one step: query [B, H, group, K], key and decay [B, H, 1, K] (the decay
// may have one element for all K), value [B, H, 1, V], beta [B, H or 1, 1, 1]. H counts key heads; `group` query heads
// share each. All in f32, whatever the operands are.
class LinearAttention {
 public:
  explicit LinearAttention(NodeContext& c) : c_(c), e_(c.emit()) {
    heads_ = c.int_attr("kv_num_heads");
    const int64_t query_heads = c.int_attr("q_num_heads");
    if (heads_ < 1 || query_heads < 1 || query_heads % heads_ != 0)
      throw UserError("{} query heads cannot share {} key heads", query_heads, heads_);
    group_ = query_heads / heads_;
    read_rule();
    query_ = per_head(0, query_heads);
    key_ = per_head(1, heads_);
    value_ = per_head(2, heads_);
    const Shape q = e_.shape(query_);
    const Shape k = e_.shape(key_);
    const Shape v = e_.shape(value_);
    if (q[3] != k[3] || q[0] != k[0] || q[2] != k[2] || v[0] != k[0] || v[2] != k[2])
      throw UserError("heads {}, {} and {} do not fit", to_string(q), to_string(k), to_string(v));
    steps_ = q[2];
    if (steps_ < 1 || steps_ > kMaxTrips)
      throw Unsupported("a sequence of {} steps; 1 to {} are supported", steps_, kMaxTrips);
    if (gated_) decay_ = gate(4, "decay", k[3]);
    if (corrects_) beta_ = gate(5, "beta", 1);
  }

  Outputs run() {
    const Shape k = e_.shape(key_);
    const Shape shape{k[0], heads_, k[3], e_.shape(value_)[3]};
    if (c_.has(3) && c_.shape(3) != shape)
      throw UserError("past_state {} must be {}", to_string(c_.shape(3)), to_string(shape));
    const double given = c_.float_or("scale", 0);
    const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(k[3]));
    ValueId state = c_.has(3) ? e_.cast(c_.input(3), DataType::f32()) : e_.filled(0, {DataType::f32(), shape});
    std::vector<ValueId> rows;
    for (int64_t t = 0; t < steps_; ++t) {
      state = next(state, t);
      const ValueId query = e_.reshape(at(query_, t), {k[0], heads_, group_, k[3]});
      rows.push_back(e_.reshape(e_.matmul(query, state), {k[0], heads_ * group_, 1, shape[3]}));
    }
    const ValueId all = e_.concat(rows, 2);
    const DataType state_type = c_.type(c_.has(3) ? 3 : 0).type;
    return {e_.cast(join_heads(e_, e_.mul(all, e_.number(all, scale))), c_.type(0).type), e_.cast(state, state_type)};
  }

 private:
  void read_rule() {
    const std::string rule = c_.choice("update_rule", {"gated_delta", "gated", "delta", "linear"});
    c_.ignore_attr("chunk_size");
    gated_ = rule == "gated" || rule == "gated_delta";
    corrects_ = rule == "delta" || rule == "gated_delta";
    if (c_.has(4) != gated_ || c_.has(5) != corrects_) {
      throw UserError("update_rule '{}' needs {} decay and {} beta", rule, gated_ ? "a" : "no", corrects_ ? "a" : "no");
    }
  }

  // [B, heads, T, E] of a packed input.
  ValueId per_head(size_t input, int64_t heads) {
    if (c_.rank(input) != 3)
      throw UserError("input {} {} must have shape (B, T, H * D)", input, to_string(c_.shape(input)));
    return e_.cast(split_heads(e_, c_.input(input), heads), DataType::f32());
  }

  // [B, H or 1, T, width or 1] of the packed decay or beta.
  ValueId gate(size_t input, std::string_view name, int64_t width) {
    const Shape s = c_.shape(input);
    const bool fits = s.size() == 3 && s[1] == steps_ && (s[2] == 1 || s[2] == heads_ || s[2] == heads_ * width);
    if (!fits) throw UserError("{} {} does not fit {} heads", name, to_string(s), heads_);
    return per_head(input, s[2] == 1 ? 1 : heads_);
  }

  // Step t of [B, H, T, E]: [B, H, 1, E].
  ValueId at(ValueId x, int64_t t) { return e_.slice(x, 2, t, 1); }

  ValueId next(ValueId state, int64_t t) {
    const ValueId key = at(key_, t);
    const ValueId column = e_.transpose(key, {0, 1, 3, 2});
    ValueId value = at(value_, t);
    if (gated_) state = e_.mul(state, e_.op("exp", {e_.transpose(at(decay_, t), {0, 1, 3, 2})}));
    if (corrects_) value = e_.mul(at(beta_, t), e_.sub(value, e_.matmul(key, state)));
    return e_.add(state, e_.mul(column, value));
  }

  NodeContext& c_;
  Emitter& e_;
  int64_t heads_ = 1, group_ = 1, steps_ = 0;
  bool gated_ = false, corrects_ = false;
  ValueId query_ = kAbsent, key_ = kAbsent, value_ = kAbsent, decay_ = kAbsent, beta_ = kAbsent;
};

}  // namespace

std::vector<ConverterRow> linear_attention_rows() {
  return {{"LinearAttention", 27, 0, [](NodeContext& c) { return LinearAttention(c).run(); }}};
}

}  // namespace tw::frontend
