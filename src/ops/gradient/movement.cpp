// Data movement: an element passes its gradient back to where it came from; what several places took is summed. A
// border that pad repeats is folded back; steps of slice leave zeros between.
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

Terms of_reshape(const GradientCall& g) { return {reshape(g.dy(), g.x().shape())}; }

Terms of_transpose(const GradientCall& g) {
  const Ints& perm = g.node().ints_attr("perm");
  Ints back(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) back[perm[d]] = static_cast<int64_t>(d);
  return {transpose(g.dy(), back)};
}

Terms of_expand(const GradientCall& g) { return {g.dy()}; }

// Copy r of an axis is row r of [repeats, extent].
Terms of_tile(const GradientCall& g) {
  const Ints& repeats = g.node().ints_attr("repeats");
  const Shape x = g.x().shape();
  Shape split;
  Ints axes;
  for (size_t d = 0; d < x.size(); ++d) {
    if (repeats[d] != 1) axes.push_back(std::ssize(split));
    if (repeats[d] != 1) split.push_back(repeats[d]);
    split.push_back(x[d]);
  }
  return {reshape(sum(reshape(g.dy(), split), axes), x)};
}

// Elements backwards along the axes of negative steps.
Term reversed(const Term& x, const Ints& steps) {
  Ints starts(x.rank(), 0), ones(x.rank(), 1);
  bool turns = false;
  for (size_t d = 0; d < steps.size(); ++d) {
    if (steps[d] >= 0 || x.shape()[d] <= 1) continue;
    starts[d] = x.shape()[d] - 1;
    ones[d] = -1;
    turns = true;
  }
  return turns ? emit("slice", {x}, {{"starts", starts}, {"steps", ones}, {"extents", x.shape()}}) : x;
}

Terms of_slice(const GradientCall& g) {
  const Ints &starts = g.node().ints_attr("starts"), &steps = g.node().ints_attr("steps");
  const Shape x = g.x().shape(), y = g.dy().shape();
  if (num_elements(y) == 0) return {g.builder.filled(0, g.x().type())};
  Ints apart = mapped(steps, [&](const int64_t step) { return std::abs(step); });
  const Term dx = spaced(reversed(g.dy(), steps), apart);
  Ints pads(2 * x.size(), 0);
  for (size_t d = 0; d < x.size(); ++d) {
    pads[d] = steps[d] < 0 ? starts[d] + (y[d] - 1) * steps[d] : starts[d];
    pads[x.size() + d] = x[d] - pads[d] - dx.shape()[d];
  }
  return {pad(dx, pads)};
}

Terms of_concat(const GradientCall& g) {
  const int64_t axis = normalize_axis(g.call, g.node().int_attr("axis"), g.x().rank());
  Terms dx;
  int64_t start = 0;
  for (size_t k = 0; k < g.inputs.size(); ++k) {
    const int64_t extent = g.x(k).shape()[axis];
    dx.push_back(g.wants(k) ? part(g.dy(), axis, start, extent) : Term{});
    start += extent;
  }
  return dx;
}

// The position in [0, n) that position p of a padded axis repeats; operator pad, mode by mode.
int64_t repeated(const std::string& mode, int64_t p, int64_t n) {
  if (mode == "edge") return std::clamp<int64_t>(p, 0, n - 1);
  if (mode == "wrap") return ((p % n) + n) % n;
  while (n > 1 && (p < 0 || p >= n)) p = p < 0 ? -p : 2 * (n - 1) - p;
  return n > 1 ? p : 0;
}

// One axis of dy that was padded by repeating: its middle, and both borders added where they came from.
Term folded(const GradientCall& g, const Term& dy, int64_t axis, int64_t before, int64_t n) {
  const int64_t extent = dy.shape()[axis];
  const int64_t first = std::max<int64_t>(0, before), end = std::min(extent, before + n);
  Ints around(2 * dy.rank(), 0);
  around[axis] = std::max<int64_t>(0, -before);
  around[dy.rank() + axis] = n - (end - first) - around[axis];
  Term dx = end > first ? pad(part(dy, axis, first, end - first), around) : Term{};
  const auto add_border = [&](int64_t from, int64_t count) {
    if (count <= 0) return;
    Ints to;
    for (int64_t i = from; i < from + count; ++i) to.push_back(repeated(g.node().string_attr("mode"), i - before, n));
    dx = sum_of(dx, emit("scatter_sum", {part(dy, axis, from, count), g.builder.integers(to)},
                         {{"axis", axis}, {"extent", n}}));
  };
  add_border(0, std::min(before, extent));
  add_border(std::max<int64_t>(0, before + n), extent - std::max<int64_t>(0, before + n));
  return dx;
}

Terms of_pad(const GradientCall& g) {
  const Ints& pads = g.node().ints_attr("pads");
  const Shape x = g.x().shape();
  if (g.node().string_attr_or("mode", "constant") == "constant")
    return {pad(g.dy(), mapped(pads, [](int64_t p) { return -p; }))};
  if (g.dy().type().elements() == 0) return {g.builder.filled(0, g.x().type())};
  Term dx = g.dy();
  for (size_t d = 0; d < x.size(); ++d) {
    if (pads[d] != 0 || pads[x.size() + d] != 0) dx = folded(g, dx, static_cast<int64_t>(d), pads[d], x[d]);
  }
  return {dx};
}

Terms of_depth_to_space(const GradientCall& g) {
  const int64_t b = g.node().int_attr("blocksize");
  if (g.node().string_attr_or("mode", "DCR") == "DCR") return {emit("space_to_depth", {g.dy()}, {{"blocksize", b}})};
  const Shape x = g.x().shape();  // [N, C, b, b, H, W] is y's [N, C, H, b, W, b]
  const Term cells = reshape(g.dy(), {x[0], x[1] / (b * b), x[2], b, x[3], b});
  return {reshape(transpose(cells, {0, 1, 3, 5, 2, 4}), x)};
}

Terms of_space_to_depth(const GradientCall& g) { return {emit("depth_to_space", {g.dy()}, g.node().attrs)}; }

// The position, one or one for each of the first axis, as update_slice clamps it.
Term update_position(const GradientCall& g, int64_t axis) {
  const int64_t most = g.x(0).shape()[axis] - g.x(1).shape()[axis];
  return emit("clip", {cast(g.x(2), DataType::i64())}, {{"min", int64_t{0}}, {"max", most}});
}

Terms of_update_slice(const GradientCall& g) {
  const int64_t axis = axis_of(g.call, 0);
  const size_t rank = g.x().rank();
  const auto kept = [&] {
    return emit("update_slice", {g.dy(), g.builder.filled(0, g.x(1).type()), g.x(2)}, {{"axis", axis}});
  };
  const auto rows = [&] {
    const Shape update = g.x(1).shape();
    const Term first = update_position(g, axis);
    if (g.x(2).type().elements() == 1) {
      const Term at = reshape(first, {1}) + positions(g, update[axis], 0, 1);
      return emit("gather", {g.dy(), at}, {{"axis", axis}});
    }
    const Term at = along(first, 0, rank) + positions(g, update[axis], axis, rank);
    return emit("gather_elements", {g.dy(), expand(at, update)}, {{"axis", axis}});
  };
  return {g.wants(0) ? kept() : Term{}, g.wants(1) ? rows() : Term{}, Term{}};
}

}  // namespace

std::vector<GradientRow> movement_gradients() {
  return {by_rule("reshape", of_reshape),
          by_rule("transpose", of_transpose),
          by_rule("expand", of_expand),
          by_rule("tile", of_tile),
          by_rule("slice", of_slice),
          by_rule("concat", of_concat),
          by_rule("pad", of_pad),
          by_rule("depth_to_space", of_depth_to_space),
          by_rule("space_to_depth", of_space_to_depth),
          by_rule("update_slice", of_update_slice)};
}

}  // namespace tw::ops
