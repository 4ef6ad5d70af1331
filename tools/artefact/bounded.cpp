#include "artefact/bounded.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>

#include "core/ulp.h"
#include "driver/tune/tolerance.h"
#include "expr/elementary.h"
#include "expr/word_product.h"
#include "ops/winograd.h"
#include "support/error.h"
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

// Terms that one output element sums: elements of the operand that is summed over / elements it is summed to.
double sum_length(const std::vector<RefTensor>& inputs, const RefTensor& out) {
  double terms = 1;
  for (const RefTensor& in : inputs) {
    if (out.type.elements() > 0)
      terms = std::max(terms, static_cast<double>(in.type.elements()) / static_cast<double>(out.type.elements()));
  }
  return terms;
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

class Evaluation {
 public:
  Evaluation(const graph::Graph& body, const graph::OpTable& ops, const std::vector<RefTensor>& inputs,
             const NumericsOptions& numerics, Errors whose)
      : body_(body), ops_(ops), numerics_(numerics), whose_(whose) {
    summed_halves_ = summed_halves();
    exact_.resize(body.values.size());
    errors_.resize(body.values.size());
    for (size_t i = 0; i < inputs.size(); ++i) exact_[body.inputs[i]] = inputs[i];
    for (size_t v = 0; v < body.values.size(); ++v) {
      if (body.values[v].is_constant())
        exact_[v] = RefTensor::from_bytes(body.values[v].type, *body.values[v].constant);
    }
    const bool all_f64 = std::ranges::all_of(
        body.values, [](const graph::Value& v) { return !v.type.type.is_float() || v.type.type == DataType::f64(); });
    magnification_ = all_f64 ? driver::kF64Magnification : 1;
    for (const graph::Node& node : body.nodes) run_exact(node);
    has_steps_ = std::ranges::any_of(body.nodes, [&](const graph::Node& node) {
      const auto is_float = [&](graph::ValueId id) {
        return id != graph::kAbsent && body.value(id).type.type.is_float();
      };
      return std::ranges::any_of(node.inputs, is_float) && !std::ranges::all_of(node.outputs, is_float);
    });
  }

  Bounded run(int trials) {
    Bounded out;
    for (const graph::ValueId id : body_.outputs) {
      out.values.push_back(exact_[id]);
      out.bounds.emplace_back(exact_[id].type.elements(), 0.0);
    }
    // Where there are steps, each trial comes with its opposite: an error moves a number one way, or the other.
    const std::vector<double> sizes =
        has_steps_ ? std::vector<double>{driver::kSafety, -driver::kSafety} : std::vector<double>{magnification_};
    const int all = std::max(trials, static_cast<int>(sizes.size()));
    for (int run = 0; run < all; ++run) {
      const double times = sizes[static_cast<size_t>(run) % sizes.size()];
      add_deviations(run_trial(run / static_cast<int>(sizes.size()), times), std::fabs(times), out);
    }
    const auto min = whose_ == Errors::kOfAlgorithms ? driver::MinBound::kMean : driver::MinBound::kMedian;
    for (size_t o = 0; o < out.values.size(); ++o) {
      if (out.values[o].is_float())
        driver::finish_bounds(rounded_type(out.values[o].type.type), out.values[o].floats, out.bounds[o], min);
    }
    return out;
  }

 private:
  std::vector<RefTensor> gather(const graph::Node& node, const std::vector<RefTensor>& values) const {
    std::vector<RefTensor> inputs;
    for (const graph::ValueId id : node.inputs) inputs.push_back(id == graph::kAbsent ? RefTensor{} : values[id]);
    return inputs;
  }

  std::vector<RefTensor> apply(const graph::Node& node, const std::vector<RefTensor>& inputs) const {
    return ops_.at(node.op).reference(graph::make_call(body_, node), inputs);
  }

  void run_exact(const graph::Node& node) {
    const std::vector<RefTensor> inputs = gather(node, exact_);
    std::vector<RefTensor> outputs = apply(node, inputs);
    for (size_t k = 0; k < outputs.size(); ++k) {
      errors_[node.outputs[k]] = own_error(node, inputs, outputs, k);
      exact_[node.outputs[k]] = std::move(outputs[k]);
    }
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
      scale = u_sum * std::sqrt(contraction_length(node, inputs)) + operand_error(node);
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
      // An extremum is no larger than itself, whatever else there is: infinities stand for rows that are not there.
      const bool is_extremum = node.op == "reduce_max" || node.op == "reduce_min";
      if (!is_extremum) magnitude = apply(node, absolute(node, inputs))[k];
      scale = u_sum * std::sqrt(sum_length(inputs, out));
      if (node.op == "reduce_sum" || node.op == "reduce_mean") widen_alike(node, inputs, u_sum, magnitude);
    } else if (op_class == graph::OpClass::kReduction) {
      double largest = 0;
      for (const double x : out.floats) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
      for (double& e : error) e = kNormalizationUlps * u_sum * largest;
    }
    for (size_t i = 0; i < error.size(); ++i)
      error[i] += scale * std::fabs(magnitude.floats[i]) + rounding.of(out.floats[i]);
    add_stored_error(out, error);
    // An infinity is exact, as of a mask; moved by an infinite error it would be a NaN, and so all that reads it.
    for (size_t i = 0; i < error.size(); ++i) error[i] = std::isfinite(out.floats[i]) ? error[i] : 0;
    return error;
  }

  // Terms that are alike round alike: where those of a sum differ by less than the spacing of its parts, errors of all
  // steps may have one sign.
  void widen_alike(const graph::Node& node, const std::vector<RefTensor>& inputs, double u,
                   RefTensor& magnitude) const {
    graph::Node extreme = node;
    extreme.op = "reduce_max";
    const RefTensor most = apply(extreme, inputs)[0];
    extreme.op = "reduce_min";
    const RefTensor least = apply(extreme, inputs)[0];
    const double terms = sum_length(inputs, most);
    for (size_t i = 0; i < most.floats.size(); ++i) {
      const double largest = std::max(std::fabs(most.floats[i]), std::fabs(least.floats[i]));
      if (most.floats[i] - least.floats[i] <= 2 * u * terms * largest) magnitude.floats[i] *= std::sqrt(terms);
    }
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

  // Stores what is no result of a node, inputs and constants, in another type: returns whether that may move anything.
  bool round_leaf(graph::ValueId id, int trial, double times, RefTensor& value) const {
    if (stored_type(value.type.type) == value.type.type || body_.producer(id) >= 0) return false;
    std::vector<double> error(value.floats.size(), 0.0);
    add_stored_error(value, error);
    for (size_t i = 0; i < error.size(); ++i) value.floats[i] += sign(trial, id, i) * error[i] * times;
    return true;
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
  double sign(int trial, graph::ValueId v, size_t i) const {
    if (trial == 0 && summed_halves_[v]) return 1;
    const uint64_t stream = static_cast<uint64_t>(trial + 1) * 1000003u + static_cast<uint64_t>(v);
    return (split_mix(stream * kSplitMixStep + i) & 1) != 0 ? 1.0 : -1.0;
  }

  // All values with the errors of one trial, `times` as large as they may be.
  std::vector<RefTensor> run_trial(int trial, double times) const {
    std::vector<RefTensor> values = exact_;
    std::vector<bool> moved(values.size(), false);
    for (size_t v = 0; v < values.size(); ++v)
      moved[v] = round_leaf(static_cast<graph::ValueId>(v), trial, times, values[v]);
    for (const graph::Node& node : body_.nodes) {
      // Exact inputs give the exact outputs again: only their own error is added.
      const bool same =
          std::none_of(node.inputs.begin(), node.inputs.end(), [&](graph::ValueId id) { return id >= 0 && moved[id]; });
      std::vector<RefTensor> outputs;
      if (!same) outputs = apply(node, gather(node, values));
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        const graph::ValueId id = node.outputs[k];
        RefTensor result = same ? exact_[id] : std::move(outputs[k]);
        for (size_t i = 0; i < errors_[id].size(); ++i) result.floats[i] += sign(trial, id, i) * errors_[id][i] * times;
        values[id] = std::move(result);
        moved[id] = true;
      }
    }
    return values;
  }

  // How far a trial, whose errors were `times` too large, moved the outputs.
  void add_deviations(const std::vector<RefTensor>& values, double times, Bounded& out) const {
    for (size_t o = 0; o < out.values.size(); ++o) {
      const RefTensor& moved = values[body_.outputs[o]];
      for (size_t i = 0; i < out.bounds[o].size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const double size = moved.is_float() ? times : 1;  // of whole numbers: a step is one
        const double deviation = std::fabs(moved.at(at) - out.values[o].at(at)) / size;
        if (std::isfinite(deviation)) out.bounds[o][i] = std::max(out.bounds[o][i], deviation);
      }
    }
  }

  const graph::Graph& body_;
  const graph::OpTable& ops_;
  const NumericsOptions numerics_;
  const Errors whose_;
  std::vector<bool> summed_halves_;
  std::vector<RefTensor> exact_;
  std::vector<std::vector<double>> errors_;
  double magnification_ = 1;  // of the errors, while their effect is looked for
  bool has_steps_ = false;    // whole numbers are made of floats: an effect is nothing, or a step
};

}  // namespace

Bounded evaluate_bounded(const graph::Graph& body, const graph::OpTable& ops, const std::vector<RefTensor>& inputs,
                         int trials, const NumericsOptions& numerics) {
  Bounded out = Evaluation(body, ops, inputs, numerics, Errors::kOfAlgorithms).run(trials);
  const bool other_ways = std::ranges::any_of(body.nodes, [](const graph::Node& n) { return n.op == "winograd_conv"; });
  if (other_ways)
    out.operator_bounds = Evaluation(body, ops, inputs, numerics, Errors::kOfOperators).run(trials).bounds;
  return out;
}

}  // namespace tw::artefact
