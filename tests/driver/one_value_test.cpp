// One value as several operands of an operator, or of several in one group: right, and as fast as two values.
#include <gtest/gtest.h>

#include "artefact/verify.h"
#include "driver/code/generate.h"
#include "plan/plan.h"
#include "tests/driver/levels.h"
#include "tests/driver/random_model.h"
#include "tests/graph/sample.h"

namespace tw::driver::test {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::ValueId;
using graph::test::add;
using Ints = std::vector<int64_t>;

struct Model {
  std::string name;
  Graph graph;
};

// Builds the graph of one input x, and of w where it asks for it.
class Builder {
 public:
  explicit Builder(Shape shape, DataType type = DataType::f32()) : type_(type) { x = input("x", std::move(shape)); }
  ValueId x;

  ValueId input(const std::string& name, Shape shape) { return graph_.add_input(name, {type_, std::move(shape)}); }
  ValueId constant(Shape shape) {
    graph::RefTensor t = graph::RefTensor::zeros({type_, std::move(shape)});
    for (size_t i = 0; i < t.floats.size(); ++i) t.floats[i] = static_cast<double>((i * 7) % 31) / 64 - 0.25;
    return graph_.add_constant("w", t.type, share(t.to_bytes()));
  }
  ValueId operator()(const std::string& op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add(graph_, op, std::move(inputs), std::move(attrs));
  }
  ValueId turned(ValueId v) {
    Ints perm(graph_.value(v).type.shape.size());
    for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
    std::swap(perm.back(), perm[perm.size() - 2]);
    return (*this)("transpose", {v}, {{"perm", perm}});
  }
  Model named(const std::string& name, std::vector<ValueId> outputs) {
    graph_.name = "one_value";
    graph_.outputs = std::move(outputs);
    return {name, graph_};
  }

 private:
  DataType type_;
  Graph graph_;
};

void add_products(std::vector<Model>& all) {
  for (const int64_t n : {1, 17, 32, 48, 64, 100}) {
    Builder b({n, n});
    all.push_back(b.named(fmt::format("x x of {}", n), {b("matmul", {b.x, b.x})}));
  }
  for (const Shape& shape : {Shape{5, 9}, {64, 130}, {3, 40, 24}}) {
    Builder b(shape), c(shape), d(shape);
    const std::string of = tw::to_string(shape);
    all.push_back(b.named("x x^T of " + of, {b("matmul", {b.x, b.turned(b.x)})}));
    all.push_back(c.named("x^T x of " + of, {c("matmul", {c.turned(c.x), c.x})}));
    const ValueId scores = d("softmax", {d("matmul", {d.x, d.turned(d.x)})});
    all.push_back(d.named("softmax(x x^T) x of " + of, {d("matmul", {scores, d.x})}));
  }
  Builder batched({3, 40, 40}), vector({33}), turned({40, 40}), f64({40, 40}, DataType::f64());
  all.push_back(batched.named("batched x x", {batched("matmul", {batched.x, batched.x})}));
  all.push_back(vector.named("x x of vectors", {vector("matmul", {vector.x, vector.x})}));
  const ValueId t = turned.turned(turned.x);
  all.push_back(turned.named("x^T x^T", {turned("matmul", {t, t})}));
  all.push_back(f64.named("x x in f64", {f64("matmul", {f64.x, f64.x})}));
}

// Operands that are something else beside: added to the product, a constant in two orders, computed before.
void add_mixed(std::vector<Model>& all) {
  const Shape shape = {48, 48};
  Builder left(shape), right(shape), constant(shape), both(shape), computed(shape), soft(shape), queries(shape);
  const ValueId w = left.constant(shape);
  all.push_back(left.named("x w + x + w", {left("add", {left("add", {left("matmul", {left.x, w}), left.x}), w})}));
  all.push_back(right.named("w x + x", {right("add", {right("matmul", {right.constant(shape), right.x}), right.x})}));
  const ValueId v = constant.constant(shape);
  const ValueId once = constant("relu", {constant("matmul", {constant.x, v})});
  const ValueId twice = constant("matmul", {once, constant.turned(v)});
  all.push_back(constant.named("relu(x w) w^T + w x", {twice, constant("matmul", {v, constant.x})}));
  const ValueId u = both.constant(shape);
  all.push_back(both.named("w w + x", {both("add", {both("matmul", {u, u}), both.x})}));
  const ValueId relu = computed("relu", {computed.x});
  all.push_back(computed.named("relu(x) relu(x)", {computed("matmul", {relu, relu})}));
  const ValueId rows = soft("softmax", {soft.x});
  all.push_back(soft.named("softmax(x) softmax(x)", {soft("matmul", {rows, rows})}));
  const ValueId kv = queries("matmul", {queries.x, queries.constant(shape)});
  const ValueId scores = queries("softmax", {queries("matmul", {queries.x, queries.turned(kv)})});
  all.push_back(queries.named("softmax(x (x w)^T) (x w)", {queries("matmul", {scores, kv})}));
}

void add_windows(std::vector<Model>& all) {
  for (const auto& [shape, pad] :
       {std::pair<Shape, int64_t>{{5, 3, 4, 6}, 1}, {{8, 16, 5, 5}, 0}, {{16, 4, 3, 3}, 1}}) {
    Builder b(shape);
    const Attrs pads{{"pads", Ints(4, pad)}};
    all.push_back(b.named("conv(x, x) of " + tw::to_string(shape), {b("conv", {b.x, b.x}, pads)}));
  }
  Builder weights({4, 8, 9, 9}), transposed({6, 6, 3, 3}), depthwise({1, 8, 3, 3}), residual({2, 16, 10, 10});
  const ValueId w = weights("slice", {weights.x},
                            {{"starts", Ints{0, 0, 2, 1}}, {"steps", Ints{1, 1, 1, 1}}, {"extents", Ints{4, 8, 3, 3}}});
  all.push_back(weights.named("conv(x, part of x)", {weights("conv", {weights.x, w})}));
  all.push_back(transposed.named("conv_transpose(x, x)", {transposed("conv_transpose", {transposed.x, transposed.x})}));
  const ValueId each = depthwise("reshape", {depthwise.x}, {{"shape", Ints{8, 1, 3, 3}}});
  all.push_back(
      depthwise.named("each channel of x with itself",
                      {depthwise("conv", {depthwise.x, each}, {{"group", int64_t{8}}, {"pads", Ints(4, 1)}})}));
  const ValueId conv = residual("conv", {residual.x, residual.constant({16, 16, 3, 3})}, {{"pads", Ints(4, 1)}});
  all.push_back(residual.named("conv(x, w) + x", {residual("relu", {residual("add", {conv, residual.x})})}));
}

void add_points(std::vector<Model>& all) {
  const Shape shape = {33, 33};
  for (const char* op : {"add", "sub", "mul", "max", "min"}) {
    Builder b(shape), c(shape);
    all.push_back(b.named(fmt::format("{}(x, x)", op), {b(op, {b.x, b.x})}));
    all.push_back(c.named(fmt::format("{}(x, x^T)", op), {c(op, {c.x, c.turned(c.x)})}));
  }
  Builder concat(shape), where(shape), equal(shape), gate(shape), norm(shape), cosine(shape);
  all.push_back(concat.named(
      "concat(x, x, x^T)", {concat("concat", {concat.x, concat.x, concat.turned(concat.x)}, {{"axis", int64_t{1}}})}));
  const ValueId less = where("less", {where.x, where.turned(where.x)});
  all.push_back(where.named("where(x < x^T, x, x)", {where("where", {less, where.x, where.x})}));
  all.push_back(equal.named("x == x", {equal("equal", {equal.x, equal.x})}));
  all.push_back(
      gate.named("x sigmoid(x) x", {gate("mul", {gate("mul", {gate.x, gate("sigmoid", {gate.x})}), gate.x})}));
  const ValueId row =
      norm("slice", {norm.x}, {{"starts", Ints{0, 0}}, {"steps", Ints{1, 1}}, {"extents", Ints{1, 33}}});
  const ValueId scale = norm("reshape", {row}, {{"shape", Ints{33}}});
  all.push_back(norm.named("layer_norm(x, row, row)",
                           {norm("layer_norm", {norm.x, scale, scale}, {{"axis", int64_t{-1}}, {"epsilon", 0.1}})}));
  const Attrs last{{"axes", Ints{-1}}, {"keepdims", int64_t{1}}};
  const ValueId dot = cosine("reduce_sum", {cosine("mul", {cosine.x, cosine.turned(cosine.x)})}, last);
  all.push_back(cosine.named("x / |x| * (x . x^T)",
                             {cosine("mul", {cosine("div", {cosine.x, cosine("reduce_l2", {cosine.x}, last)}), dot})}));
}

// Models of one kind.
struct Kind {
  const char* name;
  void (*add)(std::vector<Model>& all);
};

std::vector<Model> models(const Kind& kind) {
  std::vector<Model> all;
  kind.add(all);
  return all;
}

void expect_right(const Graph& model, const CompileOptions& options) {
  try {
    const artefact::VerifyReport report = artefact::verify_graph(model, options, random_arrays(model, 5), {});
    EXPECT_TRUE(report.ok());
    for (const artefact::GroupCheck& group : report.groups)
      EXPECT_TRUE(group.ok()) << group.group << ' ' << group.family;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

class OneValue : public ::testing::TestWithParam<Kind> {};

TEST_P(OneValue, IsRight) {
  for (const Model& model : models(GetParam())) {
    SCOPED_TRACE(model.name);
    for (const std::string level : {"x86-64-v4", "x86-64-v3"}) {
      if (!runs_here(level)) continue;
      SCOPED_TRACE(level);
      CompileOptions options;
      options.target = "cpu:" + level;
      expect_right(model.graph, options);
    }
  }
}

TEST_P(OneValue, IsRightWithOptionalPassesOff) {
  for (const Model& model : models(GetParam())) {
    SCOPED_TRACE(model.name);
    CompileOptions options;
    options.target = "cpu:x86-64";
    options.all_optional_off = true;
    expect_right(model.graph, options);
  }
}

TEST_P(OneValue, IsRightInLowPrecision) {
  for (const Model& model : models(GetParam())) {
    SCOPED_TRACE(model.name);
    if (model.graph.value(model.graph.inputs[0]).type.type != DataType::f32()) continue;
    CompileOptions options;
    options.dtype = model.name.size() % 2 == 0 ? DataType::f16() : DataType::bf16();
    expect_right(model.graph, options);
  }
}

// What is decided for two operands of one value is in the plan.
TEST_P(OneValue, PlansAreReplayed) {
  for (const Model& model : models(GetParam())) {
    SCOPED_TRACE(model.name);
    CompileOptions options;
    options.target = "cpu:x86-64-v3";
    const Compiled compiled = compile_graph(model.graph, options);
    options.plan_text = plan::to_string(compiled.plan);
    EXPECT_EQ(artefact_bytes(compile_graph(model.graph, options)), artefact_bytes(compiled));
  }
}

TEST_P(OneValue, CompilesForGpus) {
  if (const Result<bool> available = cuda_generation_available(); !available.ok()) GTEST_SKIP() << available.reason();
  for (const Model& model : models(GetParam())) {
    SCOPED_TRACE(model.name);
    CompileOptions options;
    options.target = model.name.size() % 2 == 0 ? "cuda:sm_90a" : "cuda:sm_80";
    EXPECT_NO_THROW(compile_graph(model.graph, options)) << options.target;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OneValue,
                         ::testing::Values(Kind{"products", add_products}, Kind{"mixed", add_mixed},
                                           Kind{"windows", add_windows}, Kind{"points", add_points}),
                         [](const auto& info) { return std::string(info.param.name); });

// x x is the product of two values that happen to be one: the same schedule.
TEST(OneValueOfTwo, TakesTheScheduleOfTwo) {
  const auto schedule = [](bool one) {
    Builder b({64, 64});
    const ValueId z = one ? b.x : b.input("z", {64, 64});
    CompileOptions options;
    options.target = "cpu:x86-64-v3";
    const Compiled compiled = compile_graph(b.named("product", {b("matmul", {b.x, z})}).graph, options);
    return schedule::to_string(compiled.plan.entries.at(0).groups.at(0).schedule);
  };
  EXPECT_EQ(schedule(true), schedule(false));
}

}  // namespace
}  // namespace tw::driver::test
