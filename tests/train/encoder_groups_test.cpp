// The groups of BERT's encoder layer, forward and backward, beside the kernels of Ivanov et al., Data Movement Is All
// You Need, 2021, table III. There contractions are calls of a library, into which nothing is fused but a factor: so
// fusion sees them here as operators without te. (With their te the element-wise operators behind them are their
// epilogues, and fewer groups are left than in the paper.)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/join.h"
#include "targets/registry.h"
#include "tests/train/kernel_names.h"
#include "tests/train/trainer.h"

namespace tw::train {
namespace {

using graph::Graph;

std::set<std::string> weights_of_layer() {
  std::set<std::string> names = {"first", "last"};
  for (const char* name : {"q", "k", "v", "o", "f1", "f2", "n1", "n2"}) {
    names.insert(name + std::string(".w"));
    names.insert(name + std::string(".b"));
  }
  return names;
}

// B 2, L 48, D 128, 2 heads; what is before the layer and behind it are contractions.
class EncoderLayer {
 public:
  std::string text() {
    input("x", "2, 48, 128");
    weights("first", "128, 128");
    op("h", "2, 48, 128", "matmul(x, first)");
    heads("q", "2, 48, 64", "0, 2, 1, 3");
    heads("k", "2, 64, 48", "0, 2, 3, 1");
    heads("v", "2, 48, 64", "0, 2, 1, 3");
    nodes_ += "  const root : f32[] = [0.125]\n";
    op("s", "2, 2, 48, 48", "matmul(q.t, k.t)");
    op("s.s", "2, 2, 48, 48", "mul(s, root)");
    op("p", "2, 2, 48, 48", "softmax(s.s) {axis = 3}");
    dropout("p", "2, 2, 48, 48");
    op("c", "2, 2, 48, 64", "matmul(p.d, v.t)");
    op("c.t", "2, 48, 2, 64", "transpose(c) {perm = [0, 2, 1, 3]}");
    op("c.r", "2, 48, 128", "reshape(c.t) {shape = [2, 48, 128]}");
    linear("o", "c.r", 128, 128);
    added_norm("n1", "o", "h");
    linear("f1", "n1", 128, 512);
    op("r", "2, 48, 512", "relu(f1.y)");
    dropout("r", "2, 48, 512");
    linear("f2", "r.d", 512, 128);
    added_norm("n2", "f2", "n1");
    weights("last", "128, 1");
    op("z", "2, 48, 1", "matmul(n2, last)");
    return "graph layer {\n" + inputs_ + nodes_ + "  output z\n}";
  }

 private:
  void input(const std::string& name, const std::string& shape) {
    inputs_ += fmt::format("  input {} : f32[{}]\n", name, shape);
  }
  void weights(const std::string& name, const std::string& shape) { input(name, shape); }
  void op(const std::string& name, const std::string& shape, const std::string& call) {
    nodes_ += fmt::format("  {} : f32[{}] = {} as {}\n", name, shape, call, name);
  }
  void linear(const std::string& name, const std::string& x, int in, int out) {
    weights(name + ".w", fmt::format("{}, {}", in, out));
    weights(name + ".b", std::to_string(out));
    op(name + ".m", fmt::format("2, 48, {}", out), fmt::format("matmul({}, {}.w)", x, name));
    op(name + ".y", fmt::format("2, 48, {}", out), fmt::format("add({}.m, {}.b)", name, name));
  }
  void heads(const std::string& name, const std::string& shape, const std::string& perm) {
    linear(name, "h", 128, 128);
    op(name + ".h", "2, 48, 2, 64", fmt::format("reshape({}.y) {{shape = [2, 48, 2, 64]}}", name));
    op(name + ".t", "2, " + shape, fmt::format("transpose({}.h) {{perm = [{}]}}", name, perm));
  }
  void dropout(const std::string& name, const std::string& shape) {
    op(name + ".d", shape, fmt::format("dropout({}) {{ratio = 0.1, seed = 0, stream = {}}}", name, streams_++));
  }
  void added_norm(const std::string& name, const std::string& linear, const std::string& residual) {
    dropout(linear + ".y", "2, 48, 128");
    op(name + ".x", "2, 48, 128", fmt::format("add({}.y.d, {})", linear, residual));
    weights(name + ".w", "128");
    weights(name + ".b", "128");
    op(name, "2, 48, 128",
       fmt::format("layer_norm({0}.x, {0}.w, {0}.b) {{axis = 2, epsilon = 1e-5, outputs = 1}}", name));
  }

  std::string inputs_, nodes_;
  int streams_ = 0;
};

// The operators of all passes, with contractions that are done elsewhere.
graph::OpTable without_contractions() {
  std::vector<graph::OpDef> rows;
  const graph::OpTable all = ops::all_ops();
  for (graph::OpDef row : all.rows()) {
    if (row.op_class == graph::OpClass::kContraction) row.op_class = graph::OpClass::kOpaque;
    rows.push_back(std::move(row));
  }
  return graph::OpTable(std::move(rows));
}

enum class Contractions : uint8_t { kElsewhere, kOurs };

struct Setting {
  std::string target;
  std::set<std::string_view> left_out = {};  // passes
  Contractions contractions = Contractions::kElsewhere;
  Products products = Products::kMerged;
};

using Names = std::vector<std::string>;

struct Kernels {
  Names names;  // in the order of the graph: forward, then backward
  Graph groups;
  transform::ReasonLog log;

  size_t count(const std::string& name) const { return static_cast<size_t>(std::ranges::count(names, name)); }
};

Kernels kernels(const Setting& setting) {
  const frontend::ImportResult model = with_constants(model_of(EncoderLayer().text(), weights_of_layer()));
  const graph::OpTable all = ops::all_ops(), apart = without_contractions();
  TrainOptions options{.loss = Loss::kMeanSquared};
  options.products = setting.products;
  const Training training = make_training(model, all, options);
  Kernels out;
  out.groups = training.functions.at(1).graph;
  EXPECT_EQ(training.functions[1].function, "grads");
  const targets::Target target = targets::find_target(setting.target);
  for (const transform::GraphPass& pass : transform::pipeline()) {
    const bool papers = setting.contractions == Contractions::kElsewhere;
    // The paper's bs sums rows, of which this pass makes sums of a product's rows.
    if (setting.left_out.contains(pass.name) || (papers && pass.name == "move-row-dots")) continue;
    // It makes one kernel of the paper's bsb and blnrd.
    if (pass.name == "fuse-row-sums") continue;
    const bool elsewhere = transform::forms_groups(pass.name) && papers;
    out.groups = pass.run(out.groups, {.ops = elsewhere ? apart : all, .target = target.info, .log = &out.log});
  }
  for (const graph::Node& group : out.groups.nodes) {
    const std::string name = kernel_name(out.groups, group);
    if (!name.empty()) out.names.push_back(name);
  }
  return out;
}

class EncoderGroups : public ::testing::TestWithParam<const char*> {};

// Table III in its order. The gradient of the second product's bias is a kernel of its own here, a baob; the paper has
// it in bdrb, whose other columns are those of the first product. bdrln has what the norm's gradient reads of it, too.
TEST_P(EncoderGroups, AreThePapersKernels) {
  EXPECT_EQ(kernels({.target = GetParam()}).names,
            (Names{"aib", "sm", "bdrln", "brd", "bdrln",  // forward
                   "bsb", "blnrd", "baob", "bdrb", "ebsb", "blnrd", "baob", "bs", "baib", "bei"}));
}

// What sums read is computed where they read it: pass fuse.
TEST_P(EncoderGroups, NeedPassFuse) {
  const Kernels without = kernels({.target = GetParam(), .left_out = {"fuse"}});
  EXPECT_EQ(without.count("bsb") + without.count("ebsb"), 0U) << "the factor of a sum was stored";
  EXPECT_LT(without.count("blnrd"), 2U);
}

// What is stored for the backward pass beside what goes on, and columns that are summed where a value is computed.
TEST_P(EncoderGroups, NeedPassFuseOutputs) {
  const Kernels without = kernels({.target = GetParam(), .left_out = {"fuse-outputs"}});
  for (const char* name : {"sm", "brd", "bdrln", "blnrd", "bdrb", "bsb", "ebsb"})
    EXPECT_EQ(without.count(name), 0U) << name;
  EXPECT_EQ(without.count("bs"), 1U);
  EXPECT_GT(without.names.size(), 25U);
}

// Parameters apart: three biases, and three gradients of them.
TEST_P(EncoderGroups, NeedStackedParameters) {
  const Kernels apart = kernels({.target = GetParam(), .products = Products::kApart});
  EXPECT_EQ(apart.count("aib"), 3U);
  EXPECT_EQ(apart.count("baib"), 0U);
  EXPECT_EQ(kernels({.target = GetParam()}).count("baib"), 1U);
}

// With products that have epilogues, as they are compiled, these take what is computed point by point: of the paper's
// kernels those are left that combine rows or columns.
TEST_P(EncoderGroups, AreFewerWhereProductsHaveEpilogues) {
  const Kernels ours = kernels({.target = GetParam(), .contractions = Contractions::kOurs});
  for (const char* name : {"aib", "brd", "bdrln", "bdrb", "bei"}) EXPECT_EQ(ours.count(name), 0U) << name;
  EXPECT_EQ(ours.count("blnrd"), 2U);
  EXPECT_EQ(ours.count("dropout+softmax"), 1U) << "sm, but for its factor";
  EXPECT_EQ(ours.count("bs") + ours.count("scale+softmax-gradient"), 0U) << "but for its sum it is an epilogue, too";
  EXPECT_LT(ours.names.size(), kernels({.target = GetParam()}).names.size());
}

// The rules of the four structural patterns, each on an edge of the layer: a map into a map and into a reduction, a
// reduction into a map, and values of one space side by side.
TEST_P(EncoderGroups, AreFoundByTheRules) {
  const Kernels k = kernels({.target = GetParam()});
  std::set<std::string> rules;
  for (const graph::Node& group : k.groups.nodes) {
    for (const graph::Node& reader : group.body->nodes) {
      for (const graph::ValueId in : reader.inputs) {
        const Why* why =
            in == graph::kAbsent ? nullptr : k.log.find(transform::EdgeFate::kFused, *group.body, in, reader);
        if (why != nullptr) rules.insert(why->rule);
      }
    }
  }
  for (const char* rule : {"map", "reduction", "points", "column-sums", "statistics"})
    EXPECT_TRUE(rules.contains(rule)) << rule << " of " << fmt::format("{}", rules);
}

INSTANTIATE_TEST_SUITE_P(On, EncoderGroups, ::testing::Values("cpu:x86-64-v4", "cuda:sm_90a"));

}  // namespace
}  // namespace tw::train
