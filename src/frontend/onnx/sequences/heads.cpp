#include "frontend/onnx/sequences/heads.h"

#include "support/error.h"

namespace tw::frontend {

ValueId split_heads(Emitter& e, ValueId x, int64_t heads) {
  const Shape s = e.shape(x);
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1 || s[2] % heads != 0) {
    throw UserError("{} cannot be split into {} heads (attributes q_num_heads, kv_num_heads)", to_string(s), heads);
  }
  return e.transpose(e.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

ValueId join_heads(Emitter& e, ValueId x) {
  const Shape s = e.shape(x);
  return e.reshape(e.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

ValueId repeat_heads(Emitter& e, ValueId x, int64_t repeat) {
  const Shape s = e.shape(x);
  if (repeat == 1) return x;
  return e.reshape(e.expand(e.reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], repeat, s[2], s[3]}),
                   {s[0], s[1] * repeat, s[2], s[3]});
}

}  // namespace tw::frontend
