#include "artefact/bounded.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <ranges>
#include <utility>

#include "artefact/sum_errors.h"
#include "core/ulp.h"
#include "driver/tune/tolerance.h"
#include "expr/elementary.h"
#include "expr/word_product.h"
#include "ops/winograd.h"
#include "support/error.h"
#include "support/join.h"
#include "support/parallel.h"
#include "support/random.h"

namespace tw::artefact {
namespace {

using graph::RefTensor;

constexpr double kNormalizationUlps = 8;
// Of elementary functions: what they may be off by (docs/internals/vector-math.md) is 2 u an ULP, of which
// finish_bounds() makes the fourfold.
constexpr double kUnitsOfUlp = 0.5;
constexpr double kUlpsOfF64 = 8;
constexpr double kBatchNormUnits = 2;  // of a difference, a root, a quotient and a product, before the bias is added
constexpr double kGeluUnits = 6;       // of its operand: 1 + erf(x) loses the digits of a small result

// Of words that hold floats, the sign of each number is cleared.
std::vector<RefTensor> absolute(const graph::Node& node, std::vector<RefTensor> tensors) {
  const bool float_words = node.has_attr("words") && node.string_attr("words") == to_string(WordFormat::kBf16);
  for (RefTensor& t : tensors) {
    for (double& x : t.floats) x = std::fabs(x);
    for (int64_t& x : t.ints) x = float_words ? x & 0x7fff7fff : x;
  }
  return tensors;
}

// K of a contraction: for matmul the last extent of A, for convolutions the weights of one output channel.
double contraction_length(const graph::Node& node, const std::vector<RefTensor>& inputs) {
  const Shape& a = inputs[0].type.shape;
  const std::optional<WordFormat> words = parse_word_format(node.string_attr_or("words", ""));
  const double each = words ? numbers_of(*words) : 1;  // products of one step
  if (node.op.starts_with("matmul")) return a.empty() ? 1 : each * static_cast<double>(a.back());
  const Shape& w = inputs[node.op == "winograd_conv" ? ops::kWinogradKernels : 1].type.shape;
  if (node.op == "conv_phases")  // [OC, C / group, phases.., positions..]: an element is a sum over the filter
                                 // positions of one phase
    return static_cast<double>(w[1] *
                               num_elements(Shape(w.end() - static_cast<std::ptrdiff_t>(a.size() - 2), w.end())));
  return each * static_cast<double>(num_elements(w)) / static_cast<double>(std::max<int64_t>(1, w[0]));
}

// By how much more than one addition's the error of a contraction grows.
double contraction_growth(const graph::Node& node, const std::vector<RefTensor>& inputs) {
  const double of_other_steps = std::sqrt(contraction_length(node, inputs));
  return node.op == "matmul" ? std::max(of_other_steps, error_growth_of_product(inputs[0], inputs[1])) : of_other_steps;
}

// Whether a node's result has no error of its own: a whole number, one of the operands, or a sum of whole numbers that
// its type holds. Between a division and a quantized number there are only these.
bool is_exact(const graph::Node& node, const std::vector<RefTensor>& inputs, const RefTensor& out) {
  constexpr std::array<std::string_view, 6> kExact = {"round", "floor", "ceil", "min", "max", "clip"};
  if (std::ranges::find(kExact, node.op) != kExact.end()) return true;
  if (node.op != "add" && node.op != "sub") return false;
  const double most = std::ldexp(1.0, significand_bits(out.type.type));
  const auto is_whole = [&](double x) { return x == std::nearbyint(x) && std::fabs(x) <= most; };
  const auto all_whole = [&](const RefTensor& t) { return std::ranges::all_of(t.floats, is_whole); };
  return all_whole(out) && std::ranges::all_of(inputs, all_whole);
}

// Whose errors are counted: those of the algorithm that computes an operator, or of the sums that define it.
enum class Errors : uint8_t { kOfAlgorithms, kOfOperators };

// A value as it is and, where a trial moves it, as it is there.
struct Tried {
  RefTensor exact;
  std::vector<std::optional<RefTensor>> moved;
  const RefTensor& in(size_t trial) const { return moved[trial] ? *moved[trial] : exact; }
  bool has_moved() const {
    return std::ranges::any_of(
        moved, [&](const auto& t) { return t && (t->floats != exact.floats || t->ints != exact.ints); });
  }
  // Whole numbers everywhere, as behind a step: what they are moved by are steps.
  bool is_whole() const {
    const auto are_whole = [](const RefTensor& t) {
      return std::ranges::all_of(t.floats, [](double x) { return x == std::nearbyint(x); });
    };
    return are_whole(exact) && std::ranges::all_of(moved, [&](const auto& t) { return !t || are_whole(*t); });
  }
};

// Whether a result jumps where an operand passes some number: a step, a truth, an index. No error makes a NaN.
bool jumps(const graph::Node& node, const graph::Graph& body) {
  if (node.op == "is_nan" || node.op == "is_inf") return false;
  constexpr std::array<std::string_view, 4> kSteps = {"round", "floor", "ceil", "sign"};
  const auto is_float = [&](graph::ValueId id) { return id != graph::kAbsent && body.value(id).type.type.is_float(); };
  return std::ranges::any_of(node.inputs, is_float) &&
         (std::ranges::find(kSteps, node.op) != kSteps.end() || !std::ranges::all_of(node.outputs, is_float));
}

// All trials side by side, node by node: of each value nothing is kept behind the last node that reads it.
class Evaluation {
 public:
  Evaluation(const graph::Graph& body, const graph::OpTable& ops, const NumericsOptions& numerics, Errors whose)
      : body_(body), ops_(ops), numerics_(numerics), whose_(whose), summed_halves_(summed_halves()) {}

  Bounded run(const std::vector<RefTensor>& inputs, int trials) {
    set_trials(trials);
    values_.resize(body_.values.size());
    is_behind_moved_step_.resize(body_.values.size());
    for (size_t i = 0; i < inputs.size(); ++i) begin(body_.inputs[i], inputs[i]);
    const std::vector<std::vector<graph::ValueId>> last = last_reads();
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      run_node(body_.nodes[n]);
      for (const graph::ValueId id : last[n]) at(id) = {};
    }
    Bounded out;
    const auto min = whose_ == Errors::kOfAlgorithms ? driver::MinBound::kMean : driver::MinBound::kMedian;
    for (const graph::ValueId id : body_.outputs) {
      out.bounds.push_back(bounds_of(known(id), min));
      out.values.push_back(at(id).exact);
      out.is_behind_moved_step.push_back(is_behind_moved_step_[static_cast<size_t>(id)]);
    }
    return out;
  }

 private:
  // An evaluation with random errors, `times` as large as they may be.
  struct Trial {
    int number;
    double times;
    bool is_at_edges;  // of the first pair where there are steps
  };

  static constexpr size_t kPair = 2;
  // Where there are steps, each trial comes with its opposite: an error moves a number one way, or the other.
  void set_trials(int trials) {
    const bool all_f64 = std::ranges::all_of(
        body_.values, [](const graph::Value& v) { return !v.type.type.is_float() || v.type.type == DataType::f64(); });
    const bool has_steps = std::ranges::any_of(body_.nodes, [&](const auto& node) { return jumps(node, body_); });
    const std::vector<double> sizes = has_steps ? std::vector<double>{driver::kSafety, -driver::kSafety}
                                                : std::vector<double>{all_f64 ? driver::kF64Magnification : 1};
    const size_t all = std::max(static_cast<size_t>(trials), sizes.size());
    for (size_t run = 0; run < all; ++run)
      trials_.push_back(
          {static_cast<int>(run / sizes.size()), sizes[run % sizes.size()], has_steps && run < sizes.size()});
  }

  // By node: values that no later one reads, and that do not leave the graph.
  std::vector<std::vector<graph::ValueId>> last_reads() const {
    std::vector<bool> is_needed(body_.values.size(), false);
    for (const graph::ValueId id : body_.outputs) is_needed[static_cast<size_t>(id)] = true;
    std::vector<std::vector<graph::ValueId>> last(body_.nodes.size());
    for (size_t n = body_.nodes.size(); n-- > 0;) {
      for (const auto* ids : {&body_.nodes[n].inputs, &body_.nodes[n].outputs}) {
        for (const graph::ValueId id : *ids) {
          if (id == graph::kAbsent || is_needed[static_cast<size_t>(id)]) continue;
          is_needed[static_cast<size_t>(id)] = true;
          last[n].push_back(id);
        }
      }
    }
    return last;
  }

  // An input or a constant.
  void begin(graph::ValueId id, RefTensor elements) {
    Tried& value = at(id);
    value.moved.resize(trials_.size());
    for (size_t t = 0; t < trials_.size(); ++t) value.moved[t] = rounded_leaf(id, trials_[t], elements);
    value.exact = std::move(elements);
  }

  const Tried& known(graph::ValueId id) {
    const graph::Value& value = body_.value(id);
    if (value.is_constant() && at(id).moved.empty()) begin(id, RefTensor::from_bytes(value.type, *value.constant));
    return at(id);
  }

  std::vector<RefTensor> apply(const graph::Node& node, const std::vector<RefTensor>& inputs) const {
    return ops_.at(node.op).reference(graph::make_call(body_, node), inputs);
  }

  void run_node(const graph::Node& node) {
    const auto gather = [&](const auto& in) {
      return mapped(node.inputs, [&](graph::ValueId id) { return id == graph::kAbsent ? RefTensor{} : in(id); });
    };
    const std::vector<RefTensor> inputs = gather([&](graph::ValueId id) { return known(id).exact; });
    std::vector<RefTensor> exact = apply(node, inputs);
    std::vector<std::vector<double>> errors;
    for (size_t k = 0; k < exact.size(); ++k) {
      errors.push_back(own_error(node, inputs, exact, k));
      at(node.outputs[k]).moved.resize(trials_.size());
    }
    const auto edges = edges_of(node);
    parallel_for(trials_.size(), 0, [&](size_t t) {
      // Exact inputs give the exact outputs again: only their own error is added.
      const bool is_moved = std::ranges::any_of(
          node.inputs, [&](graph::ValueId id) { return id != graph::kAbsent && at(id).moved[t].has_value(); });
      std::vector<RefTensor> made =
          is_moved ? apply(node, gather([&](graph::ValueId id) { return at_edge(id, t, edges); })) : exact;
      for (size_t k = 0; k < made.size(); ++k) {
        const bool errs = add_error(errors[k], node.outputs[k], trials_[t], exact[k], made[k]);
        if (is_moved || errs) at(node.outputs[k]).moved[t] = std::move(made[k]);
      }
    });
    for (size_t k = 0; k < exact.size(); ++k) at(node.outputs[k]).exact = std::move(exact[k]);
    const auto is_behind = [&](graph::ValueId id) {
      return id != graph::kAbsent && is_behind_moved_step_[static_cast<size_t>(id)];
    };
    const auto has_moved = [&](graph::ValueId id) { return at(id).has_moved(); };
    const bool behind = std::ranges::any_of(node.inputs, is_behind) ||
                        (jumps(node, body_) && std::ranges::any_of(node.outputs, has_moved));
    for (const graph::ValueId id : node.outputs) is_behind_moved_step_[static_cast<size_t>(id)] = behind;
  }

  // How far the operands of a node that jumps may lie from what they are, as other trials than the first pair say.
  std::map<graph::ValueId, std::vector<double>> edges_of(const graph::Node& node) {
    std::map<graph::ValueId, std::vector<double>> edges;
    if (!jumps(node, body_) || trials_.back().number == 0) return edges;
    for (const graph::ValueId id : node.inputs) {
      if (id == graph::kAbsent || !at(id).exact.is_float() || at(id).is_whole()) continue;
      edges[id] = bounds_of(at(id), driver::MinBound::kMean, kPair);
    }
    return edges;
  }

  // What a trial takes for an operand: in the first pair one that lies as far off as it may.
  RefTensor at_edge(graph::ValueId id, size_t t, const std::map<graph::ValueId, std::vector<double>>& edges) {
    const auto edge = edges.find(id);
    if (edge == edges.end() || !trials_[t].is_at_edges) return at(id).in(t);
    RefTensor value = at(id).exact;
    for (size_t i = 0; i < value.floats.size(); ++i)
      value.floats[i] += sign(trials_[t], id, i) * std::copysign(edge->second[i], trials_[t].times);
    return value;
  }

  Tried& at(graph::ValueId id) { return values_[static_cast<size_t>(id)]; }

  // Adds the errors of a trial to a value that is `exact` without any: whether there are some. What a step at an edge
  // has moved farther than that they move on.
  bool add_error(const std::vector<double>& error, graph::ValueId id, const Trial& trial, const RefTensor& exact,
                 RefTensor& value) const {
    for (size_t i = 0; i < error.size(); ++i) {
      const double moved = value.floats[i] - exact.floats[i], size = error[i] * trial.times;
      const bool is_step = trial.is_at_edges && std::fabs(moved) > 2 * std::fabs(size);
      value.floats[i] += is_step ? std::copysign(size, moved) : sign(trial, id, i) * size;
    }
    return std::ranges::any_of(error, [](double e) { return e != 0; });
  }

  // Rounding error of each element of output k of one node, given exact inputs.
  std::vector<double> own_error(const graph::Node& node, const std::vector<RefTensor>& inputs,
                                const std::vector<RefTensor>& outputs, size_t k) const {
    const RefTensor& out = outputs[k];
    if (!out.is_float()) return {};
    const graph::OpClass op_class = ops_.at(node.op).op_class;
    const driver::RoundingErrors rounding = driver::rounding_errors(out.type.type);
    const double u_sum = rounding.sum;
    std::vector<double> error(out.floats.size(), 0.0);
    if (op_class == graph::OpClass::kInjective) return error;
    if (is_exact(node, inputs, out)) {
      add_stored_error(out, error);
      return error;
    }
    double scale = 0;
    RefTensor magnitude = out;
    if (node.op == "winograd_conv") {
      const graph::OpCall call = graph::make_call(body_, node);
      magnitude.floats =
          whose_ == Errors::kOfAlgorithms ? ops::winograd_magnitude(call, inputs) : ops::direct_magnitude(call, inputs);
      scale = u_sum * std::sqrt(contraction_length(node, inputs));
    } else if (op_class == graph::OpClass::kContraction) {
      magnitude = apply(node, absolute(node, inputs))[k];
      scale = u_sum * contraction_growth(node, inputs) + operand_error(node);
    } else if (node.op == "batch_norm") {
      std::vector<RefTensor> unmoved = inputs;
      std::ranges::fill(unmoved[2].floats, 0.0);
      magnitude = apply(node, unmoved)[k];
      scale = kBatchNormUnits * u_sum;
    } else if (node.op == "gelu") {
      magnitude = inputs[0];
      scale = kGeluUnits * u_sum;
    } else if (const ElementaryFunction* function = find_elementary(node.op)) {
      scale = kUnitsOfUlp * u_sum * (out.type.type == DataType::f64() ? kUlpsOfF64 : function->max_ulp);
    } else if (op_class == graph::OpClass::kReduction && node.op.starts_with("reduce")) {
      const bool is_extremum = node.op == "reduce_max" || node.op == "reduce_min";  // one of the operands
      if (!is_extremum) {
        magnitude = apply(node, absolute(node, inputs))[k];
        const std::vector<double> growth = error_growth_of_reduction(node, inputs[0], u_sum);
        for (size_t i = 0; i < growth.size(); ++i) magnitude.floats[i] *= growth[i];
        scale = u_sum;
      }
    } else if (op_class == graph::OpClass::kReduction) {
      double largest = 0;
      for (const double x : out.floats) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
      const std::vector<double> of_statistics =
          k == 0 ? error_of_statistics(node, inputs, u_sum) : std::vector<double>(error.size(), 0.0);
      for (size_t i = 0; i < error.size(); ++i)
        error[i] = std::max(kNormalizationUlps * u_sum * largest, i < of_statistics.size() ? of_statistics[i] : 0);
    }
    for (size_t i = 0; i < error.size(); ++i)
      error[i] += scale * std::fabs(magnitude.floats[i]) + rounding.of(out.floats[i]);
    add_stored_error(out, error);
    // An infinity is exact, as of a mask; moved by an infinite error it would be a NaN, and so all that reads it.
    for (size_t i = 0; i < error.size(); ++i) error[i] = std::isfinite(out.floats[i]) ? error[i] : 0;
    return error;
  }

  // The narrowest type among that of an output and those of the values that are computed.
  DataType rounded_type(DataType type) const {
    for (const graph::Node& node : body_.nodes) {
      for (const graph::ValueId id : node.outputs) type = driver::narrower(type, body_.value(id).type.type);
    }
    return type;
  }

  DataType stored_type(DataType type) const { return type == DataType::f32() ? numerics_.dtype : type; }

  // The error of storing the elements of `value` in another type: none where that type holds the element, as masks,
  // zeros and small whole numbers.
  void add_stored_error(const RefTensor& value, std::vector<double>& error) const {
    if (stored_type(value.type.type) == value.type.type) return;
    RefTensor stored = value;
    stored.type.type = stored_type(value.type.type);
    stored.round_to_type();
    const driver::RoundingErrors rounding = driver::rounding_errors(stored.type.type);
    for (size_t i = 0; i < error.size(); ++i) {
      if (stored.floats[i] != value.floats[i] && std::isfinite(value.floats[i]))
        error[i] += rounding.of(value.floats[i]);
    }
  }

  // What is no result of a node, stored in another type; nothing where that moves nothing.
  std::optional<RefTensor> rounded_leaf(graph::ValueId id, const Trial& trial, const RefTensor& value) const {
    if (stored_type(value.type.type) == value.type.type) return std::nullopt;
    std::vector<double> error(value.floats.size(), 0.0);
    add_stored_error(value, error);
    RefTensor rounded = value;
    add_error(error, id, trial, value, rounded);
    return rounded;
  }

  double operand_error(const graph::Node& node) const {
    constexpr double kTf32 = 0x1p-9;  // each operand 2^-10 at most
    const bool f32 = body_.value(node.inputs[0]).type.type == DataType::f32();
    if (f32 && numerics_.operands == Operands::kTf32 && (node.op == "matmul" || node.op == "conv")) return kTf32;
    const bool rounded = f32 && numerics_.operands == Operands::kBf16 && node.op == "matmul";
    return rounded ? driver::unit_roundoff(DataType::bf16()) : 0;
  }

  // Numbers of 16 bits that are summed, as they are or converted: where one operand is the same for a whole sum, as a
  // bias is for its column, their roundings may be alike.
  std::vector<bool> summed_halves() const {
    std::vector<bool> summed(body_.values.size(), false);
    for (const graph::Node& node : std::views::reverse(body_.nodes)) {
      const graph::OpClass op_class = ops_.at(node.op).op_class;
      const bool moves = op_class == graph::OpClass::kInjective || node.op == "cast";
      if (op_class != graph::OpClass::kReduction && !(moves && summed[node.outputs[0]])) continue;
      for (const graph::ValueId id : node.inputs)
        if (id != graph::kAbsent) summed[id] = true;
    }
    for (size_t v = 0; v < summed.size(); ++v)
      summed[v] = summed[v] && stored_type(body_.values[v].type.type).is_half();
    return summed;
  }

  // A sign for element i of value v in a trial. In the first one errors that may be alike are.
  double sign(const Trial& trial, graph::ValueId v, size_t i) const {
    if (trial.number == 0 && summed_halves_[static_cast<size_t>(v)]) return 1;
    const uint64_t stream = static_cast<uint64_t>(trial.number + 1) * 1000003u + static_cast<uint64_t>(v);
    return (split_mix(stream * kSplitMixStep + i) & 1) != 0 ? 1.0 : -1.0;
  }

  // How far the trials from `first` on, whose errors were too large by some factor, moved an output at most.
  std::vector<double> deviations(const Tried& value, size_t first) const {
    std::vector<double> most(static_cast<size_t>(value.exact.type.elements()), 0.0);
    for (size_t t = first; t < trials_.size(); ++t) {
      const double size = value.exact.is_float() ? std::fabs(trials_[t].times) : 1;  // of whole numbers: a step is one
      for (size_t i = 0; i < most.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const double deviation = std::fabs(value.in(t).at(at) - value.exact.at(at)) / size;
        if (std::isfinite(deviation)) most[i] = std::max(most[i], deviation);
      }
    }
    return most;
  }

  std::vector<double> bounds_of(const Tried& value, driver::MinBound min, size_t first = 0) const {
    std::vector<double> bounds = deviations(value, first);
    if (value.exact.is_float())
      driver::finish_bounds(rounded_type(value.exact.type.type), value.exact.floats, bounds, min);
    return bounds;
  }

  const graph::Graph& body_;
  const graph::OpTable& ops_;
  const NumericsOptions numerics_;
  const Errors whose_;
  const std::vector<bool> summed_halves_;
  std::vector<Trial> trials_;
  std::vector<Tried> values_;               // by value
  std::vector<bool> is_behind_moved_step_;  // by value: whether some trial's error moved a step that it depends on
};

}  // namespace

Bounded evaluate_bounded(const graph::Graph& body, const graph::OpTable& ops, const std::vector<RefTensor>& inputs,
                         int trials, const NumericsOptions& numerics) {
  Bounded out = Evaluation(body, ops, numerics, Errors::kOfAlgorithms).run(inputs, trials);
  const bool other_ways = std::ranges::any_of(body.nodes, [](const graph::Node& n) { return n.op == "winograd_conv"; });
  if (other_ways)
    out.operator_bounds = Evaluation(body, ops, numerics, Errors::kOfOperators).run(inputs, trials).bounds;
  return out;
}

}  // namespace tw::artefact
