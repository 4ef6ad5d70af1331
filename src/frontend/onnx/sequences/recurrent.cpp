// RNN, GRU and LSTM: one matrix product for all inputs, and a loop over the sequence with one for the state.
#include <algorithm>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/loop_body.h"

namespace tw::frontend {
namespace {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

ValueId apply(Emitter& e, const Activation& f, ValueId x) {
  const auto is = [&](std::string_view name) {
    return std::ranges::equal(f.name, name, [](char a, char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (is("Relu")) return e.op("relu", {x});
  if (is("Tanh")) return e.op("tanh", {x});
  if (is("Sigmoid")) return e.op("sigmoid", {x});
  if (is("Softsign")) return e.op("softsign", {x});
  if (is("Softplus")) return e.op("softplus", {x});
  if (is("LeakyRelu")) return e.op("leaky_relu", {x}, {{"alpha", f.alpha}});
  if (is("ThresholdedRelu")) return e.op("thresholded_relu", {x}, {{"alpha", f.alpha}});
  if (is("Elu")) return e.op("elu", {x}, {{"alpha", f.alpha}});
  if (is("HardSigmoid")) return e.op("hard_sigmoid", {x}, {{"alpha", f.alpha}, {"beta", f.beta}});
  if (is("Affine")) return e.add(e.mul(x, e.number(x, f.alpha)), e.number(x, f.beta));
  if (is("ScaledTanh")) return e.mul(e.op("tanh", {e.mul(x, e.number(x, f.beta))}), e.number(x, f.alpha));
  throw Unsupported("activation '{}' is not supported", f.name);
}

// Defaults of alpha and beta where the node gives none.
Activation with_defaults(const std::string& name) {
  if (name == "LeakyRelu") return {name, 0.01F, 0};
  if (name == "HardSigmoid") return {name, 0.2F, 0.5};
  return {name, 1, name == "ScaledTanh" ? 1.0 : 0.0};
}

struct State {
  ValueId h, c;
};

struct Sequence {
  ValueId rows;  // h of all steps, [steps, batch, hidden]
  State last;
};

class Recurrent {
 public:
  explicit Recurrent(NodeContext& c) : c_(c), e_(c.emit()) {
    gates_ = c.op().ends_with("LSTM") ? 4 : c.op() == "GRU" ? 3 : 1;
    if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3) throw UserError("X, W and R must have rank 3");
    batch_first_ = c.int_or("layout", 0) != 0;
    x_ = batch_first_ ? e_.transpose(c.input(0), {1, 0, 2}) : c.input(0);
    steps_ = e_.shape(x_)[0];
    batch_ = e_.shape(x_)[1];
    hidden_ = c.shape(2)[2];
    directions_ = c.shape(1)[0];
    if (c.int_or("hidden_size", hidden_) != hidden_) throw UserError("hidden_size differs from R's {}", hidden_);
    const std::string direction = c.choice("direction", {"forward", "reverse", "bidirectional"});
    if (directions_ != (direction == "bidirectional" ? 2 : 1)) throw UserError("{} directions in W", directions_);
    first_reversed_ = direction == "reverse";
    if (c.shape(1)[1] != gates_ * hidden_ || c.shape(2) != Shape{directions_, gates_ * hidden_, hidden_} ||
        c.shape(1)[2] != e_.shape(x_)[2]) {
      throw UserError("W {} or R {} do not fit", to_string(c.shape(1)), to_string(c.shape(2)));
    }
    if (steps_ < 1 || steps_ > kMaxTurns)
      throw Unsupported("a sequence of {} steps; 1 to {} are supported", steps_, kMaxTurns);
    clip_ = c.float_or("clip", 0);
    read_activations();
  }

  Outputs run() {
    std::vector<ValueId> sequences, last_h, last_c;
    for (int64_t d = 0; d < directions_; ++d) {
      const bool reversed = first_reversed_ || d == 1;
      const Sequence made = run_direction(d, reversed);
      sequences.push_back(e_.reshape(made.rows, {steps_, 1, batch_, hidden_}));
      last_h.push_back(e_.reshape(made.last.h, {1, batch_, hidden_}));
      if (gates_ == 4) last_c.push_back(e_.reshape(made.last.c, {1, batch_, hidden_}));
    }
    ValueId y = e_.concat(sequences, 1);
    ValueId h = e_.concat(last_h, 0);
    ValueId cell = gates_ == 4 ? e_.concat(last_c, 0) : kAbsent;
    if (batch_first_) {
      y = e_.transpose(y, {2, 0, 1, 3});
      h = e_.transpose(h, {1, 0, 2});
      if (gates_ == 4) cell = e_.transpose(cell, {1, 0, 2});
    }
    return {y, h, cell};
  }

 private:
  void read_activations() {
    std::vector<std::string> names = gates_ == 1   ? std::vector<std::string>{"Tanh"}
                                     : gates_ == 3 ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                   : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
    const size_t each = names.size();
    names = c_.strings_or("activations", names);
    if (names.size() == each && directions_ == 2) names = joined(names, names);
    if (names.size() != each * directions_)
      throw UserError("{} activations for {} directions", names.size(), directions_);
    const std::vector<double> alpha = c_.floats_or("activation_alpha", {});
    const std::vector<double> beta = c_.floats_or("activation_beta", {});
    for (size_t k = 0; k < names.size(); ++k) {
      activations_.push_back(with_defaults(names[k]));
      if (k < alpha.size()) activations_.back().alpha = alpha[k];
      if (k < beta.size()) activations_.back().beta = beta[k];
    }
  }

  const Activation& activation(size_t k) const {
    return activations_[static_cast<size_t>(direction_) * (activations_.size() / directions_) + k];
  }

  // ---- In a turn of the loop: values inside of it.

  ValueId activated(size_t k, ValueId x) { return apply(in(), activation(k), clipped(x)); }
  ValueId clipped(ValueId x) { return clip_ > 0 ? in().op("clip", {x}, {{"min", -clip_}, {"max", clip_}}) : x; }
  ValueId gate(ValueId x, int64_t k) {
    return in().slice(x, static_cast<int64_t>(in().shape(x).size()) - 1, k * hidden_, hidden_);
  }

  // Row d of an optional input of shape [directions, ...] (or, batch first, [batch, directions, hidden]).
  ValueId of_direction(size_t input, int64_t d, const Shape& shape) {
    if (!c_.has(input)) return kAbsent;
    return e_.reshape(e_.slice(c_.input(input), 0, d, 1), shape);
  }
  ValueId initial(size_t input, int64_t d) {
    if (!c_.has(input)) return e_.filled(0, {c_.type(0).type, {batch_, hidden_}});
    const int64_t axis = batch_first_ ? 1 : 0;
    if (c_.type(input).elements() != directions_ * batch_ * hidden_)
      throw UserError("initial state of shape {}", to_string(c_.shape(input)));
    return e_.reshape(e_.slice(c_.input(input), axis, d, 1), {batch_, hidden_});
  }

  // ---- Around the loop.

  Sequence run_direction(int64_t d, bool reversed) {
    direction_ = d;
    const ValueId w = e_.transpose(of_direction(1, d, {gates_ * hidden_, c_.shape(1)[2]}), {1, 0});
    const ValueId r = e_.transpose(of_direction(2, d, {gates_ * hidden_, hidden_}), {1, 0});
    const ValueId bias = of_direction(3, d, {2 * gates_ * hidden_});
    const ValueId peepholes = gates_ == 4 ? of_direction(7, d, {3 * hidden_}) : kAbsent;
    ValueId all = e_.matmul(x_, w);  // [steps, batch, gates * hidden]
    if (bias != kAbsent) all = e_.add(all, e_.slice(bias, 0, 0, gates_ * hidden_));
    const ValueId state_bias = bias == kAbsent ? kAbsent : e_.slice(bias, 0, gates_ * hidden_, gates_ * hidden_);

    const Order order = reversed ? Order::kBackwards : Order::kForwards;
    LoopBody loop(c_.importer().builder(), e_.name());
    loop_ = &loop;
    const ValueId first_h = initial(5, d), first_c = gates_ == 4 ? initial(6, d) : kAbsent;
    const State before{loop.carried(first_h), gates_ == 4 ? loop.carried(first_c) : kAbsent};
    const ValueId x = loop.row(all, order);
    const ValueId turn = c_.has(4) ? loop.row(e_.int_list(sequence(steps_)), order) : kAbsent;
    const auto captured = [&](ValueId id) { return id == kAbsent ? kAbsent : loop.captured(id); };
    recurrence_ = captured(r);
    state_bias_ = captured(state_bias);
    peepholes_ = captured(peepholes);
    State after = gates_ == 4   ? lstm_step(x, before)
                  : gates_ == 3 ? State{gru_step(x, before.h), kAbsent}
                                : State{rnn_step(x, before.h), kAbsent};
    std::vector<LoopBody::Row> rows;
    if (turn != kAbsent) {
      // Beyond a sequence's end its state stays and its output is 0.
      const ValueId lengths = loop.captured(e_.reshape(e_.cast(c_.input(4), DataType::i64()), {batch_, 1}));
      const ValueId inside = in().op("less", {turn, lengths});
      rows.push_back({in().where(inside, after.h, in().number(after.h, 0)), order});
      after.h = in().where(inside, after.h, before.h);
      if (gates_ == 4) after.c = in().where(inside, after.c, before.c);
    }
    std::vector<LoopBody::Left> left{{after.h, rows.empty(), order}};
    if (gates_ == 4) left.push_back({after.c});
    const LoopBody::Made made = loop.finish(steps_, left, rows);
    loop_ = nullptr;
    return {rows.empty() ? made.kept[0] : made.stacks[0], {made.last[0], gates_ == 4 ? made.last[1] : kAbsent}};
  }

  Emitter& in() { return loop_->emit(); }

  // Of the first gates.
  ValueId state_product(ValueId h, int64_t gates) {
    const ValueId product = in().matmul(h, in().slice(recurrence_, 1, 0, gates * hidden_));
    if (state_bias_ == kAbsent) return product;
    return in().add(product, in().slice(state_bias_, 0, 0, gates * hidden_));
  }

  ValueId rnn_step(ValueId x, ValueId h) { return activated(0, in().add(x, state_product(h, 1))); }

  // Gates z (update), r (reset), h (candidate); h' = (1 - z) candidate + z h.
  ValueId gru_step(ValueId x, ValueId h) {
    const bool reset_after = c_.int_or("linear_before_reset", 0) != 0;
    const ValueId state = state_product(h, reset_after ? 3 : 2);
    const ValueId z = activated(0, in().add(gate(x, 0), gate(state, 0)));
    const ValueId r = activated(0, in().add(gate(x, 1), gate(state, 1)));
    ValueId part = kAbsent;
    if (reset_after) {
      part = in().mul(r, gate(state, 2));
    } else {
      part = in().matmul(in().mul(r, h), gate(recurrence_, 2));
      if (state_bias_ != kAbsent) part = in().add(part, gate(state_bias_, 2));
    }
    const ValueId candidate = activated(1, in().add(gate(x, 2), part));
    return in().add(in().mul(in().sub(in().number(z, 1), z), candidate), in().mul(z, h));
  }

  // Gates i, o, f, c; the peepholes look at the old cell (i, f) and at the new one (o).
  State lstm_step(ValueId x, const State& state) {
    const ValueId all = in().add(x, state_product(state.h, 4));
    const auto peep = [&](ValueId gate_value, int64_t k, ValueId cell) {
      return peepholes_ == kAbsent
                 ? gate_value
                 : in().add(gate_value, in().mul(in().slice(peepholes_, 0, k * hidden_, hidden_), cell));
    };
    const ValueId i = activated(0, peep(gate(all, 0), 0, state.c));
    const bool coupled = c_.int_or("input_forget", 0) != 0;
    const ValueId f = coupled ? in().sub(in().number(i, 1), i) : activated(0, peep(gate(all, 2), 2, state.c));
    const ValueId candidate = activated(1, gate(all, 3));
    const ValueId cell = in().add(in().mul(f, state.c), in().mul(i, candidate));
    const ValueId o = activated(0, peep(gate(all, 1), 1, cell));
    return {in().mul(o, apply(in(), activation(2), cell)), cell};
  }

  NodeContext& c_;
  Emitter& e_;
  int64_t gates_ = 1, steps_ = 0, batch_ = 0, hidden_ = 0, directions_ = 1, direction_ = 0;
  bool batch_first_ = false, first_reversed_ = false;
  double clip_ = 0;
  std::vector<Activation> activations_;
  ValueId x_ = kAbsent;       // [steps, batch, input]
  LoopBody* loop_ = nullptr;  // of the direction at hand; and values in it:
  ValueId recurrence_ = kAbsent, state_bias_ = kAbsent, peepholes_ = kAbsent;
};

Outputs convert_recurrent(NodeContext& c) {
  c.ignore_attr("input_forget");
  c.ignore_attr("linear_before_reset");
  c.ignore_attr("output_sequence");
  return Recurrent(c).run();
}

// Weights [directions, inputs, columns] of 8 bits as floats in LSTM's order. Each direction has a scale and a zero
// point, or each of its columns.
ValueId real_weights(NodeContext& c, size_t weights, size_t scale) {
  Emitter& e = c.emit();
  const Shape s = c.shape(weights);
  if (s.size() != 3) throw UserError("W and R must have rank 3");
  const auto spread = [&](size_t k) {
    const bool each = c.type(k).elements() == s[0];
    return e.reshape(c.input(k), each ? Shape{s[0], 1, 1} : Shape{s[0], 1, s[2]});
  };
  const ValueId whole = e.cast(c.input(weights), DataType::i32());
  const ValueId moved = e.sub(whole, e.cast(spread(scale + 1), DataType::i32()));
  return e.transpose(e.mul(e.cast(moved, DataType::f32()), spread(scale)), {0, 2, 1});
}

// Inputs and states stay floats: what quantizing them at run time would lose is not lost.
Outputs convert_dynamic_quantize_lstm(NodeContext& c) {
  std::vector<ValueId> inputs{c.input(0), real_weights(c, 1, 8), real_weights(c, 2, 10)};
  for (size_t k = 3; k < 8; ++k) inputs.push_back(c.input_or_absent(k));
  c.set_inputs(std::move(inputs));
  return convert_recurrent(c);
}

}  // namespace

std::vector<ConverterRow> recurrent_rows() {
  return {{"DynamicQuantizeLSTM", 1, 0, convert_dynamic_quantize_lstm, "com.microsoft"},
          {"RNN", 7, 0, convert_recurrent},
          {"GRU", 7, 0, convert_recurrent},
          {"LSTM", 7, 0, convert_recurrent}};
}

}  // namespace tw::frontend
