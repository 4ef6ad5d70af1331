// Advice: which there is for a model, and that the changed models are the ones that were meant.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "advise/activations.h"
#include "advise/advice.h"
#include "driver/machine/machine.h"
#include "tests/onnx/import_model.h"

namespace tw::advise {
namespace {

using frontend::EditableModel;
using testing::ModelBuilder;
using testing::table;

transform::TransformContext context_of(const std::string& target) {
  return {table(), targets::find_target(target).info};
}

// A model as a file, and the advice for it on vectors of 8 elements (f32 of x86-64-v3).
class Subject {
 public:
  explicit Subject(const ModelBuilder& builder, const std::string& target = "cpu:x86-64-v3")
      : file_(std::filesystem::path(::testing::TempDir()) / (test_name() + ".onnx")),
        model_(read(builder)),
        graph_(import(model_)),
        context_(context_of(target)),
        advice_(find_advice(model_, graph_, context_, {})) {}
  ~Subject() { std::filesystem::remove(file_); }

  const EditableModel& model() const { return model_; }
  const graph::Graph& graph() const { return graph_; }
  std::vector<Activation> activations() const { return find_activations(graph_, context_); }

  std::vector<std::string> whats(AdviceKind kind) const {
    std::vector<std::string> out;
    for (const Advice& a : advice_) {
      if (a.kind == kind) out.push_back(a.what);
    }
    return out;
  }
  const Advice& advice(const std::string& what) const {
    const auto found = std::ranges::find(advice_, what, &Advice::what);
    if (found == advice_.end()) throw std::runtime_error("no advice " + what);
    return *found;
  }
  EditableModel changed(const std::string& what, uint64_t seed = 0) const {
    return model_.with(advice(what).rewrites, seed);
  }
  static graph::Graph import(const EditableModel& model) {
    graph::Graph graph = model.import(table(), {}).graph;
    graph::verify(graph, table());
    return graph;
  }

 private:
  static std::string test_name() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::string(test->test_suite_name()) + test->name();
  }
  EditableModel read(const ModelBuilder& builder) const {
    const std::vector<std::byte> bytes = builder.bytes();
    std::ofstream(file_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return EditableModel::read(file_.string());
  }

  std::filesystem::path file_;
  EditableModel model_;
  graph::Graph graph_;
  transform::TransformContext context_;
  std::vector<Advice> advice_;
};

std::vector<float> numbers(int64_t count, float scale = 0.25F) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(i * 37 % 11 - 5) * scale);
  return out;
}

graph::RefTensor image(const Shape& shape) {
  graph::RefTensor x = graph::RefTensor::zeros({DataType::f32(), shape});
  for (size_t i = 0; i < x.floats.size(); ++i) x.floats[i] = static_cast<double>(i * 29 % 13) / 8 - 0.75;
  return x;
}

graph::RefTensor evaluate(const graph::Graph& graph) {
  const graph::RefTensor x = image(graph.value(graph.inputs[0]).type.shape);
  return graph::evaluate(graph, table(), {x}, graph::Rounding::kEachValue).at(graph.outputs[0]);
}

// 3 x 3.
void add_conv(ModelBuilder& b, const std::string& x, const std::string& y, int64_t from, int64_t to,
              int64_t group = 1) {
  constexpr int64_t window = 3;
  auto& conv = b.node("Conv", {x, y + ".w", y + ".b"}, {y});
  auto& pads = *conv.add_attribute();
  pads.set_name("pads");
  pads.set_type(onnx::AttributeProto::INTS);
  for (int i = 0; i < 4; ++i) pads.add_ints(window / 2);
  auto& groups = *conv.add_attribute();
  groups.set_name("group");
  groups.set_type(onnx::AttributeProto::INT);
  groups.set_i(group);
  b.floats(y + ".w", {to, from / group, window, window}, numbers(to * from / group * window * window, 0.0625F));
  b.floats(y + ".b", {to}, numbers(to));
}

// Two 3 x 3 convolutions with ReLU; the second one's channels are the model's output.
ModelBuilder two_layers() {
  ModelBuilder b;
  b.input("x", {1, 3, 8, 8}).output("y", {1, 8, 8, 8}).value_info("a", {1, 6, 8, 8});
  add_conv(b, "x", "c", 3, 6);
  b.node("Relu", {"c"}, {"a"});
  add_conv(b, "a", "d", 6, 8);
  b.node("Relu", {"d"}, {"y"});
  return b;
}

TEST(FindActivations, OneNodeOrSeveralBehindAContraction) {
  ModelBuilder b;
  b.input("x", {1, 3, 8, 8}).output("y");
  add_conv(b, "x", "c", 3, 4);
  b.node("Sigmoid", {"c"}, {"s"});
  b.node("Mul", {"c", "s"}, {"a"});
  add_conv(b, "a", "d", 4, 4);
  b.node("Add", {"d", "a"}, {"sum"});
  b.node("Mul", {"sum", "root"}, {"e0"});
  b.floats("root", {}, {0.70710678F});
  b.node("Erf", {"e0"}, {"e1"});
  b.node("Add", {"e1", "one"}, {"e2"});
  b.floats("one", {}, {1});
  b.node("Mul", {"sum", "e2"}, {"e3"});
  b.node("Mul", {"e3", "half"}, {"g"});
  b.floats("half", {}, {0.5F});
  b.node("MaxPool", {"g"}, {"pooled"}).add_attribute()->CopyFrom([] {
    onnx::AttributeProto kernel;
    kernel.set_name("kernel_shape");
    kernel.set_type(onnx::AttributeProto::INTS);
    kernel.add_ints(2);
    kernel.add_ints(2);
    return kernel;
  }());
  b.node("Tanh", {"pooled"}, {"y"});  // behind no contraction
  const Subject subject(b);
  const std::vector<Activation> found = subject.activations();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].op, "silu");
  EXPECT_EQ(subject.graph().value(found[0].source).name, "c");
  EXPECT_EQ(found[1].op, "gelu");
  EXPECT_EQ(subject.graph().value(found[1].source).name, "sum");
  EXPECT_EQ(subject.graph().value(found[1].result).name, "g");
}

TEST(Advice, IsInOneOrderAndNamesWhatItIsAbout) {
  const Subject subject(two_layers());
  EXPECT_EQ(subject.whats(AdviceKind::kActivation).front(), "hard_swish instead of relu, 2 times");
  EXPECT_EQ(subject.whats(AdviceKind::kDeepen),
            (std::vector<std::string>{"behind 3 to 6 channels at 8x8, once", "behind 6 to 8 channels at 8x8, once",
                                      "behind all but the last"}));
  EXPECT_EQ(subject.whats(AdviceKind::kAlign), std::vector<std::string>{"8 channels instead of 6 at 8x8, once"});
  EXPECT_EQ(subject.advice("behind 3 to 6 channels at 8x8, once").nodes, std::vector<std::string>{"node_c"});
}

// Each form is what the compiler takes for that operator, and computes it.
TEST(Advice, EveryActivationTakesTheOthersPlace) {
  const Subject subject(two_layers());
  for (const std::string& what : subject.whats(AdviceKind::kActivation)) {
    const graph::Graph changed = Subject::import(subject.changed(what));
    const std::vector<Activation> now = find_activations(changed, context_of("cpu:x86-64-v3"));
    ASSERT_EQ(now.size(), 2u) << what;
    EXPECT_EQ(now[0].op, what.substr(0, what.find(' ')));
    EXPECT_EQ(changed.value(now[0].source).name, "c");
    EXPECT_EQ(changed.value(now[0].result).name, "a");
    EXPECT_EQ(testing::count(changed, "relu"), 0);
  }
}

TEST(Advice, AConvolutionOfOneElementAndTheSameActivationStandBehind) {
  const Subject subject(two_layers());
  const graph::Graph changed = Subject::import(subject.changed("behind all but the last"));
  EXPECT_EQ(testing::count(changed, "conv"), 3);
  EXPECT_EQ(testing::count(changed, "relu"), 3);
  const graph::Node& behind = changed.nodes[static_cast<size_t>(changed.producer(changed.find_value("a")))];
  EXPECT_EQ(behind.op, "relu");
  const graph::Node& conv = changed.nodes[static_cast<size_t>(changed.producer(behind.inputs[0]))];
  EXPECT_EQ(changed.value(conv.inputs[1]).type, (TensorType{DataType::f32(), {6, 6, 1, 1}}));
  const auto weights =
      graph::RefTensor::from_bytes(changed.value(conv.inputs[1]).type, *changed.value(conv.inputs[1]).constant);
  EXPECT_TRUE(std::ranges::all_of(weights.floats, [](double w) { return std::fabs(w) < 1; }));
  EXPECT_GT(std::ranges::max(weights.floats), 0.5);
  EXPECT_LT(std::ranges::min(weights.floats), -0.5);
  EXPECT_EQ(changed.value(changed.find_value("c.w")).constant->size(), 6u * 27 * 4);
}

TEST(Advice, EqualSeedsMakeEqualModels) {
  const Subject subject(two_layers());
  for (const std::string what : {"behind all but the last", "8 channels instead of 6 at 8x8, once"}) {
    EXPECT_EQ(subject.changed(what, 1).bytes(), subject.changed(what, 1).bytes());
    EXPECT_NE(subject.changed(what, 1).bytes(), subject.changed(what, 2).bytes());
  }
}

// Through a normalization, a filter for each channel, a sum, a mean and a matrix product.
ModelBuilder narrow() {
  ModelBuilder b;
  b.input("x", {1, 3, 8, 8}).output("y", {1, 16});
  add_conv(b, "x", "c", 3, 6);
  b.node("BatchNormalization", {"c", "scale", "shift", "mean", "variance"}, {"n"});
  b.floats("scale", {6}, {1, 2, 3, 4, 5, 6}).name();
  b.floats("shift", {6}, numbers(6));
  b.floats("mean", {6}, numbers(6, 0.125F));
  b.floats("variance", {6}, {1, 0.5F, 2, 1, 3, 1});
  b.node("Relu", {"n"}, {"a"});
  add_conv(b, "a", "p", 6, 6, 6);
  b.node("Add", {"p", "a"}, {"s"});
  b.node("GlobalAveragePool", {"s"}, {"m"});
  b.node("Flatten", {"m"}, {"f"});
  b.node("Gemm", {"f", "g.w"}, {"y"});
  b.floats("g.w", {6, 16}, numbers(96));
  return b;
}

TEST(Advice, WiderChannelsComputeWhatTheModelComputed) {
  const Subject subject(narrow());
  const std::string what = "8 channels instead of 6 at 8x8, once";
  ASSERT_EQ(subject.whats(AdviceKind::kAlign), std::vector<std::string>{what});
  const graph::Graph changed = Subject::import(subject.changed(what));
  EXPECT_EQ(changed.value(changed.find_value("s")).type.shape, (Shape{1, 8, 8, 8}));
  EXPECT_EQ(changed.value(changed.find_value("variance")).type.shape, Shape{8});
  const graph::RefTensor before = evaluate(subject.graph()), after = evaluate(changed);
  ASSERT_EQ(before.type, after.type);
  for (size_t i = 0; i < before.floats.size(); ++i) EXPECT_NEAR(before.floats[i], after.floats[i], 1e-4);
}

TEST(Advice, ChannelsThatOthersKnowStayAsTheyAre) {
  ModelBuilder softmax = narrow();  // a sum over the channels
  softmax.node("Softmax", {"f"}, {"q"});
  softmax.output("q");
  EXPECT_TRUE(Subject(softmax).whats(AdviceKind::kAlign).empty());
  ModelBuilder output = two_layers();
  output.output("c");
  EXPECT_TRUE(Subject(output).whats(AdviceKind::kAlign).empty());
}

TEST(JoinedRewrites, RefusesTwoChangesOfOneValue) {
  const Subject subject(two_layers());
  const Advice &gelu = subject.advice("gelu instead of relu, 2 times"),
               &elu = subject.advice("elu instead of relu, 2 times"),
               &deeper = subject.advice("behind 3 to 6 channels at 8x8, once"),
               &all = subject.advice("behind all but the last");
  EXPECT_THROW(joined_rewrites({&gelu, &elu}), UsageError);
  const std::vector<frontend::Rewrite> both = joined_rewrites({&deeper, &all, &gelu});
  EXPECT_EQ(both.size(), 3u);
  const graph::Graph changed = Subject::import(subject.model().with(both, 0));
  EXPECT_EQ(testing::count(changed, "conv"), 3);
  EXPECT_EQ(testing::count(changed, "erf"), 3);
}

TEST(EditableModel, NamesWhatTheMainGraphDoesNotHave) {
  const Subject subject(two_layers());
  frontend::Rewrite rewrite{frontend::Rewrite::Kind::kExtent, "nothing"};
  rewrite.extent = 8;
  try {
    subject.model().with({&rewrite, 1}, 0);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("'nothing'"), std::string::npos);
  }
}

}  // namespace
}  // namespace tw::advise
