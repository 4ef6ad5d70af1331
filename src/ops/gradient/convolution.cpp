// Convolutions. With y[n, oc, o] = sum of x[n, ic, o * stride - pad + k * dilation] w[oc, ic, k]:
//   dx is the transposed convolution of dy by w, whose weights have the layout that this operator wants,
//   dw is a convolution, too: of x by dy over the images of the batch, where stride and dilation change places:
//      dw[oc, ic, k] = sum over n, o of x[n, ic, k * dilation - pad + o * stride] dy[n, oc, o]
//   so it is conv(x with batch and channels exchanged, dy likewise) of the extents of the kernel; with groups a conv of
//   one more spatial axis, the batch's.
// A transposed convolution is the same with x and y exchanged. Both are sums of products for the kernel families.
#include "ops/gradient/rules.h"

namespace tw::ops {
namespace {

// Position o * stride - pad + k * dilation of the larger side, o of the smaller one; of spatial axes.
struct Geometry {
  Shape large, kernel, small;
  Ints strides, dilations, pad;
  int64_t group = 1;
  size_t rank() const { return large.size(); }
  int64_t span(size_t d) const { return (small[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1; }
};

Shape spatial(const Term& x) {
  const Shape shape = x.shape();
  return {shape.begin() + 2, shape.end()};
}

Geometry geometry_of(const GradientCall& g, const Shape& large, const Shape& small) {
  const size_t rank = large.size();
  const graph::Node& node = g.node();
  Geometry geometry{large,
                    spatial(g.x(1)),
                    small,
                    node.ints_attr_or("strides", Ints(rank, 1)),
                    node.ints_attr_or("dilations", Ints(rank, 1)),
                    node.ints_attr_or("pads", Ints(2 * rank, 0)),
                    node.int_attr_or("group", 1)};
  geometry.pad.resize(rank);
  return geometry;
}

// Whether windows along an axis are single pixels that lie inside.
bool are_pixels(const Geometry& geometry, size_t d) {
  return geometry.kernel[d] == 1 && geometry.pad[d] == 0 && geometry.span(d) <= geometry.large[d];
}

// The small side: conv of x, which is cut where nothing reads it.
Term gathered(Term x, const Term& w, const Geometry& geometry) {
  Ints pads = geometry.pad;
  for (size_t d = 0; d < geometry.rank(); ++d) pads.push_back(geometry.span(d) - geometry.large[d] - geometry.pad[d]);
  Ints cuts(2 * x.rank(), 0);
  for (size_t d = 0; d < geometry.rank(); ++d) {
    for (size_t side : {size_t{0}, size_t{1}}) {
      int64_t& before = pads[side * geometry.rank() + d];
      cuts[side * x.rank() + 2 + d] = std::min<int64_t>(0, before);
      before = std::max<int64_t>(0, before);
    }
  }
  return emit(
      "conv", {pad(x, cuts), w},
      {{"strides", geometry.strides}, {"dilations", geometry.dilations}, {"pads", pads}, {"group", geometry.group}});
}

// The large side: conv_transpose of y. Where windows are pixels only these are sums: zeros lie between and behind.
Term spread(const Term& y, const Term& w, const Geometry& whole) {
  Geometry geometry = whole;
  Ints pads = geometry.pad, more;
  for (size_t d = 0; d < geometry.rank(); ++d) {
    if (are_pixels(whole, d)) geometry.large[d] = geometry.small[d], geometry.strides[d] = 1;
    const int64_t missing = geometry.large[d] - geometry.span(d) + geometry.pad[d];
    pads.push_back(std::max<int64_t>(0, -missing));
    more.push_back(std::max<int64_t>(0, missing));
  }
  Term x = emit("conv_transpose", {y, w},
                {{"strides", geometry.strides},
                 {"dilations", geometry.dilations},
                 {"pads", pads},
                 {"output_padding", more},
                 {"group", geometry.group}});
  Ints apart(2, 1), behind(2 * x.rank(), 0);
  for (size_t d = 0; d < geometry.rank(); ++d) apart.push_back(are_pixels(whole, d) ? whole.strides[d] : 1);
  x = spaced(x, apart);
  for (size_t d = 0; d < geometry.rank(); ++d) {
    if (are_pixels(whole, d)) behind[x.rank() + 2 + d] = whole.large[d] - x.shape()[d + 2];
  }
  return pad(x, behind);
}

Term exchanged(const Term& x) {
  Ints perm = axes_from(0, x.rank());
  std::swap(perm[0], perm[1]);
  return transpose(x, perm);
}

// [N, C, ..] as [C / group, group, N, ..].
Term by_groups(const Term& x, int64_t group) {
  const Shape shape = x.shape();
  const Shape rest(shape.begin() + 2, shape.end());
  Ints perm = axes_from(0, x.rank() + 1);
  std::swap(perm[0], perm[2]);
  return transpose(reshape(x, joined(Shape{shape[0], group, shape[1] / group}, rest)), perm);
}

// With another axis before the spatial ones, which windows cover as a whole.
Geometry with_images(Geometry g, int64_t images) {
  for (Shape* side : {&g.large, &g.small}) side->insert(side->begin(), images);
  g.kernel.insert(g.kernel.begin(), 1);
  for (Ints* ones : {&g.strides, &g.dilations}) ones->insert(ones->begin(), 1);
  g.pad.insert(g.pad.begin(), 0);
  return g;
}

// Along axes where windows are pixels the other pixels are left out, so that what remains has a stride of 1. Before
// batch and channels are exchanged: what is read in two orders is read in its own.
Term touched(const Term& large, Geometry& geometry) {
  const Shape whole = large.shape();
  Shape extents = whole;
  Ints steps(whole.size(), 1);
  for (size_t d = 0; d < geometry.rank(); ++d) {
    if (!are_pixels(geometry, d)) continue;
    steps[d + 2] = geometry.strides[d];
    extents[d + 2] = geometry.large[d] = geometry.small[d];
    geometry.strides[d] = 1;
  }
  if (extents == whole) return large;
  return emit("slice", {large}, {{"starts", Ints(whole.size(), 0)}, {"steps", steps}, {"extents", extents}});
}

// Of the weights between `large` and `small`, [channels of small, channels of large / group, kernel..].
// With groups the images are spatial where a convolution has an axis left: channels stay what is contiguous in
// channels-last storage, and where a group has one channel this convolution is depthwise, too. Else they are channels
// of their group.
Term of_weights(const Term& whole, const Term& small, Geometry geometry) {
  const Term large = touched(whole, geometry);
  constexpr size_t kMostAxes = 3;
  const int64_t group = geometry.group;
  const bool are_spatial = group > 1 && geometry.rank() < kMostAxes;
  Geometry turned = are_spatial ? with_images(geometry, large.shape()[0]) : geometry;
  std::swap(turned.kernel, turned.small);
  std::swap(turned.strides, turned.dilations);
  if (group == 1) return exchanged(gathered(exchanged(large), exchanged(small), turned));
  const Term images = by_groups(large, group);
  if (are_spatial) {
    const Term found = exchanged(gathered(images, by_groups(small, 1), turned));
    return reshape(found, joined(Shape{found.shape()[0], found.shape()[1]}, geometry.kernel));
  }
  const Shape shape = images.shape();
  const Shape channels{shape[0], shape[1] * shape[2]};
  const Term merged = reshape(images, joined(channels, Shape(shape.begin() + 3, shape.end())));
  return exchanged(gathered(merged, exchanged(small), turned));
}

Term of_bias(const GradientCall& g) {
  Ints axes = axes_from(1, g.dy().rank());
  axes[0] = 0;
  return cast(reshape(sum(g.dy(), axes), g.x(2).shape()), g.x(2).element());
}

Terms conv(const GradientCall& g) {
  const Geometry geometry = geometry_of(g, spatial(g.x()), spatial(g.dy()));
  Terms dx(g.inputs.size());
  if (g.wants(0)) dx[0] = spread(g.dy(), g.x(1), geometry);
  if (g.wants(1)) dx[1] = of_weights(g.x(), g.dy(), geometry);
  if (g.wants(2)) dx[2] = of_bias(g);
  return dx;
}

Terms conv_transpose(const GradientCall& g) {
  const Geometry geometry = geometry_of(g, spatial(g.dy()), spatial(g.x()));
  Terms dx(g.inputs.size());
  if (g.wants(0)) dx[0] = gathered(g.dy(), g.x(1), geometry);
  if (g.wants(1)) dx[1] = of_weights(g.dy(), g.x(), geometry);
  if (g.wants(2)) dx[2] = of_bias(g);
  return dx;
}

// Channel k * C + c of y is x at filter position k: every position adds what it took, as the transposed convolution
// whose filters are 1 at one position.
Terms unfold(const GradientCall& g) {
  const Shape x = g.x().shape(), kernel = g.node().ints_attr("kernel_shape"), small = spatial(g.dy());
  const int64_t count = num_elements(kernel), channels = x[1];
  const size_t rank = kernel.size();
  Geometry geometry{spatial(g.x()),
                    kernel,
                    small,
                    g.node().ints_attr_or("strides", Ints(rank, 1)),
                    g.node().ints_attr_or("dilations", Ints(rank, 1)),
                    g.node().ints_attr_or("pads", Ints(2 * rank, 0)),
                    1};
  geometry.pad.resize(rank);
  const Ints perm = joined(Ints{0, 2, 1}, axes_from(3, rank + 3));
  // [N, k, C, ..] to [N * C, k, ..]: each channel is an image.
  const Term parts = transpose(reshape(g.dy(), joined(Shape{x[0], count, channels}, small)), perm);
  const Term images = reshape(parts, joined(Shape{x[0] * channels, count}, small));
  graph::RefTensor one = graph::RefTensor::zeros({g.dy().element(), joined(Shape{count, 1}, kernel)});
  for (int64_t k = 0; k < count; ++k) one.floats[k * count + k] = 1;
  return {reshape(spread(images, g.builder.constant(one), geometry), x)};
}

}  // namespace

std::vector<GradientRow> convolution_gradients() {
  constexpr std::string_view kIntegers = "its operands are integers",
                             kPhases = "it is made from conv_transpose by pass split-phases, behind gradients",
                             kWinograd = "it is made from conv by pass choose-algorithms, behind gradients";
  return {
      by_rule("conv", conv),
      by_rule("conv_transpose", conv_transpose),
      by_rule("unfold", unfold),
      is_zero("conv_integer", kIntegers),
      is_refused("conv_words", "it is made from conv by pass pack-dot-operands, behind gradients"),
      is_refused("conv_phases", kPhases),
      is_refused("winograd_conv", kWinograd),
  };
}

}  // namespace tw::ops
