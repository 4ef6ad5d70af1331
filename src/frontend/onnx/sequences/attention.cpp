// Scaled dot-product attention and rotary embeddings, as matrix products, masks and a softmax.
#include <cmath>
#include <limits>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/sequences/heads.h"

namespace tw::frontend {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// A boolean mask (true: takes part) as numbers to add: 0 or -inf. Keys beyond the mask's last do not take part.
ValueId additive_mask(Emitter& e, ValueId mask, int64_t keys, DataType type) {
  const Shape s = e.shape(mask);
  if (s.empty()) throw UserError("the mask is a scalar");
  if (e.data_type(mask).is_bool()) mask = e.where(mask, e.scalar(0, type), e.scalar(kMinusInfinity, type));
  if (s.back() == keys || s.back() == 1) return mask;
  std::vector<int64_t> pads(2 * s.size(), 0);
  if (s.back() > keys) throw UserError("the mask {} is wider than {} keys", to_string(s), keys);
  pads.back() = keys - s.back();
  return e.pad(mask, pads, "constant", kMinusInfinity);
}

class Attention {
 public:
  explicit Attention(NodeContext& c) : c_(c), e_(c.emit()) {}

  Outputs run() {
    const bool flat = c_.rank(0) == 3;
    type_ = c_.type(0).type;
    const ValueId q = split_heads(e_, c_.input(0), c_.int_or("q_num_heads", 0));
    ValueId k = split_heads(e_, c_.input(1), c_.int_or("kv_num_heads", 0));
    ValueId v = split_heads(e_, c_.input(2), c_.int_or("kv_num_heads", 0));
    if (c_.has(4)) {
      if (c_.rank(4) != 4) throw UserError("past_key {} must have rank 4", to_string(c_.shape(4)));
      past_ = c_.shape(4)[2];
      k = e_.concat({c_.input(4), k}, 2);
    }
    if (c_.has(5)) v = e_.concat({c_.input(5), v}, 2);
    const Shape sq = e_.shape(q);
    const Shape sk = e_.shape(k);
    if (sq.size() != 4 || sk.size() != 4 || sk[1] < 1 || sq[1] % sk[1] != 0) {
      throw UserError("{} query heads cannot share key heads of {}", to_string(sq), to_string(sk));
    }
    raw_ = scaled_scores(e_, q, k, c_.float_or("scale", 1 / std::sqrt(static_cast<double>(sq[3]))));
    const ValueId scores = capped_scores(e_, raw_, c_.float_or("softcap", 0));
    const ValueId masked = with_bias(scores, sq[2], sk[2]);
    const ValueId weights = softmax(masked);
    ValueId y = shared_product(e_, weights, v);
    if (flat) y = join_heads(e_, y);
    return {y, k, v, shown_scores(scores, masked, weights)};
  }

 private:
  ValueId with_bias(ValueId scores, int64_t queries, int64_t keys) {
    if (c_.has(3)) scores = e_.add(scores, additive_mask(e_, c_.input(3), keys, type_));
    if (c_.int_or("is_causal", 0) != 0) {
      scores = e_.add(scores, causal_mask(e_, past_, {queries, keys}, type_));
    }
    if (c_.has(6)) {
      const ValueId lengths = e_.reshape(e_.cast(c_.input(6), DataType::i64()), {c_.type(6).elements(), 1, 1, 1});
      const ValueId real = e_.op("less", {positions(e_, 0, keys, {1, 1, 1, keys}), lengths});
      scores = e_.add(scores, e_.where(real, e_.scalar(0, type_), e_.scalar(kMinusInfinity, type_)));
    }
    return scores;
  }

  ValueId softmax(ValueId scores) {
    const DataType precision = c_.type_or("softmax_precision", type_);
    return e_.cast(e_.softmax(e_.cast(scores, precision), 3), type_);
  }

  ValueId shown_scores(ValueId capped, ValueId masked, ValueId weights) {
    const int64_t mode = c_.int_or("qk_matmul_output_mode", 0);
    if (!c_.wants(3)) return kAbsent;
    const ValueId stages[] = {raw_, capped, masked, weights};
    if (mode < 0 || mode >= std::ssize(stages)) throw UserError("attribute 'qk_matmul_output_mode' is {}", mode);
    return stages[mode];
  }

  NodeContext& c_;
  Emitter& e_;
  DataType type_;
  int64_t past_ = 0;       // keys from past_key
  ValueId raw_ = kAbsent;  // scores before cap and masks
};

// Pairs (x1, x2) of each head turned by the angle of their position: (x1 cos - x2 sin, x1 sin + x2 cos).
Outputs convert_rotary_embedding(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape original = c.shape(0);
  const ValueId x = split_heads(e, c.input(0), c.int_or("num_heads", 0));  // [B, H, S, E]
  const Shape s = e.shape(x);
  if (s.size() != 4) throw UserError("the input {} must have rank 3 or 4", to_string(original));
  const int64_t wanted = c.int_or("rotary_embedding_dim", 0);
  const int64_t turned = wanted == 0 ? s[3] : wanted;
  if (turned < 2 || turned > s[3] || turned % 2 != 0)
    throw UserError("rotary_embedding_dim {} for heads of {}", turned, s[3]);
  const int64_t half = turned / 2;
  const auto angles = [&](size_t k) {
    const ValueId table = c.has(3) ? e.gather(c.input(k), c.input(3), 0) : c.input(k);
    const Shape ts = e.shape(table);
    if (ts.size() != 3 || ts[2] != half) throw UserError("the cache {} must end in {}", to_string(ts), half);
    return e.reshape(table, {ts[0], 1, ts[1], half});
  };
  const ValueId cos = angles(1);
  const ValueId sin = angles(2);
  const Pairs pairs = c.int_or("interleaved", 0) != 0 ? Pairs::kNeighbours : Pairs::kHalves;
  const ValueId y = rotated(e, x, cos, sin, pairs);
  return {original.size() == 3 ? join_heads(e, y) : y};
}

// The subgraph `key`, applied to scores or probabilities; without it they stay as they are.
ValueId modified(NodeContext& c, const std::string& key, ValueId x) {
  if (!c.has_attr(key)) return x;
  const std::string prefix = fmt::format("{}{}/{}/", c.scope().prefix, c.name(), key);
  const Outputs results = c.importer().import_body(c.graph_attr(key), c.scope(), {x}, prefix);
  if (results.size() != 1 || c.emit().type(results[0]) != c.emit().type(x))
    throw UserError("subgraph '{}' must give one {}", key, to_string(c.emit().type(x)));
  return results[0];
}

// Scores in the softmax's precision, changed by one subgraph, their softmax by another one.
Outputs convert_flex_attention(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape q = c.shape(0);
  const Shape k = c.shape(1);
  if (q.size() != 4 || k.size() != 4 || c.rank(2) != 4 || k[1] < 1 || q[1] % k[1] != 0) {
    throw UserError("{} query heads cannot share key heads of {}", to_string(q), to_string(k));
  }
  const DataType type = c.type(0).type;
  const DataType precision = c.type_or("softmax_precision", type == DataType::f64() ? type : DataType::f32());
  const int64_t repeat = q[1] / k[1];
  const double scale = c.float_or("scale", 1 / std::sqrt(static_cast<double>(q[3])));
  const ValueId keys = e.transpose(repeat_heads(e, c.input(1), repeat), {0, 1, 3, 2});
  const ValueId product = e.cast(e.matmul(c.input(0), keys), precision);
  const ValueId scores = modified(c, "score_mod", e.mul(product, e.number(product, scale)));
  const ValueId weights = modified(c, "prob_mod", e.softmax(scores, 3));
  return {e.matmul(e.cast(weights, type), repeat_heads(e, c.input(2), repeat))};
}

}  // namespace

std::vector<ConverterRow> attention_rows() {
  return {{"Attention", 23, 0, [](NodeContext& c) { return Attention(c).run(); }},
          {"RotaryEmbedding", 23, 0, convert_rotary_embedding},
          {"FlexAttention", 1, 0, convert_flex_attention, "ai.onnx.preview"}};
}

}  // namespace tw::frontend
