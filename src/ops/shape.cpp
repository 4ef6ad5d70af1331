// Data movement of one tensor: y[i] = x[map(i)], any type.
//
// op              attributes
// reshape         shape (ints, complete: no 0 or -1 of ONNX; also squeeze, unsqueeze, flatten)
// transpose       perm: axis d of y is axis perm[d] of x
// slice           starts, steps, extents (one for each axis of x): y[i] = x[starts + i * steps]; steps may be negative
// expand          shape: y has the shape that x and `shape` broadcast to
// tile            repeats (one for each axis)
// depth_to_space  blocksize, mode ("DCR" default, or "CRD"): [N, b*b*C, H, W] to [N, C, H*b, W*b]
// space_to_depth  blocksize: [N, C, H*b, W*b] to [N, b*b*C, H, W]
#include <algorithm>
#include <ranges>

#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

Tensors te_map(const OpCall& call, te::Builder& builder, const te::Tensor& x, const Shape& shape,
               const std::function<Exprs(const Exprs& i)>& map) {
  return {builder.compute(tensor_name(call), shape, [&](const Exprs& i) { return x(map(i)); })};
}

// ---- reshape

Types infer_reshape(const OpCall& call) {
  const Shape shape = call.node.ints_attr("shape");
  require(call,
          std::ranges::all_of(shape, [](int64_t extent) { return extent >= 0; }) &&
              num_elements(shape) == call.inputs[0].elements(),
          "{} does not reshape to {}", to_string(call.inputs[0]), to_string(shape));
  return {{call.inputs[0].type, shape}};
}

// Dimensions [out_begin, out_end) of y and [in_begin, in_end) of x that hold the same elements.
struct Run {
  size_t out_begin, out_end, in_begin, in_end;
};

// The shortest runs of equal products, so that an index needs few divisions (none where dimensions only merge).
std::vector<Run> matching_runs(const Shape& out, const Shape& in) {
  std::vector<Run> runs;
  size_t o = 0, i = 0;
  while (o < out.size() || i < in.size()) {
    Run run{o, o, i, i};
    int64_t a = 1, b = 1;
    do {
      if (o < out.size() && (a <= b || i == in.size())) {
        a *= out[o++];
      } else {
        b *= in[i++];
      }
    } while (a != b);
    run.out_end = o;
    run.in_end = i;
    runs.push_back(run);
  }
  return runs;
}

Exprs reshape_indices(const Exprs& i, const Shape& out, const Shape& in) {
  Exprs at(in.size(), Expr(0));
  if (num_elements(out) == 0) return at;
  for (const Run& run : matching_runs(out, in)) {
    Expr flat(0);
    for (size_t d = run.out_begin; d < run.out_end; ++d) {
      if (out[d] != 1) flat = flat * Expr(out[d]) + i[d];
    }
    int64_t stride = 1;
    int64_t total = num_elements(Shape(in.begin() + static_cast<std::ptrdiff_t>(run.in_begin),
                                       in.begin() + static_cast<std::ptrdiff_t>(run.in_end)));
    for (size_t d = run.in_end; d-- > run.in_begin;) {
      if (in[d] == 1) continue;
      const Expr quotient = floor_div(flat, Expr(stride));
      stride *= in[d];
      at[d] = stride == total ? quotient : floor_mod(quotient, Expr(in[d]));
    }
  }
  return at;
}

Tensors te_reshape(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Shape shape = call.node.ints_attr("shape");
  return te_map(call, builder, inputs[0], shape,
                [&](const Exprs& i) { return reshape_indices(i, shape, inputs[0].shape); });
}

std::vector<RefTensor> ref_reshape(const OpCall& call, Refs inputs) {
  RefTensor y = inputs[0];
  y.type.shape = call.node.ints_attr("shape");
  return {std::move(y)};
}

// ---- transpose

Types infer_transpose(const OpCall& call) {
  const std::vector<int64_t>& perm = call.node.ints_attr("perm");
  const Shape& x = call.inputs[0].shape;
  const auto axes = std::views::iota(int64_t{0}, std::ssize(x));
  require(call, std::ranges::is_permutation(perm, axes), "perm {} is not a permutation of the axes of {}",
          to_string(perm), to_string(call.inputs[0]));
  return {{call.inputs[0].type, mapped(perm, [&](int64_t axis) { return x[axis]; })}};
}

Tensors te_transpose(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const std::vector<int64_t>& perm = call.node.ints_attr("perm");
  return te_map(call, builder, inputs[0], infer_transpose(call)[0].shape, [&](const Exprs& i) {
    Exprs at(i.size());
    for (size_t d = 0; d < i.size(); ++d) at[perm[d]] = i[d];
    return at;
  });
}

std::vector<RefTensor> ref_transpose(const OpCall& call, Refs inputs) {
  const std::vector<int64_t>& perm = call.node.ints_attr("perm");
  const Shape strides = row_major_strides(inputs[0].type.shape);
  return {moved(infer_transpose(call)[0], inputs[0], [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    for (size_t d = 0; d < perm.size(); ++d) from += index[d] * strides[perm[d]];
    return from;
  })};
}

// ---- slice

Types infer_slice(const OpCall& call) {
  const Shape& x = call.inputs[0].shape;
  const auto& starts = call.node.ints_attr("starts");
  const auto& steps = call.node.ints_attr("steps");
  const auto& extents = call.node.ints_attr("extents");
  require(call, starts.size() == x.size() && steps.size() == x.size() && extents.size() == x.size(),
          "starts, steps and extents of {}, {} and {} axes for {}", starts.size(), steps.size(), extents.size(),
          to_string(call.inputs[0]));
  for (size_t d = 0; d < x.size(); ++d) {
    const int64_t last = starts[d] + (extents[d] - 1) * steps[d];
    const bool within = starts[d] >= 0 && starts[d] < x[d] && last >= 0 && last < x[d];
    require(call, extents[d] == 0 || (extents[d] > 0 && within), "axis {} of {}: start {}, step {}, extent {}", d,
            to_string(call.inputs[0]), starts[d], steps[d], extents[d]);
  }
  return {{call.inputs[0].type, extents}};
}

Tensors te_slice(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const auto& starts = call.node.ints_attr("starts");
  const auto& steps = call.node.ints_attr("steps");
  return te_map(call, builder, inputs[0], call.node.ints_attr("extents"), [&](const Exprs& i) {
    return by_index(i.size(), [&](size_t d) { return i[d] * Expr(steps[d]) + Expr(starts[d]); });
  });
}

std::vector<RefTensor> ref_slice(const OpCall& call, Refs inputs) {
  const auto& starts = call.node.ints_attr("starts");
  const auto& steps = call.node.ints_attr("steps");
  const Shape strides = row_major_strides(inputs[0].type.shape);
  return {moved(infer_slice(call)[0], inputs[0], [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += (starts[d] + index[d] * steps[d]) * strides[d];
    return from;
  })};
}

// ---- expand

Types infer_expand(const OpCall& call) {
  Shape shape;
  const Shape& wanted = call.node.ints_attr("shape");
  require(call, broadcast_shapes(call.inputs[0].shape, wanted, &shape), "{} does not expand to {}",
          to_string(call.inputs[0]), to_string(wanted));
  return {{call.inputs[0].type, shape}};
}

Tensors te_expand(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  return te_map(call, builder, inputs[0], infer_expand(call)[0].shape,
                [&](const Exprs& i) { return broadcast_indices(i, inputs[0].shape); });
}

std::vector<RefTensor> ref_expand(const OpCall& call, Refs inputs) {
  const TensorType type = infer_expand(call)[0];
  const Shape strides = broadcast_strides(inputs[0].type.shape, type.shape);
  return {moved(type, inputs[0], [&](const std::vector<int64_t>& index) { return offset_of(index, strides); })};
}

// ---- tile

Types infer_tile(const OpCall& call) {
  const auto& repeats = call.node.ints_attr("repeats");
  TensorType y = call.inputs[0];
  require(call, repeats.size() == y.shape.size(), "{} repeats for {}", repeats.size(), to_string(y));
  for (size_t d = 0; d < repeats.size(); ++d) {
    require(call, repeats[d] >= 0, "repeats {}", to_string(repeats));
    y.shape[d] *= repeats[d];
  }
  return {y};
}

Tensors te_tile(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const auto& repeats = call.node.ints_attr("repeats");
  return te_map(call, builder, inputs[0], infer_tile(call)[0].shape, [&](const Exprs& i) {
    return by_index(i.size(), [&](size_t d) {
      return repeats[d] == 1 || inputs[0].shape[d] == 0 ? i[d] : floor_mod(i[d], Expr(inputs[0].shape[d]));
    });
  });
}

std::vector<RefTensor> ref_tile(const OpCall& call, Refs inputs) {
  const Shape& x = inputs[0].type.shape;
  const Shape strides = row_major_strides(x);
  return {moved(infer_tile(call)[0], inputs[0], [&](const std::vector<int64_t>& index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += index[d] % x[d] * strides[d];
    return from;
  })};
}

// ---- depth_to_space, space_to_depth

int64_t block_of(const OpCall& call) {
  const int64_t block = call.node.int_attr("blocksize");
  require(call, block >= 1 && call.inputs[0].shape.size() == 4, "blocksize {} on {}", block, to_string(call.inputs[0]));
  return block;
}

bool depth_first(const OpCall& call) {
  const std::string mode = call.node.string_attr_or("mode", "DCR");
  require(call, mode == "DCR" || mode == "CRD", "mode '{}'", mode);
  return mode == "DCR";
}

Types infer_depth_to_space(const OpCall& call) {
  const int64_t b = block_of(call);
  depth_first(call);
  const Shape& x = call.inputs[0].shape;
  require(call, x[1] % (b * b) == 0, "{} channels do not split by {}", x[1], b * b);
  return {{call.inputs[0].type, {x[0], x[1] / (b * b), x[2] * b, x[3] * b}}};
}

Types infer_space_to_depth(const OpCall& call) {
  const int64_t b = block_of(call);
  const Shape& x = call.inputs[0].shape;
  require(call, x[2] % b == 0 && x[3] % b == 0, "{} does not split into blocks of {}", to_string(call.inputs[0]), b);
  return {{call.inputs[0].type, {x[0], x[1] * b * b, x[2] / b, x[3] / b}}};
}

Tensors te_depth_to_space(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Shape shape = infer_depth_to_space(call)[0].shape;
  const Expr b(block_of(call));
  return te_map(call, builder, inputs[0], shape, [&](const Exprs& i) -> Exprs {
    const Expr cell = floor_mod(i[2], b) * b + floor_mod(i[3], b);
    const Expr channel = depth_first(call) ? cell * Expr(shape[1]) + i[1] : i[1] * b * b + cell;
    return {i[0], channel, floor_div(i[2], b), floor_div(i[3], b)};
  });
}

Tensors te_space_to_depth(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const Expr channels(inputs[0].shape[1]);
  const Expr b(block_of(call));
  return te_map(call, builder, inputs[0], infer_space_to_depth(call)[0].shape, [&](const Exprs& i) -> Exprs {
    const Expr cell = floor_div(i[1], channels);
    return {i[0], floor_mod(i[1], channels), i[2] * b + floor_div(cell, b), i[3] * b + floor_mod(cell, b)};
  });
}

std::vector<RefTensor> ref_depth_to_space(const OpCall& call, Refs inputs) {
  const TensorType type = infer_depth_to_space(call)[0];
  const int64_t b = block_of(call);
  const Shape strides = row_major_strides(inputs[0].type.shape);
  return {moved(type, inputs[0], [&](const std::vector<int64_t>& index) {
    const int64_t cell = index[2] % b * b + index[3] % b;
    const int64_t channel = depth_first(call) ? cell * type.shape[1] + index[1] : index[1] * b * b + cell;
    return offset_of({index[0], channel, index[2] / b, index[3] / b}, strides);
  })};
}

std::vector<RefTensor> ref_space_to_depth(const OpCall& call, Refs inputs) {
  const int64_t b = block_of(call);
  const int64_t channels = inputs[0].type.shape[1];
  const Shape strides = row_major_strides(inputs[0].type.shape);
  return {moved(infer_space_to_depth(call)[0], inputs[0], [&](const std::vector<int64_t>& index) {
    const int64_t cell = index[1] / channels;
    return offset_of({index[0], index[1] % channels, index[2] * b + cell / b, index[3] * b + cell % b}, strides);
  })};
}

}  // namespace

std::vector<OpDef> shape_ops() {
  constexpr OpClass kMoves = OpClass::kInjective;
  return {{"reshape", kMoves, infer_reshape, te_reshape, ref_reshape},
          {"transpose", kMoves, infer_transpose, te_transpose, ref_transpose},
          {"slice", kMoves, infer_slice, te_slice, ref_slice},
          {"expand", kMoves, infer_expand, te_expand, ref_expand},
          {"tile", kMoves, infer_tile, te_tile, ref_tile},
          {"depth_to_space", kMoves, infer_depth_to_space, te_depth_to_space, ref_depth_to_space},
          {"space_to_depth", kMoves, infer_space_to_depth, te_space_to_depth, ref_space_to_depth}};
}

}  // namespace tw::ops
