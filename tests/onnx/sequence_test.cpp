// Sequences that are known at import, as torch's exporter writes split and stack.
#include <gtest/gtest.h>

#include "support/error.h"
#include "tests/onnx/import_model.h"

namespace tw::frontend {
namespace {

using namespace testing;

// i64[], or i64[n] where there are several.
void add_ints(ModelBuilder& m, const std::string& name, const std::vector<int64_t>& values) {
  onnx::TensorProto& tensor = m.ints(name, values);
  if (values.size() == 1) tensor.clear_dims();
}

// x [2, 5] in parts along axis 1, and of them what `finish` makes.
template <typename Finish>
ModelBuilder split(const std::vector<int64_t>& parts, const Finish& finish) {
  ModelBuilder m(17);
  m.input("x", {int64_t{2}, int64_t{5}}).output("y");
  add_ints(m, "parts", parts);
  set_int(m.node("SplitToSequence", {"x", "parts"}, {"s"}), "axis", 1);
  finish(m);
  return m;
}

const graph::RefTensor kX = tensor({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});

std::vector<double> part(const std::vector<int64_t>& parts, int64_t position) {
  return run(split(parts,
                   [&](ModelBuilder& m) {
                     add_ints(m, "at", {position});
                     m.node("SequenceAt", {"s", "at"}, {"y"});
                   }),
             {kX})
      .floats;
}

TEST(Sequences, PartsOfASplit) {
  EXPECT_EQ(part({2}, 0), (std::vector<double>{0, 1, 5, 6}));
  EXPECT_EQ(part({2}, 2), (std::vector<double>{4, 9})) << "the last part is smaller";
  EXPECT_EQ(part({2}, -2), (std::vector<double>{2, 3, 7, 8}));
  EXPECT_EQ(part({1, 3, 1}, 1), (std::vector<double>{1, 2, 3, 6, 7, 8}));
  EXPECT_THROW(part({2}, 3), UserError);
  EXPECT_THROW(part({2, 2}, 0), UserError);
}

TEST(Sequences, ConcatAndLength) {
  const auto whole =
      split({2}, [](ModelBuilder& m) { set_int(m.node("ConcatFromSequence", {"s"}, {"y"}), "axis", 1); });
  EXPECT_EQ(run(whole, {kX}).floats, kX.floats);
  const auto length = split({2}, [](ModelBuilder& m) {
    m.node("SequenceLength", {"s"}, {"n"});
    set_int(m.node("Cast", {"n"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  });
  EXPECT_EQ(run(length, {kX}).floats, std::vector<double>{3});
}

TEST(Sequences, Stack) {
  ModelBuilder m(17);
  m.input("x", {int64_t{2}, int64_t{5}}).output("y");
  m.node("SequenceConstruct", {"x", "x"}, {"s"});
  onnx::NodeProto& node = m.node("ConcatFromSequence", {"s"}, {"y"});
  set_int(node, "axis", 0);
  set_int(node, "new_axis", 1);
  EXPECT_EQ(run(m, {kX}).type.shape, (Shape{2, 2, 5}));
}

// A value stands for a sequence, which no other operator may take for a tensor.
TEST(Sequences, AreReadByTheirOperatorsAlone) {
  EXPECT_THROW(import_model(split({2}, [](ModelBuilder& m) { m.node("Identity", {"s"}, {"y"}); })), Unsupported);
  EXPECT_THROW(import_model(split({2}, [](ModelBuilder& m) { m.node("Shape", {"s"}, {"y"}); })), Unsupported);
}

TEST(Sequences, DoNotLeave) {
  ModelBuilder m = split({2}, [](ModelBuilder& m) { m.node("Identity", {"s"}, {"y"}); });
  m.graph().mutable_output(0)->mutable_type()->mutable_sequence_type();
  EXPECT_THROW(import_model(m), Unsupported);
}

// As torch scripts a list that a loop fills: the last row of each turn first, and the first of all is taken out again.
TEST(Sequences, OfWhatTurnsInsert) {
  ModelBuilder m(17);
  m.input("x", {int64_t{3}, int64_t{2}}).output("y");
  add_ints(m, "trips", {3});
  add_ints(m, "front", {0});
  m.node("SequenceEmpty", {}, {"none"});
  auto& loop = m.node("Loop", {"trips", "", "none"}, {"s"});
  auto& body = set_graph(loop, "body");
  body.add_input()->set_name("i");
  body.add_input()->set_name("go");
  body.add_input()->set_name("before");
  auto& nodes = *body.mutable_node();
  ModelBuilder::add_node(nodes, "Identity", {"go"}, {"goes"});
  set_int(ModelBuilder::add_node(nodes, "Gather", {"x", "i"}, {"row"}), "axis", 0);
  ModelBuilder::add_node(nodes, "SequenceInsert", {"before", "row", "front"}, {"after"});
  body.add_output()->set_name("goes");
  body.add_output()->set_name("after");
  m.node("SequenceInsert", {"s", "x"}, {"more"});
  m.node("SequenceErase", {"more"}, {"again"});
  m.node("SequenceErase", {"again", "front"}, {"rest"});
  auto& y = m.node("ConcatFromSequence", {"rest"}, {"y"});
  set_int(y, "axis", 0);
  set_int(y, "new_axis", 1);
  EXPECT_EQ(run(m, {tensor({3, 2}, {0, 1, 2, 3, 4, 5})}).floats, (std::vector<double>{2, 3, 0, 1}));
}

// From the end: before the last element, before the first of two. Nothing is before that.
TEST(Sequences, PositionsFromTheEnd) {
  const auto inserted = [](int64_t at) {
    ModelBuilder m(17);
    m.input("a", {int64_t{1}}).input("b", {int64_t{1}}).input("c", {int64_t{1}}).output("y");
    add_ints(m, "at", {at});
    m.node("SequenceConstruct", {"a", "b"}, {"s"});
    m.node("SequenceInsert", {"s", "c", "at"}, {"t"});
    set_int(m.node("ConcatFromSequence", {"t"}, {"y"}), "axis", 0);
    return run(m, {tensor({1}, {1}), tensor({1}, {2}), tensor({1}, {3})}).floats;
  };
  EXPECT_EQ(inserted(-1), (std::vector<double>{1, 3, 2}));
  EXPECT_EQ(inserted(-2), (std::vector<double>{3, 1, 2}));
  EXPECT_EQ(inserted(2), (std::vector<double>{1, 2, 3}));
  for (const int64_t at : {-3, 3}) EXPECT_THROW(inserted(at), UserError) << at;
}

}  // namespace
}  // namespace tw::frontend
