// Products of one activation become one: x [a b] = [x a, x b]. The queries, keys and values of an attention are three
// small products, each of which leaves most SMs of a GPU without a tile and costs a launch; together they are one of
// three times the tiles. Weights are stacked, biases too, and who read a result reads its columns of the whole.
//
// No columns are copied: products take part whose results are read through index maps only, by contractions, or by
// what a reshape or a transpose leads to. An element-wise operator right behind a product is its epilogue and would
// become a kernel of its own: the gate of a feed-forward network, say. Two products with more tiles than SMs, but not
// many more, may take longer than one of both and that kernel: the variant "always", which is measured.
#include "transform/rewrite/merge_products.h"

#include <algorithm>
#include <set>

#include "support/join.h"
#include "transform/group.h"
#include "transform/passes.h"
#include "transform/roles.h"

namespace tw::transform {
namespace {

// The dim of `shape` that columns are counted in when rows of columns are reshaped to it: what lies before it counts
// the rows. -1 when there is none.
int64_t column_dim(const Shape& shape, int64_t rows) {
  int64_t found = -1, before = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (before == rows) found = static_cast<int64_t>(d);
    before *= shape[d];
  }
  return found;
}

class ProductMerger {
 public:
  ProductMerger(const graph::Graph& graph, const graph::OpTable& ops, const MergeRules& rules, OperandStacks& stacks)
      : editor_(graph, ops), rules_(rules), stacks_(stacks) {}

  graph::Graph run() {
    editor_.for_each([&](const Node& node) {  // merged products may be read by others
      if (node.op != "matmul") return;
      const std::vector<MergedProduct> products = products_of(node.inputs[0]);
      if (products.size() > 1) merge(node.inputs[0], products);
    });
    return editor_.finish();
  }

 private:
  // ---- Which products.

  // Those of `x` that can be one, in the order of the graph.
  std::vector<MergedProduct> products_of(ValueId x) const {
    const std::set<int> readers(editor_.readers(x).begin(), editor_.readers(x).end());
    std::vector<MergedProduct> products;
    for (const int n : readers) {
      const std::optional<MergedProduct> product = product_of(editor_.node(n), x);
      const auto fits = [&](const MergedProduct& p) {
        return cuts(p, *product) && cuts(*product, p) && stacks_.fit(editor_, p, *product);
      };
      if (!product || !std::ranges::all_of(products, fits)) continue;
      products.push_back(*product);
      products.back().node = n;
    }
    return products;
  }

  // Whether the parts that `p` is read in still begin at multiples of their columns beside `other`.
  static bool cuts(const MergedProduct& p, const MergedProduct& other) {
    return std::ranges::all_of(p.runs, [&](int64_t run) { return other.columns % run == 0; });
  }

  std::optional<MergedProduct> product_of(const Node& node, ValueId x) const {
    if (node.op != "matmul" || node.inputs[0] != x || !stacks_.takes(editor_, node.inputs[1])) return std::nullopt;
    if (editor_.shape(node.inputs[1]).size() != 2 || editor_.type(node.outputs[0]).elements() == 0) return std::nullopt;
    MergedProduct product;
    product.weights = node.inputs[1];
    product.result = node.outputs[0];
    product.columns = editor_.shape(product.weights)[1];
    // Others' columns begin at whole accesses.
    if (product.columns * editor_.type(x).type.bytes() % rules_.access_bytes != 0) return std::nullopt;
    if (const Node* sum = bias_add(product)) {
      product.bias = sum->inputs[sum->inputs[0] == product.result ? 1 : 0];
      product.result = sum->outputs[0];
    }
    return is_read_in_parts(product) ? std::optional(product) : std::nullopt;
  }

  // The only reader of the product, where it adds one constant to each column.
  const Node* bias_add(const MergedProduct& product) const {
    if (editor_.use_count(product.result) != 1 || editor_.readers(product.result).empty()) return nullptr;
    const Node& sum = editor_.node(editor_.readers(product.result)[0]);
    if (sum.op != "add" || editor_.type(sum.outputs[0]) != editor_.type(product.result)) return nullptr;
    const ValueId bias = sum.inputs[sum.inputs[0] == product.result ? 1 : 0];
    const bool is_row = !editor_.shape(bias).empty() && editor_.shape(bias).back() == editor_.type(bias).elements();
    return is_row && editor_.shape(bias).back() == product.columns && stacks_.takes(editor_, bias) ? &sum : nullptr;
  }

  // Whether all readers of the product can read some columns of a larger one; finds the runs.
  bool is_read_in_parts(MergedProduct& product) const {
    if (editor_.graph().is_output(product.result) || editor_.readers(product.result).empty()) return false;
    const int64_t rows = editor_.type(product.result).elements() / product.columns;
    return std::ranges::all_of(editor_.readers(product.result), [&](int n) {
      const Node& node = editor_.node(n);
      const bool is_epilogue = role_of(editor_.ops(), node) == Role::kElementwise;
      if (node.op != "reshape")
        return (rules_.readers == MergeRules::Readers::kAll || !is_epilogue) && reads_parts(node);
      const Shape& to = editor_.shape(node.outputs[0]);
      const int64_t dim = column_dim(to, rows);
      if (dim < 0 || !is_read_by_index(node.outputs[0])) return false;
      product.runs.push_back(num_elements(Shape(to.begin() + dim + 1, to.end())));
      return true;
    });
  }

  bool reads_parts(const Node& node) const {
    const Role role = role_of(editor_.ops(), node);
    if (role == Role::kIndexMap || keeps_rows(node)) return is_read_by_index(node.outputs[0]);
    return role == Role::kContraction || role == Role::kElementwise || role == Role::kJoin;
  }

  // A reshape through which fusion reads what is moved before it.
  bool keeps_rows(const Node& node) const {
    if (node.op != "reshape") return false;
    const Shape &from = editor_.shape(node.inputs[0]), &to = editor_.shape(node.outputs[0]);
    return !from.empty() && !to.empty() && from.back() == to.back();
  }

  // Whether fusion computes the indices of `id` where its readers use them.
  bool is_read_by_index(ValueId id) const {
    return !editor_.graph().is_output(id) &&
           std::ranges::all_of(editor_.readers(id), [&](int n) { return reads_parts(editor_.node(n)); });
  }

  // ---- One instead of many.

  void merge(ValueId x, const std::vector<MergedProduct>& products) {
    const std::string name = group_name(editor_.graph(), mapped(products, &MergedProduct::node));
    const bool biased = std::ranges::any_of(products, [](const MergedProduct& p) { return p.bias != kAbsent; });
    ValueId whole = editor_.emit(name, "matmul", {x, stacks_.weights(editor_, name, products)});
    if (biased) whole = editor_.emit(name, "add", {whole, stacks_.biases(editor_, name, products)});
    int64_t first = 0;
    reshaped_.clear();
    for (const MergedProduct& p : products) {
      give_columns(p, whole, first);
      first += p.columns;
    }
  }

  // The readers of the product read columns of `whole`, from `first` on.
  void give_columns(const MergedProduct& product, ValueId whole, int64_t first) {
    const int64_t rows = editor_.type(product.result).elements() / product.columns;
    const auto columns = static_cast<int64_t>(editor_.shape(whole).size()) - 1;
    while (!editor_.readers(product.result).empty()) {
      const Node reader = editor_.node(editor_.readers(product.result)[0]);
      if (reader.op != "reshape") {
        read_part(reader, product.result, whole, columns, first);
        continue;
      }
      const ValueId part = reader.outputs[0];
      Shape to = editor_.shape(part);
      const int64_t dim = column_dim(to, rows);
      const int64_t run = num_elements(Shape(to.begin() + dim + 1, to.end()));
      to[dim] = editor_.shape(whole).back() / run;
      const auto [known, fresh] = reshaped_.try_emplace(to, kAbsent);
      if (fresh) known->second = editor_.emit(reader, "reshape", {whole}, {{"shape", to}});
      const ValueId reshaped = known->second;
      while (!editor_.readers(part).empty())
        read_part(editor_.node(editor_.readers(part)[0]), part, reshaped, dim, first / run);
    }
  }

  // `reader` reads a slice of `whole` along `dim` instead of `part`: a slice of its own, that fusion puts into its
  // group.
  void read_part(Node reader, ValueId part, ValueId whole, int64_t dim, int64_t first) {
    const Shape extents = editor_.shape(part);
    Ints starts(extents.size(), 0);
    starts[dim] = first;
    const ValueId slice = editor_.emit_slice(reader.name, whole, starts, extents);
    std::ranges::replace(reader.inputs, part, slice);
    const ValueId before = reader.outputs[0];
    editor_.replace(before, editor_.add(std::move(reader)));
  }

  Editor editor_;
  std::map<Shape, ValueId> reshaped_;  // the product that is read in parts, by shape
  const MergeRules& rules_;
  OperandStacks& stacks_;
};

// Constants side by side.
class ConstantStacks : public OperandStacks {
 public:
  bool takes(const Editor& editor, ValueId operand) const override { return editor.value(operand).is_constant(); }
  bool fit(const Editor& /*editor*/, const MergedProduct& /*a*/, const MergedProduct& /*b*/) const override {
    return true;
  }

  ValueId weights(Editor& editor, const std::string& name, const std::vector<MergedProduct>& products) override {
    int64_t columns = 0;
    for (const MergedProduct& p : products) columns += p.columns;
    const TensorType& like = editor.type(products[0].weights);
    const TensorType type{like.type, {like.shape[0], columns}};
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(type.bytes()));
    for (int64_t row = 0; row < like.shape[0]; ++row) {
      for (const MergedProduct& p : products) {
        const auto line = static_cast<ptrdiff_t>(p.columns * like.type.bytes());
        const auto begin = editor.value(p.weights).constant->begin() + row * line;
        bytes.insert(bytes.end(), begin, begin + line);
      }
    }
    return editor.add_constant(name + ".weights", type, std::move(bytes));
  }

  // A product without a bias gets that of which x + bias is x, -0 too.
  ValueId biases(Editor& editor, const std::string& name, const std::vector<MergedProduct>& products) override {
    graph::RefTensor all{.type = {editor.type(products[0].result).type, {0}}};
    for (const MergedProduct& p : products) {
      graph::RefTensor own = graph::RefTensor::zeros({all.type.type, {p.columns}});
      std::ranges::fill(own.floats, -0.0);
      if (p.bias != kAbsent) own = elements_of(editor.value(p.bias));
      append(all.floats, own.floats);
      append(all.ints, own.ints);
      all.type.shape[0] += p.columns;
    }
    return editor.add_constant(name + ".bias", all);
  }
};

}  // namespace

graph::Graph merge_products_by(const graph::Graph& graph, const graph::OpTable& ops, const MergeRules& rules,
                               OperandStacks& stacks) {
  return ProductMerger(graph, ops, rules, stacks).run();
}

graph::Graph merge_products(const graph::Graph& graph, const TransformContext& context) {
  if (context.target.kind == DeviceKind::kCpu) return graph;  // a step costs little there, and few tiles fill all cores
  ConstantStacks stacks;
  const auto readers = context.variant == kAlways ? MergeRules::Readers::kAll : MergeRules::Readers::kByIndex;
  return merge_products_by(graph, context.ops, {context.target.vector_bytes, readers}, stacks);
}

}  // namespace tw::transform
