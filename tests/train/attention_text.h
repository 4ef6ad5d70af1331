// A small attention as the text of a graph, whose weights and biases are inputs.
#pragma once
#include <fmt/format.h>

#include <set>
#include <string>

namespace tw::train {

inline const std::set<std::string> kAttentionWeights = {"e", "q", "k", "v", "o", "qb", "kb", "vb"};

// Attention of 2 heads behind a layer, so that the gradients of what it reads are computed, too. Keys and values come
// from `memory`, as they do from an encoder where that is not h. k is transposed in the model.
inline std::string attention_text(const std::string& memory) {
  std::string text = R"(graph attention {
  input x : f32[2, 6, 32]
  input z : f32[2, 6, 32]
  input e : f32[32, 32]
  input q : f32[32, 32]
  input k : f32[32, 32]
  input v : f32[32, 32]
  input o : f32[32, 32]
  input qb : f32[32]
  input kb : f32[32]
  input vb : f32[32]
  h : f32[2, 6, 32] = matmul(x, e)
  kw : f32[32, 32] = transpose(k) {perm = [1, 0]}
)";
  const auto heads = [&](const std::string& name, const std::string& x, const std::string& w, const char* turned) {
    text += fmt::format(R"(
  {0}m : f32[2, 6, 32] = matmul({1}, {2})
  {0}a : f32[2, 6, 32] = add({0}m, {0}b)
  {0}h : f32[2, 6, 2, 16] = reshape({0}a) {{shape = [2, 6, 2, 16]}}
  {0}t : f32[2, 2, {3}] = transpose({0}h) {{perm = [0, 2, {4}]}}
)",
                        name, x, w, turned, *turned == '6' ? "1, 3" : "3, 1");
  };
  heads("q", "h", "q", "6, 16");
  heads("k", memory, "kw", "16, 6");
  heads("v", memory, "v", "6, 16");
  return text + R"(
  s : f32[2, 2, 6, 6] = matmul(qt, kt)
  p : f32[2, 2, 6, 6] = softmax(s) {axis = 3}
  c : f32[2, 2, 6, 16] = matmul(p, vt)
  j : f32[2, 6, 2, 16] = transpose(c) {perm = [0, 2, 1, 3]}
  l : f32[2, 6, 32] = reshape(j) {shape = [2, 6, 32]}
  y : f32[2, 6, 32] = matmul(l, o)
  output y
})";
}

}  // namespace tw::train
