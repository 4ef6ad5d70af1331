// Convolutions and poolings.
#include <gtest/gtest.h>

#include <limits>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

struct Geometry {
  Shape x, w;
  Attrs attrs;
};

Attrs geometry(Ints strides, Ints pads, Ints dilations, int64_t group = 1) {
  return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", group}};
}

const std::vector<Geometry> kConvolutions = {
    {{1, 1, 5, 7}, {1, 1, 1, 1}, {}},
    {{2, 3, 7, 5}, {5, 3, 3, 3}, geometry({1, 1}, {1, 1, 1, 1}, {1, 1})},
    {{1, 3, 7, 11}, {2, 3, 3, 2}, geometry({2, 3}, {0, 2, 1, 0}, {1, 1})},
    {{1, 2, 9, 9}, {3, 2, 3, 3}, geometry({2, 1}, {2, 2, 2, 2}, {2, 3})},
    {{1, 6, 5, 5}, {4, 3, 3, 3}, geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 2)},
    {{2, 4, 5, 5}, {4, 1, 3, 3}, geometry({2, 2}, {1, 1, 1, 1}, {1, 1}, 4)},  // depthwise
    {{1, 3, 5, 5}, {6, 1, 3, 3}, geometry({1, 1}, {0, 0, 0, 0}, {1, 1}, 3)},  // depthwise, two filters a channel
    {{2, 3, 11}, {2, 3, 3}, geometry({2}, {1, 2}, {2})},
    {{1, 2, 3, 5, 4}, {3, 2, 2, 3, 2}, geometry({1, 2, 1}, {1, 1, 0, 0, 1, 1}, {1, 1, 2})},
    {{1, 2, 5, 5}, {3, 2, 5, 5}, {}},
};

TEST(Conv, Geometries) {
  for (const Geometry& g : kConvolutions) {
    check({.op = "conv", .inputs = {f32(g.x), f32(g.w)}, .attrs = g.attrs, .tolerance = 1e-9});
    check({.op = "conv", .inputs = {f32(g.x), f32(g.w), f32({g.w[0]})}, .attrs = g.attrs, .tolerance = 1e-9});
    check({.op = "conv", .inputs = {f16(g.x), f16(g.w), f16({g.w[0]})}, .attrs = g.attrs, .tolerance = 1e-9});
    Attrs rounded = g.attrs;
    rounded["operands"] = "tf32";
    check({.op = "conv", .inputs = {f32(g.x), f32(g.w)}, .attrs = rounded, .tolerance = 1e-9});
  }
}

TEST(Unfold, Geometries) {
  for (const Geometry& g : kConvolutions) {
    Attrs attrs = g.attrs;
    attrs.erase("group");
    attrs["kernel_shape"] = Ints(g.w.begin() + 2, g.w.end());
    for (const TensorType& x : {f32(g.x), f16(g.x), TensorType{DataType::i32(), g.x}})
      check({.op = "unfold", .inputs = {x}, .attrs = attrs});
  }
  const RefTensor x = floats({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const Case pairs{.op = "unfold",
                   .inputs = {f32(x.type.shape)},
                   .attrs = {{"kernel_shape", Ints{1, 2}}, {"strides", Ints{1, 2}}, {"pads", Ints{0, 1, 0, 0}}}};
  EXPECT_EQ(run(pairs, {x})[0].floats, (std::vector<double>{0, 2, 0, 5, 1, 3, 4, 6}));
  EXPECT_THROW(single({.op = "unfold", .inputs = {f32({1, 2, 3})}, .attrs = {{"kernel_shape", Ints{4}}}}), UserError);
}

TEST(Conv, KnownValues) {
  const RefTensor x = floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const RefTensor w = floats({1, 1, 2, 2}, {1, 10, 100, 1000});
  const auto y = run({.op = "conv", .inputs = {f32(x.type.shape), f32(w.type.shape)}}, {x, w})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{5421, 6532, 8754, 9865}));
  const Case padded{.op = "conv",
                    .inputs = {f32(x.type.shape), f32(w.type.shape)},
                    .attrs = {{"pads", Ints{1, 0, 0, 0}}, {"strides", Ints{2, 1}}}};
  EXPECT_EQ(run(padded, {x, w})[0].floats, (std::vector<double>{2100, 3200, 8754, 9865}));
}

TEST(Conv, Rejects) {
  const auto rejects = [](Shape x, Shape w, Attrs attrs) {
    EXPECT_THROW(single({.op = "conv", .inputs = {f32(std::move(x)), f32(std::move(w))}, .attrs = std::move(attrs)}),
                 UserError);
  };
  rejects({1, 3, 5, 5}, {2, 4, 3, 3}, {});
  rejects({1, 3, 5, 5}, {2, 3, 3}, {});
  rejects({1, 3, 2, 2}, {2, 3, 3, 3}, {});
  rejects({1, 4, 5, 5}, {3, 2, 3, 3}, {{"group", int64_t{2}}});
  rejects({1, 3, 5, 5}, {2, 3, 3, 3}, {{"strides", Ints{1}}});
  rejects({1, 3, 5, 5}, {2, 3, 3, 3}, {{"strides", Ints{0, 1}}});
  rejects({1, 3, 5, 5}, {2, 3, 3, 3}, {{"pads", Ints{-1, 0, 0, 0}}});
  EXPECT_THROW(single({.op = "conv", .inputs = {f32({1, 3, 5, 5}), f32({2, 3, 3, 3}), f32({3})}}), UserError);
}

TEST(ConvInteger, ZeroPoints) {
  const Range bytes{0, 255};
  check({.op = "conv_integer",
         .inputs = {u8({1, 3, 5, 5}), u8({2, 3, 3, 3})},
         .attrs = {{"pads", Ints{1, 1, 1, 1}}},
         .ranges = {bytes}});
  check({.op = "conv_integer",
         .inputs = {u8({1, 3, 5, 5}), i8({2, 3, 3, 3}), u8({}), i8({2})},
         .attrs = {{"pads", Ints{1, 1, 1, 1}}},
         .ranges = {bytes, {-128, 127}, bytes, {-128, 127}}});
  EXPECT_THROW(single({.op = "conv_integer", .inputs = {i32({1, 3, 5, 5}), i32({2, 3, 3, 3})}}), UserError);
}

TEST(ConvTranspose, Geometries) {
  const std::vector<Geometry> cases = {
      {{1, 1, 3, 3}, {1, 1, 1, 1}, {}},
      {{2, 3, 4, 5}, {3, 2, 3, 3}, geometry({1, 1}, {0, 0, 0, 0}, {1, 1})},
      {{1, 3, 4, 5}, {3, 2, 3, 3}, geometry({2, 3}, {1, 1, 1, 0}, {1, 1})},
      {{1, 2, 3, 3}, {2, 3, 2, 3}, geometry({2, 2}, {0, 1, 0, 1}, {2, 2})},
      {{1, 4, 3, 3}, {4, 3, 3, 3}, geometry({2, 2}, {1, 1, 1, 1}, {1, 1}, 2)},
      {{1, 2, 5}, {2, 3, 4}, geometry({3}, {2, 0}, {1})},
      {{1, 2, 2, 3, 2}, {2, 2, 2, 2, 3}, geometry({2, 1, 2}, {0, 0, 1, 0, 0, 1}, {1, 1, 1})},
      {{1, 2, 5}, {2, 3, 2}, geometry({1}, {3, 0}, {1})},  // pads more than the kernel reaches
  };
  for (const Geometry& g : cases) {
    const int64_t group = g.attrs.count("group") ? std::get<int64_t>(g.attrs.at("group")) : 1;
    check({.op = "conv_transpose", .inputs = {f32(g.x), f32(g.w)}, .attrs = g.attrs, .tolerance = 1e-9});
    Attrs extra = g.attrs;
    extra["output_padding"] = Ints(g.x.size() - 2, 1);
    check({.op = "conv_transpose",
           .inputs = {f32(g.x), f32(g.w), f32({g.w[1] * group})},
           .attrs = extra,
           .tolerance = 1e-9});
    check({.op = "conv_transpose", .inputs = {f16(g.x), f16(g.w)}, .attrs = extra, .tolerance = 1e-9});
  }
  const auto y =
      run({.op = "conv_transpose", .inputs = {f32({1, 1, 2}), f32({1, 1, 3})}, .attrs = {{"strides", Ints{2}}}},
          {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{1, 2, 13, 20, 30}));
  EXPECT_THROW(single({.op = "conv_transpose", .inputs = {f32({1, 3, 4}), f32({2, 3, 3})}}), UserError);
}

Attrs phases(Ints extents, Ints spacing, Ints starts, Ints counts, int64_t group = 1) {
  return {{"extents", extents}, {"spacing", spacing}, {"starts", starts}, {"counts", counts}, {"group", group}};
}

TEST(ConvPhases, Geometries) {
  const std::vector<Geometry> cases = {
      {{1, 1, 3}, {1, 1, 1, 1}, phases({3}, {1}, {0}, {1})},
      {{2, 3, 4}, {5, 3, 2, 2}, phases({4}, {1}, {-1, 0}, {2, 2})},
      {{1, 2, 5}, {3, 2, 3, 2}, phases({5}, {1}, {0, 0, 1}, {2, 1, 1})},
      {{1, 2, 5}, {3, 2, 4, 3}, phases({3}, {2}, {-2, 1, 7, 0}, {3, 0, 2, 1})},  // a phase without filter positions
      {{1, 2, 4}, {3, 2, 3, 2}, phases({1}, {1}, {0, 1, 2}, {2, 2, 1})},         // one position of each phase
      {{1, 2, 3, 4}, {3, 2, 2, 2, 2, 2}, phases({3, 4}, {1, 1}, {-1, 0, -1, 0}, {2, 2, 2, 2})},
      {{1, 2, 3, 4}, {3, 2, 2, 1, 2, 3}, phases({4, 2}, {1, 1}, {0, 0, 1}, {1, 2, 3})},
      {{1, 4, 3, 3}, {6, 2, 2, 2, 2, 1}, phases({3, 3}, {1, 1}, {0, 0, 0, 1}, {1, 2, 1, 1}, 2)},
      {{2, 4, 3, 3}, {4, 1, 2, 2, 2, 2}, phases({3, 3}, {1, 1}, {-1, 0, -1, 0}, {2, 2, 1, 2}, 4)},  // depthwise
      {{1, 2, 2, 3, 2}, {2, 2, 2, 1, 2, 2, 3, 1}, phases({2, 3, 2}, {1, 1, 1}, {0, 0, -1, 0, 0}, {1, 2, 3, 1, 1})},
  };
  for (const Geometry& g : cases) {
    check({.op = "conv_phases", .inputs = {f32(g.x), f32(g.w)}, .attrs = g.attrs, .tolerance = 1e-9});
    check({.op = "conv_phases", .inputs = {f32(g.x), f32(g.w), f32({g.w[0]})}, .attrs = g.attrs, .tolerance = 1e-9});
    check({.op = "conv_phases", .inputs = {f16(g.x), f16(g.w), f16({g.w[0]})}, .attrs = g.attrs, .tolerance = 1e-9});
  }
}

TEST(ConvPhases, KnownValues) {
  const Case c{
      .op = "conv_phases", .inputs = {f32({1, 1, 2}), f32({1, 1, 2, 2})}, .attrs = phases({2}, {1}, {0, -1}, {1, 2})};
  // Phase 0: 3 x[q]. Phase 1: 5 x[q - 1] + 7 x[q].
  const auto y = run(c, {floats({1, 1, 2}, {1, 10}), floats({1, 1, 2, 2}, {3, 99, 5, 7})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{3, 7, 30, 75}));
}

TEST(ConvPhases, Rejects) {
  const auto rejects = [](Shape x, Shape w, Attrs attrs) {
    EXPECT_THROW(
        single({.op = "conv_phases", .inputs = {f32(std::move(x)), f32(std::move(w))}, .attrs = std::move(attrs)}),
        UserError);
  };
  rejects({1, 1, 2}, {1, 2, 2, 2}, phases({2}, {1}, {0, 0}, {1, 1}));  // channels
  rejects({1, 1, 2}, {1, 1, 2}, phases({2}, {1}, {0, 0}, {1, 1}));     // no filter positions
  rejects({1, 1, 2}, {1, 1, 2, 2}, phases({2}, {1}, {0}, {1}));        // one phase of two
  rejects({1, 1, 2}, {1, 1, 2, 2}, phases({2}, {1}, {0, 0}, {1, 3}));  // filter positions that the weights lack
  rejects({1, 1, 2}, {1, 1, 2, 2}, phases({0}, {1}, {0, 0}, {1, 1}));
  rejects({1, 1, 2}, {1, 1, 2, 2}, phases({2}, {0}, {0, 0}, {1, 1}));
}

TEST(Pool, Geometries) {
  for (const char* op : {"max_pool", "avg_pool", "lp_pool"}) {
    for (int64_t ceil : {0, 1}) {
      for (int64_t include : {0, 1}) {
        const auto with = [&](Ints kernel, Ints strides, Ints pads, Ints dilations) -> Attrs {
          return {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads},
                  {"dilations", dilations}, {"ceil_mode", ceil},  {"count_include_pad", include}};
        };
        check({.op = op,
               .inputs = {f32({2, 3, 7, 5})},
               .attrs = with({3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}),
               .tolerance = 1e-5});
        check({.op = op,
               .inputs = {f32({1, 2, 8, 9})},
               .attrs = with({3, 2}, {2, 3}, {0, 1, 1, 0}, {2, 1}),
               .tolerance = 1e-5});
        check({.op = op, .inputs = {f32({1, 2, 11})}, .attrs = with({2}, {2}, {0, 0}, {1}), .tolerance = 1e-5});
        check({.op = op,
               .inputs = {f32({1, 2, 4, 5, 3})},
               .attrs = with({2, 2, 2}, {2, 1, 2}, {1, 0, 0, 0, 1, 1}, {1, 1, 1}),
               .tolerance = 1e-5});
        check({.op = op,
               .inputs = {f16({1, 2, 5, 5})},
               .attrs = with({3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}),
               .tolerance = 1e-5});
      }
    }
  }
  check({.op = "lp_pool",
         .inputs = {f32({1, 2, 7})},
         .attrs = {{"kernel_shape", Ints{3}}, {"p", int64_t{3}}},
         .tolerance = 1e-5});
  check({.op = "max_pool",
         .inputs = {u8({1, 2, 5, 5})},
         .attrs = {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}},
         .ranges = {{0, 255}}});
  check({.op = "max_pool",
         .inputs = {i8({1, 2, 5, 5})},
         .attrs = {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}},
         .ranges = {{-128, -100}}});
  EXPECT_THROW(single({.op = "avg_pool", .inputs = {i32({1, 2, 5})}, .attrs = {{"kernel_shape", Ints{3}}}}), UserError);
  EXPECT_THROW(single({.op = "max_pool", .inputs = {f32({1, 2, 5})}, .attrs = {{"kernel_shape", Ints{3, 3}}}}),
               UserError);
}

TEST(Pool, Global) {
  for (const char* op : {"global_max_pool", "global_avg_pool", "global_lp_pool"}) {
    for (const Shape& shape : {Shape{2, 3, 5}, Shape{1, 3, 7, 7}, Shape{1, 2, 3, 4, 5}, Shape{1, 1, 1, 1}})
      check({.op = op, .inputs = {f32(shape)}, .tolerance = 1e-5});
  }
}

TEST(Pool, Indices) {
  for (int64_t order : {0, 1}) {
    const Attrs attrs{{"kernel_shape", Ints{3, 2}},
                      {"strides", Ints{2, 1}},
                      {"pads", Ints{1, 1, 1, 0}},
                      {"outputs", int64_t{2}},
                      {"storage_order", order}};
    check({.op = "max_pool", .inputs = {f32({2, 3, 7, 5})}, .attrs = attrs});
    check({.op = "max_pool", .inputs = {i8({2, 3, 7, 5})}, .attrs = attrs});  // ties
  }
  // Elements of -inf beside padding of -inf: the index is that of an element.
  const double low = -std::numeric_limits<double>::infinity();
  const auto y = run({.op = "max_pool",
                      .inputs = {f32({1, 1, 2})},
                      .attrs = {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}, {"outputs", int64_t{2}}}},
                     {floats({1, 1, 2}, {low, low})});
  EXPECT_EQ(y[1].ints, (Ints{0, 0}));
}

TEST(Pool, KnownAverages) {
  // 4 elements, window 3, stride 2, padding 1 + 1, ceil: windows {p 0 1}, {1 2 3}, and a last one {3 p -}.
  const RefTensor x = floats({1, 1, 4}, {2, 4, 6, 8});
  Attrs attrs{{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"ceil_mode", int64_t{1}}};
  EXPECT_EQ(run({.op = "avg_pool", .inputs = {f32({1, 1, 4})}, .attrs = attrs}, {x})[0].floats,
            (std::vector<double>{3, 6, 8}));
  attrs["count_include_pad"] = int64_t{1};
  EXPECT_EQ(run({.op = "avg_pool", .inputs = {f32({1, 1, 4})}, .attrs = attrs}, {x})[0].floats,
            (std::vector<double>{2, 6, 4}));
  // A last window that starts in the right padding is dropped.
  const Case drop{
      .op = "max_pool",
      .inputs = {f32({1, 1, 4})},
      .attrs = {{"kernel_shape", Ints{1}}, {"strides", Ints{2}}, {"pads", Ints{0, 1}}, {"ceil_mode", int64_t{1}}}};
  EXPECT_EQ(run(drop, {x})[0].floats, (std::vector<double>{2, 6}));
}

}  // namespace
}  // namespace tw::ops::test
