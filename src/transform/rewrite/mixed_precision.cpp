// Mixed precision: what the model has in f32 becomes f16 or bf16 where that keeps its meaning
// (docs/internals/adr/0013).
//
// Every f32 value gets a form, from the inputs on:
//   flexible  nothing decides yet: model inputs, single numbers, what element-wise operators make of them; stays f32
//             and takes the type of what it meets
//   narrow    16-bit: weights and other constants of several elements, results of contractions and statistics
//   wide      f32: numbers whose range or whole value counts
// and the table below says what an operator makes of the forms of its operands. Operators of 16-bit operands compute in
// f32 and round their result once (their te says so), so a form is about what is stored and multiplied.
//
// What a state adds up from run to run, and what leads to an output of one number (a loss), is computed in f32 from the
// last products on.
#include <algorithm>
#include <array>
#include <cmath>

#include "support/join.h"
#include "transform/passes.h"
#include "transform/rules.h"

namespace tw::transform {
namespace {

using graph::OpClass;

enum class Form : uint8_t { kFlexible, kNarrow, kWide };

enum class Treatment : uint8_t {
  kConverts,    // narrow operands and results, whatever the operands were; wide where a constant does not fit
  kStatistics,  // the results are narrow, the data may be either; what is computed on the way there is f32
  kFollows,     // wide where an operand is wide, else narrow where one is narrow
  kWide,        // f32 operands and results
};
enum class Operands : uint8_t { kAll, kData };  // kData: input 0; the others are parameters, which stay f32

struct CastRule {
  Treatment treatment;
  Operands operands = Operands::kAll;
};

struct ClassRow {
  OpClass op_class;
  CastRule rule;
};
constexpr std::array<ClassRow, 5> kClasses = {{
    {OpClass::kContraction, {Treatment::kConverts}},
    {OpClass::kElementwise, {Treatment::kFollows}},
    {OpClass::kInjective, {Treatment::kFollows}},
    {OpClass::kReduction, {Treatment::kStatistics, Operands::kData}},
    {OpClass::kOpaque, {Treatment::kWide}},
}};

// One element stands for several: a mean or an extreme lies among them.
constexpr std::string_view kAmongOperands[] = {"reduce_mean",     "reduce_max",      "reduce_min",     "arg_max",
                                               "arg_min",         "max_pool",        "avg_pool",       "lp_pool",
                                               "global_max_pool", "global_avg_pool", "global_lp_pool", "max_places"};
constexpr std::string_view kPerChannel[] = {"batch_norm"};
// Results may be far larger or smaller than any operand.
constexpr std::string_view kFarFromOperands[] = {
    "exp",         "sinh",         "cosh",        "tan",         "reciprocal",
    "pow",         "reduce_sum",   "reduce_prod", "reduce_l1",   "reduce_sum_square",
    "scatter_sum", "scatter_prod", "scatter_min", "scatter_max", "scatter_elements_sum",
    "unpool",      "mean_variance"};
// What the model converts to f32 it wants there, integers among it; bits are those of an f32.
constexpr std::string_view kConversions[] = {"cast", "bitcast"};
// The state whose slice it is keeps its type from run to run.
constexpr std::string_view kUpdates[] = {"update_slice"};
// Of an angle, of which a turn more or less says nothing and the place behind the point all; within 1 themselves.
constexpr std::string_view kOfAngles[] = {"sin", "cos"};

// Operators that differ from their class.
struct OpsRow {
  std::span<const std::string_view> ops;
  CastRule rule;
};
constexpr OpsRow kOps[] = {
    {kAmongOperands, {Treatment::kFollows}}, {kPerChannel, {Treatment::kFollows, Operands::kData}},
    {kFarFromOperands, {Treatment::kWide}},  {kConversions, {Treatment::kWide}},
    {kUpdates, {Treatment::kWide}},          {kOfAngles, {Treatment::kStatistics}},
};

// A product of matrices that adds nothing up: positions times frequencies, as models spell it.
bool has_one_term(const Graph& graph, const Node& node) {
  return node.op == "matmul" && graph.value(node.inputs[0]).type.shape.back() == 1;
}

CastRule rule_of(const graph::OpTable& ops, const Graph& graph, const Node& node) {
  for (const OpsRow& row : kOps) {
    if (std::ranges::find(row.ops, node.op) != row.ops.end()) return row.rule;
  }
  // A square has twice the exponent: of deviations in a variance that a model spells out.
  if (node.op == "mul" && node.inputs[0] == node.inputs[1]) return {Treatment::kWide};
  if (has_one_term(graph, node)) return {Treatment::kFollows};
  const auto* row = std::ranges::find(kClasses, ops.at(node.op).op_class, &ClassRow::op_class);
  TW_CHECK(row != kClasses.end(), "operator '{}' has an unknown class", node.op);
  return row->rule;
}

struct Range {
  double largest;          // finite number of a type
  double smallest_normal;  // below it fewer and fewer digits are left
};
Range range_of(DataType type) { return type == DataType::f16() ? Range{65504, 0x1p-14} : Range{0x1.fep127, 0x1p-126}; }

// Whether the constant's largest finite element is one that `type` holds to full precision. A mask of -3.4e38 is not,
// nor is an epsilon of 1e-12 in f16; tiny weights beside ordinary ones do no harm.
bool fits(const graph::Value& constant, DataType type) {
  double largest = 0;
  for (const double x : elements_of(constant).floats)
    largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  const Range range = range_of(type);
  return largest == 0 || (largest >= range.smallest_normal && largest <= range.largest);
}

// Whether what is made of a value wants all its digits.
enum class Exact : uint8_t {
  kNo,
  kSteps,  // in steps that add nothing up
  kSums,   // through sums and means, too
};

// Whether operands rounded a little earlier would make another result: the node makes whole numbers of floats (indices,
// coordinates, quantized values), or takes angles.
bool takes_exact(const Graph& graph, const Node& node) {
  if (node.op == "cast") return !graph.value(node.outputs[0]).type.type.is_float();
  return node.op == "round" || node.op == "floor" || node.op == "ceil" || std::ranges::count(kOfAngles, node.op) > 0;
}

class Converter {
 public:
  Converter(const Graph& graph, const TransformContext& context)
      : ops_(context.ops), narrow_(context.dtype), out_(graph), names_(graph), exact_(graph.values.size(), Exact::kNo) {
    for (const graph::Value& value : graph.values) {
      const bool is_f32 = value.type.type == DataType::f32();
      is_f32_.push_back(is_f32);
      form_.push_back(is_f32 && value.is_constant() ? form_of(value) : Form::kFlexible);
    }
    for (const ValueId id : graph.outputs) {
      const graph::Value& value = graph.value(id);
      const bool is_state = std::ranges::find(context.states, value.name, &StateNames::after) != context.states.end();
      if (is_f32_[id] && value.type.elements() == 1) exact_[id] = Exact::kSums;
      if (is_f32_[id] && is_state) exact_[id] = std::max(exact_[id], Exact::kSteps);
    }
  }

  Graph run() {
    const auto count = static_cast<int>(out_.nodes.size());  // casts are appended
    for (int n = count - 1; n >= 0; --n) find_exact(out_.nodes[n]);
    const std::vector<std::vector<int>> readers = out_.consumers();
    for (int n = count - 1; n >= 0; --n) find_rounded(out_.nodes[n], readers);
    for (int n = 0; n < count; ++n) convert(n);
    restore_outputs();
    return graph::compact(out_);
  }

 private:
  Form form_of(const graph::Value& constant) const {
    if (!fits(constant, narrow_)) return Form::kWide;
    return constant.type.elements() > 1 ? Form::kNarrow : Form::kFlexible;
  }

  bool is_f32(ValueId id) const { return id != graph::kAbsent && is_f32_[id]; }

  Exact exact_outputs(const Node& node) const {
    Exact most = Exact::kNo;
    for (const ValueId id : node.outputs) most = std::max(most, exact_[id]);
    return most;
  }

  // What the node hands on of that to its operands: as a step that adds nothing up, or as a sum.
  Exact exact_operands(const Node& node) const {
    if (takes_exact(out_, node)) return std::max(Exact::kSteps, exact_outputs(node));
    const OpClass op_class = ops_.at(node.op).op_class;
    const bool is_step =
        op_class == OpClass::kElementwise || op_class == OpClass::kInjective || has_one_term(out_, node);
    if (is_step) return exact_outputs(node);
    const bool sums = node.op.starts_with("reduce_") && exact_outputs(node) == Exact::kSums;
    return sums ? Exact::kSums : Exact::kNo;
  }

  void find_exact(const Node& node) {
    const Exact wanted = exact_operands(node);
    for (const ValueId in : node.inputs) {
      if (is_f32(in)) exact_[in] = std::max(exact_[in], wanted);
    }
  }

  // Of a result that contractions read, as it is or moved, and nobody else but sums: these read it rounded, too, so
  // that it is stored once.
  void find_rounded(const Node& node, const std::vector<std::vector<int>>& readers) {
    for (const ValueId id : node.outputs) {
      if (!is_f32(id) || out_.is_output(id) || exact_[id] != Exact::kNo) continue;
      bool is_multiplied = false, others = false;
      for (const int n : readers[id]) {
        const Node& reader = out_.nodes[n];
        const OpClass op_class = ops_.at(reader.op).op_class;
        const bool multiplies = op_class == OpClass::kContraction && !has_one_term(out_, reader);
        const bool moves = op_class == OpClass::kInjective && rounded_.contains(reader.outputs[0]);
        const bool sums = reader.op == "reduce_sum" && exact_operands(reader) == Exact::kNo;
        is_multiplied = is_multiplied || multiplies || moves;
        others = others || !(multiplies || moves || sums);
      }
      if (is_multiplied && !others) rounded_.emplace(id, graph::kAbsent);
    }
  }

  // Of an exact result operands are f32, too: those of a statistic are only widened for it.
  Treatment treatment_of(const Node& node, Treatment usual) const {
    const Exact wanted = exact_outputs(node);
    if (wanted == Exact::kNo) return usual;
    return exact_operands(node) != Exact::kNo || usual == Treatment::kStatistics ? Treatment::kWide : usual;
  }

  // What the operands of a node come to together.
  Form join(Treatment treatment, const std::vector<ValueId>& operands) const {
    const auto any = [&](Form form, bool constants_only) {
      return std::ranges::any_of(
          operands, [&](ValueId id) { return form_[id] == form && (!constants_only || out_.value(id).is_constant()); });
    };
    if (treatment == Treatment::kWide) return Form::kWide;
    if (treatment == Treatment::kConverts) return any(Form::kWide, true) ? Form::kWide : Form::kNarrow;
    if (any(Form::kWide, false)) return Form::kWide;
    return any(Form::kNarrow, false) ? Form::kNarrow : Form::kFlexible;
  }

  void convert(int n) {
    const Node node = out_.nodes[n];
    const CastRule rule = rule_of(ops_, out_, node);
    const Treatment treatment = treatment_of(node, rule.treatment);
    const size_t reached = rule.operands == Operands::kData ? 1 : node.inputs.size();
    std::vector<ValueId> operands;
    for (size_t k = 0; k < reached; ++k) {
      if (is_f32(node.inputs[k])) operands.push_back(node.inputs[k]);
    }
    const Form form = join(treatment, operands);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (!is_f32(node.inputs[k])) continue;
      const bool narrows = k < reached && form == Form::kNarrow;
      out_.nodes[n].inputs[k] = as_type(node.inputs[k], narrows ? narrow_ : DataType::f32());
    }
    const std::vector<TensorType> types = ops_.at(node.op).output_types(graph::make_call(out_, out_.nodes[n]));
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      out_.values[node.outputs[k]].type = types[k];
      form_[node.outputs[k]] = treatment == Treatment::kStatistics ? Form::kNarrow : form;
      if (!rounded_.contains(node.outputs[k])) continue;
      const bool is_wide = form_[node.outputs[k]] == Form::kWide && types[k].type == DataType::f32();
      rounded_[node.outputs[k]] = is_wide ? as_type(node.outputs[k], narrow_) : graph::kAbsent;
      if (is_wide) form_[node.outputs[k]] = Form::kNarrow;
    }
  }

  // The value, or a copy of it, with elements of `type`.
  ValueId as_type(ValueId id, DataType type) {
    if (type == DataType::f32() && value_or(rounded_, id, graph::kAbsent) != graph::kAbsent)
      return as_type(rounded_.at(id), type);
    if (out_.value(id).type.type == type) return id;
    const auto [known, fresh] = converted_.try_emplace(id, graph::kAbsent);
    if (!fresh) return known->second;
    const std::string name = out_.value(id).name + ".converted";
    if (out_.value(id).is_constant()) {
      graph::RefTensor elements = elements_of(out_.value(id));
      elements.type.type = type;
      return known->second = out_.add_constant(name, elements.type, bytes_of(elements), &names_);
    }
    return known->second = graph::append_node(
               out_, ops_, {.op = "cast", .name = name, .attrs = {{"to", to_string(type)}}, .inputs = {id}},
               &names_)[0];
  }

  // The model's outputs have their own types and names.
  void restore_outputs() {
    for (ValueId& id : out_.outputs) {
      const bool narrowed = id < std::ssize(is_f32_) && is_f32(id) && out_.value(id).type.type == narrow_;
      if (!narrowed) continue;
      const ValueId whole = as_type(id, DataType::f32());
      if (!out_.is_output(whole)) std::swap(out_.values[id].name, out_.values[whole].name);
      id = whole;
    }
  }

  const graph::OpTable& ops_;
  const DataType narrow_;
  Graph out_;
  graph::NameSet names_;
  std::vector<Exact> exact_;  // by value
  std::vector<bool> is_f32_;  // by value of the model: whether it was f32 there
  std::vector<Form> form_;    // by value of the model
  std::map<ValueId, ValueId> converted_;
  std::map<ValueId, ValueId>
      rounded_;  // what find_rounded() found, and what is read instead once it is computed in f32
};

}  // namespace

Graph mixed_precision(const Graph& graph, const TransformContext& context) {
  if (context.dtype == DataType::f32()) return graph;
  TW_CHECK(context.dtype == DataType::f16() || context.dtype == DataType::bf16(), "f32 is not compiled as {}",
           to_string(context.dtype));
  // Models whose inputs and outputs are 16-bit have casts at their edges, which go to f32 and straight back now.
  Editor editor(Converter(graph, context).run(), context.ops);
  for (size_t n = 0; n < editor.node_count(); ++n) apply_rules(editor, movement_rules(), n);
  return editor.finish();
}

}  // namespace tw::transform
