// Convolutions: 1, 2 and 3 spatial dimensions, groups, dilation, transposed.
#include <algorithm>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/windows/window.h"

namespace tw::frontend {
namespace {

// The first `required` inputs and those of the optional ones up to `all` that are given; trailing absent ones are left
// out.
std::vector<ValueId> with_optional(NodeContext& c, size_t required, size_t all) {
  std::vector<ValueId> inputs = by_index(required, [&](size_t k) { return c.input(k); });
  size_t last = required;
  for (size_t k = required; k < all; ++k) last = c.has(k) ? k + 1 : last;
  for (size_t k = required; k < last; ++k) inputs.push_back(c.input_or_absent(k));
  return inputs;
}

Outputs convert_conv(NodeContext& c) {
  return {c.emit().op("conv", with_optional(c, 2, 3), conv_attributes(c, c.shape(0), c.shape(1)))};
}

// Pads of a transposed convolution: output_shape and auto_pad ask for an extent, pads cut from the full result.
struct TransposedWindow {
  Window window;
  std::vector<int64_t> output_padding;
};

TransposedWindow transposed_window(NodeContext& c) {
  const Shape spatial = spatial_of(c.shape(0));
  const size_t n = spatial.size();
  const std::string mode = c.string_or("auto_pad", "NOTSET");
  TransposedWindow t{read_steps(c, n, spatial_of(c.shape(1))), list_or(c, "output_padding", n, 0)};
  Window& w = t.window;
  w.pads = list_or(c, "pads", 2 * n, 0);
  std::vector<int64_t> wanted = c.ints_or("output_shape", {});
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty()) wanted = checked_list(std::move(wanted), n, 1, "output_shape");
  if (wanted.empty() && mode == "NOTSET") return t;
  if (mode == "VALID" && wanted.empty()) {
    w.pads.assign(2 * n, 0);
    return t;
  }
  for (size_t d = 0; d < n; ++d) {
    const int64_t full = w.strides[d] * (spatial[d] - 1) + t.output_padding[d] + w.dilated_kernel(d);
    const int64_t total = full - (wanted.empty() ? spatial[d] * w.strides[d] : wanted[d]);
    // A result that is wanted longer than the full one is extended by zeros at its end, as output_padding does.
    if (total < 0) t.output_padding[d] -= total;
    share_padding(w, d, std::max<int64_t>(total, 0), mode);
  }
  return t;
}

Outputs convert_conv_transpose(NodeContext& c) {
  const int64_t group = group_of(c);
  if (c.rank(1) != c.rank(0)) throw UserError("the weights must have the input's rank");
  const TransposedWindow t = transposed_window(c);
  if (c.shape(0)[1] != c.shape(1)[0] || c.shape(0)[1] % group != 0) {
    throw UserError("input {} and weights {} with group {}: the channels do not fit", to_string(c.shape(0)),
                    to_string(c.shape(1)), group);
  }
  graph::Attrs attrs = conv_attrs(t.window, group);
  attrs["output_padding"] = t.output_padding;
  return {c.emit().op("conv_transpose", with_optional(c, 2, 3), std::move(attrs))};
}

// Zero points are subtracted first, so the padding stands for the input's zero point.
Outputs convert_conv_integer(NodeContext& c) {
  return {c.emit().op("conv_integer", with_optional(c, 2, 4), conv_attributes(c, c.shape(0), c.shape(1)))};
}

// A depthwise convolution of [past_state | input] along its last axis; the state is what the next call's window needs.
Outputs convert_causal_conv_with_state(NodeContext& c) {
  Emitter& e = c.emit();
  const Shape x = c.shape(0);
  const Shape w = c.shape(1);
  if (x.size() != 3 || w.size() != 3 || w[0] != x[1] || w[0] < 1 || w[1] != 1 || w[2] < 1)
    throw UserError("the weights {} do not fit the input {}", to_string(w), to_string(x));
  const Shape state{x[0], x[1], w[2] - 1};
  if (c.has(3) && c.shape(3) != state)
    throw UserError("past_state {} must be {}", to_string(c.shape(3)), to_string(state));
  const std::string activation = c.choice("activation", {"none", "silu", "swish"});
  const ValueId past = c.has(3) ? c.input(3) : e.filled(0, {c.type(0).type, state});
  const ValueId padded = state[2] == 0 ? c.input(0) : e.concat({past, c.input(0)}, 2);
  std::vector<ValueId> operands{padded, c.input(1)};
  if (c.has(2)) operands.push_back(c.input(2));
  const Window window{{w[2]}, {1}, {1}, {0, 0}};
  ValueId y = e.op("conv", std::move(operands), conv_attrs(window, x[1]));
  if (activation != "none") y = e.op("silu", {y});
  return {y, e.slice(padded, 2, x[2], state[2])};
}

}  // namespace

std::vector<ConverterRow> conv_rows() {
  return {{"Conv", 1, 0, convert_conv},
          {"ConvTranspose", 1, 0, convert_conv_transpose},
          {"ConvInteger", 10, 0, convert_conv_integer},
          {"CausalConvWithState", 27, 0, convert_causal_conv_with_state}};
}

}  // namespace tw::frontend
