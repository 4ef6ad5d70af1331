// repeat(first values, scanned tensors, what is the same): a loop whose body is a graph (graph/repeat.h has the formula
// and the shapes; any types). It has no te: each turn is computed by the kernels of its body.
// Sources: ONNX, Loop, Scan, RNN, GRU, LSTM.
#include "graph/repeat.h"

#include <algorithm>
#include <set>

#include "graph/error_output.h"
#include "ops/common.h"
#include "ops/families.h"
#include "ops/list.h"

namespace tw::ops {
namespace {

using graph::Graph;
using graph::Node;
using graph::Repeat;
using graph::ValueId;

// Of a body, which may have an error word besides: that is no output of the loop.
size_t outputs_of(const Graph& body) {
  return static_cast<size_t>(
      std::ranges::count_if(body.outputs, [&](ValueId id) { return body.value(id).name != graph::kErrorOutput; }));
}

TensorType row_type(const TensorType& stacked) {
  return {stacked.type, Shape(stacked.shape.begin() + 1, stacked.shape.end())};
}

void check_inputs(const OpCall& call, const Repeat& repeat) {
  const Graph& body = *call.node.body;
  require(call, call.inputs.size() == body.inputs.size() && repeat.carried + repeat.scanned <= body.inputs.size(),
          "{} inputs, its body has {}", call.inputs.size(), body.inputs.size());
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    require(call, call.has(k), "input {} is missing", k);
    const bool is_scanned = k >= repeat.carried && k < repeat.carried + repeat.scanned;
    const Shape& shape = call.inputs[k].shape;
    require(call, !is_scanned || (!shape.empty() && shape[0] == repeat.turns),
            "input {} is {}, its first extent should be {}, the number of turns", k, to_string(call.inputs[k]),
            repeat.turns);
    const TensorType given = is_scanned ? row_type(call.inputs[k]) : call.inputs[k];
    const TensorType& taken = body.value(body.inputs[k]).type;
    require(call, given == taken, "input {} gives {}, its body takes {}", k, to_string(given), to_string(taken));
  }
}

Types infer(const OpCall& call) {
  const Repeat repeat = graph::repeat_of(call.node);
  const Graph& body = *call.node.body;
  require(call, repeat.turns >= 1, "{} turns", repeat.turns);
  check_inputs(call, repeat);
  const size_t outputs = outputs_of(body);
  require(call, repeat.rows.size() == outputs && repeat.carried <= outputs, "rows of {} outputs, its body has {}",
          repeat.rows.size(), outputs);
  const std::set<ValueId> different(body.outputs.begin(), body.outputs.end());
  require(call, different.size() == body.outputs.size(), "its body has one value twice among its outputs");
  Types types;
  for (size_t j = 0; j < outputs; ++j) {
    const TensorType& made = body.value(body.outputs[j]).type;
    const bool is_carried = j < repeat.carried;
    if (is_carried && made != call.inputs[j])
      graph::reject(call, fmt::format("carried value {} is {}, and {} after a turn", j, to_string(call.inputs[j]),
                                      to_string(made)));
    const int64_t rows = repeat.rows[j];
    require(call, rows == repeat.turns || (is_carried && rows >= 2 && rows < repeat.turns),
            "output {} has {} rows of {} turns", j, rows, repeat.turns);
    types.push_back(made);
    types.back().shape.insert(types.back().shape.begin(), rows);
  }
  return types;
}

std::vector<RefTensor> evaluate(const Graph& graph, const graph::OpTable& ops, Refs inputs);

std::vector<RefTensor> results_of(const Graph& graph, const Node& node, const graph::OpTable& ops,
                                  const std::vector<RefTensor>& inputs) {
  if (node.is_group()) return evaluate(*node.body, ops, inputs);
  return ops.at(node.op).reference(graph::make_call(graph, node), inputs);
}

std::vector<RefTensor> evaluate(const Graph& graph, const graph::OpTable& ops, Refs inputs) {
  std::map<ValueId, RefTensor> values;
  for (size_t k = 0; k < inputs.size(); ++k) values[graph.inputs[k]] = inputs[k];
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    if (value.is_constant()) values[static_cast<ValueId>(v)] = RefTensor::from_bytes(value.type, *value.constant);
  }
  for (const Node& node : graph.nodes) {
    std::vector<RefTensor> given;
    for (const ValueId id : node.inputs) {
      given.emplace_back();
      if (id != graph::kAbsent) given.back() = values.at(id);
    }
    std::vector<RefTensor> made = results_of(graph, node, ops, given);
    for (size_t k = 0; k < made.size(); ++k) values[node.outputs[k]] = std::move(made[k]);
  }
  return mapped(graph.outputs, [&](ValueId id) { return values.at(id); });
}

void put_row(RefTensor& stacked, int64_t row, const RefTensor& one) {
  const auto first = static_cast<std::ptrdiff_t>(row * one.type.elements());
  std::ranges::copy(one.floats, stacked.floats.begin() + (one.is_float() ? first : 0));
  std::ranges::copy(one.ints, stacked.ints.begin() + (one.is_float() ? 0 : first));
}

std::vector<RefTensor> reference(const OpCall& call, Refs inputs) {
  static const graph::OpTable all = all_ops();
  const Repeat repeat = graph::repeat_of(call.node);
  std::vector<RefTensor> outputs = mapped(infer(call), [](const TensorType& type) { return RefTensor::zeros(type); });
  std::vector<RefTensor> given(inputs.begin(), inputs.end());
  for (int64_t turn = 0; turn < repeat.turns; ++turn) {
    for (size_t s = 0; s < repeat.scanned; ++s) {
      const size_t k = repeat.carried + s;
      given[k] = inputs[k].row(repeat.input_row(s, turn));
    }
    const std::vector<RefTensor> made = evaluate(*call.node.body, all, given);
    for (size_t j = 0; j < outputs.size(); ++j) put_row(outputs[j], repeat.output_row(j, turn), made[j]);
    std::copy_n(made.begin(), repeat.carried, given.begin());
  }
  return outputs;
}

constexpr size_t kMostInputs = 1000;

}  // namespace

std::vector<OpDef> repeat_ops() {
  return {{.name = graph::kRepeat,
           .op_class = OpClass::kOpaque,
           .infer = infer,
           .te = nullptr,
           .reference = reference,
           .inputs = {1, kMostInputs},
           .gradient = {graph::Gradient::Kind::kRefused, nullptr,
                        "its turns are differentiated one by one: training unrolls loops"}}};
}

}  // namespace tw::ops
