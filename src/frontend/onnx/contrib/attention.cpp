// Attention of onnxruntime's own domain: heads in the last dimension, packed in several ways; caches of keys and
// values.
#include <cmath>

#include "frontend/onnx/contrib/contrib.h"
#include "frontend/onnx/sequences/heads.h"

namespace tw::frontend {
namespace {

// [B, heads, length, size] each.
struct Heads {
  ValueId q, k, v;
};

double scale_of(NodeContext& c, ValueId q) {
  const double scale = c.float_or("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.emit().shape(q)[3]));
}

// Keys that count: i32[B] says how many, [B, L] and [B, S, L] which ones (not 0). To add to scores [B, N, S, L].
ValueId key_mask(NodeContext& c, size_t k, const TensorType& of) {
  Emitter& e = c.emit();
  const Shape s = c.shape(k);
  const Shape& scores = of.shape;
  const int64_t batch = scores[0], keys = scores[3];
  ValueId seen = kAbsent;
  if (s == Shape{batch}) {
    const ValueId lengths = e.reshape(e.cast(c.input(k), DataType::i64()), {batch, 1, 1, 1});
    seen = e.op("less", {positions(e, 0, keys, {1, 1, 1, keys}), lengths});
  } else if (s == Shape{batch, keys}) {
    seen = e.cast(e.reshape(c.input(k), {batch, 1, 1, keys}), DataType::boolean());
  } else if (s == Shape{batch, scores[2], keys}) {
    seen = e.cast(e.reshape(c.input(k), {batch, 1, scores[2], keys}), DataType::boolean());
  } else {
    throw Unsupported(
        "the mask {} is not supported for scores {}: give it as [batch], [batch, keys] or [batch, "
        "queries, keys]",
        to_string(s), to_string(scores));
  }
  return e.where(seen, e.scalar(0, of.type), e.scalar(c.float_or("mask_filter_value", -10000), of.type));
}

// Which inputs say what is added to scores, and how many keys are before the first query's.
constexpr size_t kNoInput = 1000;
struct Masks {
  size_t keys, bias;
  int64_t past;
};

ValueId attended(NodeContext& c, const Heads& h, const Masks& masks) {
  Emitter& e = c.emit();
  ValueId scores = scaled_scores(e, h.q, h.k, scale_of(c, h.q));
  const Shape s = e.shape(scores);
  const DataType type = e.data_type(scores);
  if (c.has(masks.keys)) scores = e.add(scores, key_mask(c, masks.keys, e.type(scores)));
  if (c.has(masks.bias)) scores = e.add(scores, c.input(masks.bias));
  if (c.int_or("unidirectional", 0) != 0) scores = e.add(scores, causal_mask(e, masks.past, s, type));
  return join_heads(e, shared_product(e, e.softmax(scores, 3), h.v));
}

// Element `k` of axis 3 of [B, S, N, parts, E], as [B, N, S, E].
ValueId packed_part(Emitter& e, ValueId x, int64_t k) {
  const Shape s = e.shape(x);
  return e.transpose(e.reshape(e.slice(x, 3, k, 1), {s[0], s[1], s[2], s[4]}), {0, 2, 1, 3});
}

ValueId with_past(NodeContext& c, size_t past, ValueId now) {
  if (!c.has(past)) return now;
  if (c.rank(past) != 4) throw UserError("the past {} must have rank 4", to_string(c.shape(past)));
  return c.emit().concat({c.input(past), now}, 2);
}

// Query, key and value with their parts of the bias, split into heads.
Heads read_heads(NodeContext& c, int64_t heads) {
  Emitter& e = c.emit();
  if (c.rank(0) == 5)
    return {packed_part(e, c.input(0), 0), packed_part(e, c.input(0), 1), packed_part(e, c.input(0), 2)};
  int64_t at = 0;
  const auto part = [&](size_t k) {
    const ValueId x = c.input(k);
    if (!c.has(3) || e.rank(x) != 3) return split_heads(e, x, heads);
    const int64_t width = e.shape(x)[2];
    const ValueId bias = e.slice(c.input(3), 0, at, width);
    at += width;
    return split_heads(e, e.add(x, bias), heads);
  };
  const ValueId q = part(0);
  if (c.rank(1) == 5) return {q, packed_part(e, c.input(1), 0), packed_part(e, c.input(1), 1)};
  const ValueId k = part(1);
  return {q, k, part(2)};
}

Outputs convert_multi_head_attention(NodeContext& c) {
  if (c.has(8) || c.has(9))
    throw Unsupported(
        "inputs past_sequence_length and cache_indirection are not supported: export without a shared "
        "buffer of keys and values");
  const bool packed = c.rank(0) == 5 || (c.has(1) && c.rank(1) == 5);
  if (c.has(3) && (packed || c.rank(1) != 3))
    throw Unsupported("input 'bias' beside packed operands is not supported: add it before the node");
  Heads h = read_heads(c, c.int_attr("num_heads"));
  const int64_t past = c.has(6) ? c.shape(6).at(2) : 0;
  h.k = with_past(c, 6, h.k);
  h.v = with_past(c, 7, h.v);
  return {attended(c, h, {4, 5, past}), h.k, h.v};
}

// Attention of queries, keys and values that one product has made of the input. The cache holds keys and values one
// behind the other.
Outputs attend_to_product(NodeContext& c, ValueId all, size_t past_input, Masks masks) {
  Emitter& e = c.emit();
  require_attr(c, "do_rotary", 0, "use RotaryEmbedding and MultiHeadAttention");
  require_attr(c, "past_present_share_buffer", 0, "export without a shared buffer of keys and values");
  c.ignore_attr("rotary_embedding_dim");
  const int64_t heads = c.int_attr("num_heads");
  const int64_t third = e.shape(all).at(2) / 3;
  const std::vector<int64_t> sizes = c.ints_or("qkv_hidden_sizes", {third, third, third});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != e.shape(all)[2])
    throw UserError("weights {} do not fit qkv_hidden_sizes", to_string(c.shape(1)));
  const auto part = [&](int64_t start, int64_t width) { return split_heads(e, e.slice(all, 2, start, width), heads); };
  Heads h{part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
  if (c.has(past_input)) {
    const Shape s = c.shape(past_input);
    if (s.size() != 5 || s[0] != 2)
      throw UserError("the past {} must be [2, batch, heads, length, size]", to_string(s));
    masks.past = s[3];
    const auto cached = [&](int64_t k) {
      return e.reshape(e.slice(c.input(past_input), 0, k, 1), {s[1], s[2], s[3], s[4]});
    };
    h.k = e.concat({cached(0), h.k}, 2);
    h.v = e.concat({cached(1), h.v}, 2);
  }
  ValueId present = kAbsent;
  if (c.wants(1)) present = e.concat({e.unsqueeze(h.k, 0), e.unsqueeze(h.v, 0)}, 0);
  return {attended(c, h, masks), present};
}

Outputs convert_attention(NodeContext& c) {
  ValueId all = c.emit().matmul(c.input(0), c.input(1));
  if (c.has(2)) all = c.emit().add(all, c.input(2));
  return attend_to_product(c, all, 4, {3, 5, 0});
}

// The product is one of 8-bit integers, exact in i32; attention itself is that of floats.
Outputs convert_quantized_attention(NodeContext& c) {
  Emitter& e = c.emit();
  std::vector<ValueId> operands{c.input(0), c.input(1), c.input_or_absent(6), c.input_or_absent(7)};
  while (operands.back() == kAbsent) operands.pop_back();
  const DataType type = c.type(3).type;
  const ValueId scale = e.mul(c.input(3), c.input(4));
  const ValueId all = e.mul(e.cast(e.op("matmul_integer", std::move(operands)), type), scale);
  return attend_to_product(c, e.add(all, c.input(2)), 8, {5, kNoInput, 0});
}

// Cosines or sines of places [B or 1, S] out of a table [places, n].
ValueId angles(NodeContext& c, size_t table, ValueId places) {
  Emitter& e = c.emit();
  if (c.rank(table) != 2) throw UserError("the cache {} must be a matrix", to_string(c.shape(table)));
  const Shape s = e.shape(places);
  return e.reshape(e.gather(c.input(table), places, 0), {s[0], 1, s[1], c.shape(table)[1]});
}

Pairs pairs_of(NodeContext& c, const std::string& key) {
  return c.int_or(key, 0) != 0 ? Pairs::kNeighbours : Pairs::kHalves;
}

// position_ids: a place for each element of [B, S], or one number, the place of the first.
Outputs convert_rotary_embedding(NodeContext& c) {
  Emitter& e = c.emit();
  require_attr(c, "is_packed_batching", 0, "pad the batch");
  c.ignore_attr("rotary_embedding_dim");  // the caches say it
  if (c.float_or("scale", 1) != 1) throw Unsupported("attribute 'scale' is not 1: multiply the caches by it");
  const int64_t turned = 2 * c.shape(2).at(1);
  int64_t heads = c.int_or("num_heads", 0);
  if (heads == 0 && c.rank(0) == 3) heads = c.shape(0)[2] / turned;
  const ValueId x = split_heads(e, c.input(0), heads);
  const Shape s = e.shape(x);
  if (turned > s[3]) throw UserError("the cache {} is too wide for heads of {}", to_string(c.shape(2)), s[3]);
  ValueId places = e.cast(c.input(1), DataType::i64());
  if (c.type(1).elements() == 1 && c.rank(1) < 2)
    places = e.add(positions(e, 0, s[2], {1, s[2]}), e.reshape(places, {1, 1}));
  const ValueId y = rotated(e, x, angles(c, 2, places), angles(c, 3, places), pairs_of(c, "interleaved"));
  return {c.rank(0) == 3 ? join_heads(e, y) : y};
}

// Keys that each batch has are seqlens_k + 1. Those of a cache must be all of it: where new ones go is fixed here.
ValueId seen_keys(NodeContext& c, const Shape& scores, int64_t past) {
  Emitter& e = c.emit();
  if (past > 0) {
    for (const int64_t last : c.const_ints(5, "seqlens_k")) {
      if (last == scores[3] - 1) continue;
      throw Unsupported("seqlens_k is {} where past and new keys are {}: give a past of just the keys that count", last,
                        scores[3]);
    }
    return kAbsent;
  }
  const ValueId last = e.reshape(e.cast(c.input(5), DataType::i64()), {scores[0], 1, 1, 1});
  const ValueId seen = e.op("less_equal", {positions(e, 0, scores[3], {1, 1, 1, scores[3]}), last});
  return e.where(seen, e.scalar(0, c.type(0).type), e.scalar(-HUGE_VAL, c.type(0).type));
}

void refuse_variants(NodeContext& c) {
  require_attr(c, "qk_output", 0, "do not ask for the scores");
  if (c.int_or("smooth_softmax", 0) > 0 || c.has(11))
    throw Unsupported(
        "a smooth softmax (attribute 'smooth_softmax', input 'head_sink') is not supported: export "
        "without it");
  for (const char* key : {"k_quant_type", "v_quant_type"}) {
    if (c.string_or(key, "NONE") != "NONE")
      throw Unsupported("attribute '{}' is not NONE: keep keys and values as floats", key);
  }
}

Heads read_grouped_heads(NodeContext& c) {
  Emitter& e = c.emit();
  const int64_t heads = c.int_attr("num_heads"), shared = c.int_attr("kv_num_heads");
  if (heads < 1 || shared < 1 || heads % shared != 0)
    throw UserError("num_heads {} is no multiple of kv_num_heads {}", heads, shared);
  if (c.has(1)) {
    return {split_heads(e, c.input(0), heads), split_heads(e, c.input(1), shared), split_heads(e, c.input(2), shared)};
  }
  const int64_t size = c.shape(0).at(2) / (heads + 2 * shared);
  const auto part = [&](int64_t first, int64_t n) {
    return split_heads(e, e.slice(c.input(0), 2, first * size, n * size), n);
  };
  return {part(0, heads), part(heads, shared), part(heads + shared, shared)};
}

Outputs convert_group_query_attention(NodeContext& c) {
  Emitter& e = c.emit();
  refuse_variants(c);
  Heads h = read_grouped_heads(c);
  const int64_t past = c.has(3) ? c.shape(3).at(2) : 0;
  const int64_t queries = e.shape(h.q)[2];
  const Pairs pairs = pairs_of(c, "rotary_interleaved");
  if (c.int_or("do_rotary", 0) != 0) {
    const ValueId places = c.has(9) ? e.cast(c.input(9), DataType::i64()) : positions(e, past, queries, {1, queries});
    const ValueId cos = angles(c, 7, places), sin = angles(c, 8, places);
    h.q = rotated(e, h.q, cos, sin, pairs);
    h.k = rotated(e, h.k, cos, sin, pairs);
  }
  h.k = with_past(c, 3, h.k);
  h.v = with_past(c, 4, h.v);
  ValueId scores = capped_scores(e, scaled_scores(e, h.q, h.k, scale_of(c, h.q)), c.float_or("softcap", 0));
  const Shape s = e.shape(scores);
  if (c.has(10)) scores = e.add(scores, c.input(10));
  const int64_t window = c.int_or("local_window_size", -1);
  scores = e.add(scores, causal_mask(e, past, s, e.data_type(scores), window > 0 ? window : INT64_MAX));
  if (const ValueId seen = seen_keys(c, s, past); seen != kAbsent) scores = e.add(scores, seen);
  return {join_heads(e, shared_product(e, e.softmax(scores, 3), h.v)), h.k, h.v};
}

}  // namespace

std::vector<ConverterRow> contrib_attention_rows() {
  return {{"Attention", 1, 0, convert_attention, kMicrosoft},
          {"QAttention", 1, 0, convert_quantized_attention, kMicrosoft},
          {"MultiHeadAttention", 1, 0, convert_multi_head_attention, kMicrosoft},
          {"GroupQueryAttention", 1, 0, convert_group_query_attention, kMicrosoft},
          {"RotaryEmbedding", 1, 0, convert_rotary_embedding, kMicrosoft}};
}

}  // namespace tw::frontend
