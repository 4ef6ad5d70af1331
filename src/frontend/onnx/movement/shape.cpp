// Shapes: what reads a shape is known at import, what changes only the shape is a reshape.
#include <algorithm>

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

Outputs convert_shape_op(NodeContext& c) {
  const Shape& shape = c.shape(0);
  const int64_t rank = c.rank(0);
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(c.int_or("start", 0));
  const int64_t end = clamp(c.int_or("end", rank));
  if (end <= start) return {c.emit().int_list({})};
  return {c.emit().int_list({shape.begin() + start, shape.begin() + end})};
}

Outputs convert_size(NodeContext& c) {
  return {c.emit().constant({.type = {DataType::i64(), {}}, .ints = {c.type(0).elements()}})};
}

// Replaces 0 (unless allowed) by the input's extent and one -1 by what is left.
Shape resolve_reshape(const Shape& input, Shape target, bool allow_zero) {
  const std::string wanted = to_string(target);
  const auto fail = [&](std::string_view why) {
    throw UserError("cannot reshape {} to {}: {}", to_string(input), wanted, why);
  };
  int64_t known = 1;
  int64_t inferred = -1;
  for (size_t d = 0; d < target.size(); ++d) {
    if (target[d] == 0 && !allow_zero) {
      if (d >= input.size()) fail(fmt::format("0 at position {} copies a dimension that the input does not have", d));
      target[d] = input[d];
    }
    if (target[d] < -1) fail("an extent is negative");
    if (target[d] == -1) {
      if (inferred >= 0) fail("-1 may stand once only");
      inferred = static_cast<int64_t>(d);
    } else if (__builtin_mul_overflow(known, target[d], &known)) {
      fail("too many elements");
    }
  }
  const int64_t elements = num_elements(input);
  if (inferred >= 0) {
    if (known == 0 || elements % known != 0) fail("the elements cannot be divided evenly for -1");
    target[inferred] = elements / known;
    known *= target[inferred];
  }
  if (known != elements) fail(fmt::format("{} elements become {}", elements, known));
  return target;
}

Outputs convert_reshape(NodeContext& c) {
  const Shape target = c.opset() < 5 ? c.ints_attr("shape") : c.const_ints(1, "shape");
  return {c.emit().reshape(c.input(0), resolve_reshape(c.shape(0), target, c.int_or("allowzero", 0) != 0))};
}

Outputs convert_flatten(NodeContext& c) {
  const Shape& shape = c.shape(0);
  const int64_t rank = c.rank(0);
  const int64_t axis = c.int_or("axis", 1);
  if (axis < (c.opset() < 11 ? 0 : -rank) || axis > rank) {
    throw UserError("attribute 'axis' is {}, outside [{}, {}]", axis, c.opset() < 11 ? 0 : -rank, rank);
  }
  const int64_t split = axis < 0 ? axis + rank : axis;
  return {c.emit().reshape(c.input(0), {num_elements({shape.begin(), shape.begin() + split}),
                                        num_elements({shape.begin() + split, shape.end()})})};
}

// Axes are an attribute before opset 13, an input after.
std::vector<int64_t> axes_of(NodeContext& c) {
  if (c.opset() < 13) return c.ints_or("axes", {});
  return c.has(1) ? c.const_ints(1, "axes") : std::vector<int64_t>{};
}

Outputs convert_squeeze(NodeContext& c) {
  const Shape& shape = c.shape(0);
  std::vector<int64_t> axes = normalize_axes(axes_of(c), c.rank(0));
  const bool all_ones = axes.empty() && (c.opset() < 13 ? !c.has_attr("axes") : !c.has(1));
  Shape result;
  for (int64_t d = 0; d < c.rank(0); ++d) {
    const bool named = std::ranges::find(axes, d) != axes.end();
    if (named && shape[d] != 1) throw UserError("axis {} has extent {}, only 1 can be squeezed", d, shape[d]);
    if (!named && !(all_ones && shape[d] == 1)) result.push_back(shape[d]);
  }
  return {c.emit().reshape(c.input(0), result)};
}

Outputs convert_unsqueeze(NodeContext& c) {
  const Shape& shape = c.shape(0);
  const std::vector<int64_t> given = axes_of(c);
  const int64_t rank = c.rank(0) + static_cast<int64_t>(given.size());
  const std::vector<int64_t> axes = normalize_axes(given, rank);
  Shape result;
  auto next = shape.begin();
  for (int64_t d = 0; d < rank; ++d) {
    result.push_back(std::ranges::find(axes, d) != axes.end() ? 1 : *next++);
  }
  return {c.emit().reshape(c.input(0), result)};
}

}  // namespace

std::vector<ConverterRow> shape_rows() {
  return {{"Shape", 1, 0, convert_shape_op},
          {"Size", 1, 0, convert_size},
          {"Reshape", 1, 0, convert_reshape},
          {"Flatten", 1, 0, convert_flatten},
          {"Squeeze", 1, 0, convert_squeeze},
          {"Unsqueeze", 1, 0, convert_unsqueeze},
          {"Identity", 1, 0, [](NodeContext& c) -> Outputs { return {c.input(0)}; }}};
}

}  // namespace tw::frontend
