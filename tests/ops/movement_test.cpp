// Data movement: reshape to gather.
#include <gtest/gtest.h>

#include "check.h"
#include "support/error.h"

namespace tw::ops::test {
namespace {

TEST(Shape, Reshape) {
  const auto to = [](Shape from, Shape shape) {
    check({.op = "reshape", .inputs = {f32(std::move(from))}, .attrs = {{"shape", shape}}});
  };
  to({2, 3, 5}, {30});
  to({30}, {2, 3, 5});
  to({2, 12, 5}, {2, 3, 4, 5});
  to({2, 3, 4, 5}, {2, 12, 5});
  to({6, 35}, {14, 15});
  to({4, 6}, {6, 4});
  to({2, 3}, {1, 2, 1, 3, 1});
  to({1, 2, 1, 3, 1}, {2, 3});
  to({}, {1, 1});
  to({1}, {});
  to({0, 3}, {5, 0});
  to({2, 3, 4, 7}, {3, 2, 28});
  EXPECT_THROW(single({.op = "reshape", .inputs = {f32({6})}, .attrs = {{"shape", Ints{4}}}}), UserError);
  EXPECT_THROW(single({.op = "reshape", .inputs = {f32({6})}, .attrs = {{"shape", Ints{-1, -6}}}}), UserError);
}

TEST(Shape, Transpose) {
  for (const Ints& perm : {Ints{0, 1, 2}, Ints{0, 2, 1}, Ints{2, 0, 1}, Ints{2, 1, 0}}) {
    check({.op = "transpose", .inputs = {f32({2, 3, 5})}, .attrs = {{"perm", perm}}});
    check({.op = "transpose", .inputs = {boolean({2, 1, 5})}, .attrs = {{"perm", perm}}});
  }
  check({.op = "transpose", .inputs = {f32({})}, .attrs = {{"perm", Ints{}}}});
  const auto y = run({.op = "transpose", .inputs = {f32({2, 3})}, .attrs = {{"perm", Ints{1, 0}}}},
                     {floats({2, 3}, {1, 2, 3, 4, 5, 6})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_THROW(single({.op = "transpose", .inputs = {f32({2, 3})}, .attrs = {{"perm", Ints{0, 0}}}}), UserError);
}

TEST(Shape, Slice) {
  const auto cut = [](Ints starts, Ints steps, Ints extents) {
    return Case{
        .op = "slice", .inputs = {f32({5, 7})}, .attrs = {{"starts", starts}, {"steps", steps}, {"extents", extents}}};
  };
  check(cut({0, 0}, {1, 1}, {5, 7}));
  check(cut({1, 2}, {1, 2}, {3, 3}));
  check(cut({4, 6}, {-1, -3}, {5, 3}));
  check(cut({5, 0}, {1, 1}, {0, 7}));
  EXPECT_THROW(single(cut({1, 0}, {1, 1}, {5, 7})), UserError);
  EXPECT_THROW(single(cut({4, 0}, {-2, 1}, {4, 7})), UserError);
  EXPECT_THROW(single(cut({4}, {-2}, {4})), UserError);
}

TEST(Shape, ExpandAndTile) {
  const auto expand = [](Shape from, Shape shape) {
    check({.op = "expand", .inputs = {i64(std::move(from))}, .attrs = {{"shape", shape}}});
  };
  expand({3, 1}, {2, 3, 5});
  expand({2, 3}, {1, 1});
  expand({}, {3});
  expand({1}, {0});
  EXPECT_THROW(single({.op = "expand", .inputs = {f32({3})}, .attrs = {{"shape", Ints{4}}}}), UserError);
  check({.op = "tile", .inputs = {f32({2, 3})}, .attrs = {{"repeats", Ints{3, 2}}}});
  check({.op = "tile", .inputs = {f32({2, 3})}, .attrs = {{"repeats", Ints{1, 0}}}});
  check({.op = "tile", .inputs = {f32({0, 3})}, .attrs = {{"repeats", Ints{2, 2}}}});
  EXPECT_THROW(single({.op = "tile", .inputs = {f32({2, 3})}, .attrs = {{"repeats", Ints{3}}}}), UserError);
}

TEST(Shape, DepthAndSpace) {
  for (const char* mode : {"DCR", "CRD"}) {
    check({.op = "depth_to_space",
           .inputs = {f32({2, 12, 3, 5})},
           .attrs = {{"blocksize", int64_t{2}}, {"mode", std::string(mode)}}});
  }
  check({.op = "space_to_depth", .inputs = {f32({2, 3, 6, 9})}, .attrs = {{"blocksize", int64_t{3}}}});
  const RefTensor x = floats({1, 4, 1, 1}, {1, 2, 3, 4});
  EXPECT_EQ(
      run({.op = "depth_to_space", .inputs = {f32({1, 4, 1, 1})}, .attrs = {{"blocksize", int64_t{2}}}}, {x})[0].floats,
      x.floats);
  EXPECT_THROW(single({.op = "depth_to_space", .inputs = {f32({1, 6, 1, 1})}, .attrs = {{"blocksize", int64_t{2}}}}),
               UserError);
  EXPECT_THROW(single({.op = "space_to_depth", .inputs = {f32({1, 6, 3, 1})}, .attrs = {{"blocksize", int64_t{2}}}}),
               UserError);
}

TEST(Concat, Axes) {
  for (int64_t axis : {0, 1, -1}) {
    std::vector<TensorType> inputs;
    for (int64_t extent : {3, 1, 0, 5}) {
      Shape shape{2, 3, 4};
      shape[axis < 0 ? axis + 3 : axis] = extent;
      inputs.push_back(f32(shape));
    }
    check({.op = "concat", .inputs = inputs, .attrs = {{"axis", axis}}});
  }
  check({.op = "concat", .inputs = {i64({3})}, .attrs = {{"axis", int64_t{0}}}});
  check({.op = "concat", .inputs = {f32({0}), f32({0})}, .attrs = {{"axis", int64_t{0}}}});
  EXPECT_THROW(single({.op = "concat", .inputs = {f32({2, 3}), f32({3, 2})}, .attrs = {{"axis", int64_t{0}}}}),
               UserError);
  EXPECT_THROW(single({.op = "concat", .inputs = {f32({2}), i32({2})}, .attrs = {{"axis", int64_t{0}}}}), UserError);
}

TEST(Pad, Modes) {
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    for (const Ints& pads :
         {Ints{0, 0, 0, 0}, Ints{1, 2, 0, 1}, Ints{2, 4, 2, 4}, Ints{-1, 2, 1, -3}, Ints{5, 11, 7, 12}}) {
      check({.op = "pad",
             .inputs = {f32({3, 5})},
             .attrs = {{"pads", pads}, {"mode", std::string(mode)}, {"value", 1.5}}});
      check({.op = "pad",
             .inputs = {i32({1, 5})},
             .attrs = {{"pads", Ints{1, 2, 3, 4}}, {"mode", std::string(mode)}, {"value", int64_t{7}}}});
    }
  }
  const RefTensor x = floats({3}, {1, 2, 3});
  const auto padded = [&](const char* mode) {
    return run({.op = "pad", .inputs = {f32({3})}, .attrs = {{"pads", Ints{2, 1}}, {"mode", std::string(mode)}}},
               {x})[0]
        .floats;
  };
  EXPECT_EQ(padded("constant"), (std::vector<double>{0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(padded("edge"), (std::vector<double>{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(padded("reflect"), (std::vector<double>{3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(padded("wrap"), (std::vector<double>{2, 3, 1, 2, 3, 1}));
  check({.op = "pad", .inputs = {f32({0})}, .attrs = {{"pads", Ints{1, 2}}}});
  EXPECT_THROW(
      single({.op = "pad", .inputs = {f32({0})}, .attrs = {{"pads", Ints{1, 2}}, {"mode", std::string("edge")}}}),
      UserError);
  EXPECT_THROW(single({.op = "pad", .inputs = {f32({3})}, .attrs = {{"pads", Ints{-2, -2}}}}), UserError);
  EXPECT_THROW(single({.op = "pad", .inputs = {f32({3})}, .attrs = {{"pads", Ints{1}}}}), UserError);
}

TEST(Gather, Axes) {
  for (int64_t axis : {0, 1, 2, -1}) {
    for (const Shape& indices : {Shape{}, Shape{1}, Shape{4}, Shape{2, 3}, Shape{0}}) {
      // Beyond both ends on purpose: such indices are clamped.
      check({.op = "gather",
             .inputs = {f32({3, 5, 7}), i64(indices)},
             .attrs = {{"axis", axis}},
             .ranges = {{}, {-9, 9}}});
    }
  }
  const auto y = run({.op = "gather", .inputs = {f32({3}), i32({4})}},
                     {floats({3}, {1, 2, 3}), ints(DataType::i32(), {4}, {2, -1, -3, 99})})[0];
  EXPECT_EQ(y.floats, (std::vector<double>{3, 3, 1, 3}));
  EXPECT_THROW(single({.op = "gather", .inputs = {f32({3}), f32({4})}}), UserError);
  EXPECT_THROW(single({.op = "gather", .inputs = {f32({0}), i64({4})}}), UserError);
}

TEST(Movement, UpdateSlice) {
  const Attrs rows = {{"axis", int64_t{1}}};
  for (const TensorType& x : {f32({2, 9, 3}), f16({2, 9, 3}), i32({2, 9, 3})}) {
    for (const int64_t extent : {1, 4, 9}) {
      TensorType update = x;
      update.shape[1] = extent;
      // Positions outside are moved to where the update fits.
      for (const TensorType& position : {i64({1}), i32({}), i64({2})})
        check({.op = "update_slice", .inputs = {x, update, position}, .attrs = rows, .ranges = {{}, {}, {-3, 12}}});
    }
  }
  check({.op = "update_slice", .inputs = {f32({7}), f32({3}), i64({1})}, .ranges = {{}, {}, {0, 4}}});
  check({.op = "update_slice", .inputs = {f32({5, 1}), f32({1, 1}), i32({1, 1})}, .ranges = {{}, {}, {0, 4}}});
  check({.op = "update_slice", .inputs = {f32({5, 2}), f32({0, 2}), i64({})}});
  const auto y = run({.op = "update_slice", .inputs = {f32({4}), f32({2}), i64({})}},
                     {floats({4}, {1, 2, 3, 4}), floats({2}, {8, 9}), ints(DataType::i64(), {}, {1})});
  EXPECT_EQ(y[0].floats, (std::vector<double>{1, 8, 9, 4}));
  EXPECT_THROW(single({.op = "update_slice", .inputs = {f32({4}), f32({5}), i64({})}}), UserError);
  EXPECT_THROW(single({.op = "update_slice", .inputs = {f32({4}), f32({2}), i64({2})}}), UserError);
  EXPECT_THROW(single({.op = "update_slice", .inputs = {f32({4}), i32({2}), i64({})}}), UserError);
  EXPECT_THROW(single({.op = "update_slice", .inputs = {f32({4, 3}), f32({2, 2}), i64({})}}), UserError);
}

TEST(Gather, Elements) {
  for (int64_t axis : {0, 1, -1}) {
    check({.op = "gather_elements",
           .inputs = {f32({3, 5, 7}), i64({3, 4, 7})},
           .attrs = {{"axis", int64_t{1}}},
           .ranges = {{}, {-5, 4}}});
    check({.op = "gather_elements",
           .inputs = {i64({3, 5}), i32({2, 4})},
           .attrs = {{"axis", axis}},
           .ranges = {{}, {-3, 2}}});
  }
  EXPECT_THROW(single({.op = "gather_elements", .inputs = {f32({3, 5}), i64({4, 5})}, .attrs = {{"axis", int64_t{1}}}}),
               UserError);
}

TEST(Gather, Nd) {
  check({.op = "gather_nd", .inputs = {f32({3, 5, 7}), i64({4, 2})}, .ranges = {{}, {-3, 2}}});
  check({.op = "gather_nd", .inputs = {f32({3, 5, 7}), i64({2, 2, 3})}, .ranges = {{}, {-3, 2}}});
  check({.op = "gather_nd", .inputs = {f32({3, 5, 7}), i64({1})}, .ranges = {{}, {-3, 2}}});
  check({.op = "gather_nd",
         .inputs = {f32({3, 5, 7}), i64({3, 2, 1})},
         .attrs = {{"batch_dims", int64_t{1}}},
         .ranges = {{}, {-5, 4}}});
  EXPECT_THROW(single({.op = "gather_nd", .inputs = {f32({3, 5}), i64({2, 3})}}), UserError);
  EXPECT_THROW(single({.op = "gather_nd", .inputs = {f32({3, 5}), i64({2, 1})}, .attrs = {{"batch_dims", int64_t{1}}}}),
               UserError);
}

TEST(Gather, OneHot) {
  for (int64_t axis : {0, 1, -1}) {
    check({.op = "one_hot",
           .inputs = {i64({3, 5}), f32({2})},
           .attrs = {{"depth", int64_t{7}}, {"axis", axis}},
           .ranges = {{-9, 9}, {}}});
  }
  const auto y = run({.op = "one_hot", .inputs = {i64({3}), i32({2})}, .attrs = {{"depth", int64_t{3}}}},
                     {ints(DataType::i64(), {3}, {1, -1, 3}), ints(DataType::i32(), {2}, {5, 9})})[0];
  EXPECT_EQ(y.ints, (Ints{5, 9, 5, 5, 5, 9, 5, 5, 5}));
}

}  // namespace
}  // namespace tw::ops::test
