#include "driver/states.h"

#include "driver/code/format_type.h"
#include "driver/other_extents.h"
#include "ops/list.h"
#include "support/join.h"
#include "support/math.h"
#include "te/materialize.h"
#include "transform/rewrite/states.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

using graph::ValueId;

ValueId find(const graph::Graph& graph, const std::vector<ValueId>& among, const std::string& name,
             std::string_view role) {
  const auto found = std::ranges::find(among, name, [&](ValueId id) { return graph.value(id).name; });
  if (found != among.end()) return *found;
  const auto names = mapped(among, [&](ValueId id) { return graph.value(id).name; });
  throw UsageError("--state: the model has no {} '{}'; it has {}", role, name, fmt::join(names, ", "));
}

bool has(const graph::Graph& graph, const std::vector<ValueId>& among, const std::string& name) {
  return std::ranges::any_of(among, [&](ValueId id) { return graph.value(id).name == name; });
}

void move_last(std::vector<ValueId>& ids, ValueId id) {
  const auto found = std::ranges::find(ids, id);
  std::rotate(found, found + 1, ids.end());
}

// Of the model's type, in which it is given, too, where the state is stored in 16 bits.
bool is_initial(const InitialValue& initial, const TensorType& state) {
  const bool rounds = state.type.is_half() && initial.type.type == DataType::f32();
  return initial.type.shape == state.shape && (rounds || initial.type.type == state.type);
}

// In `dtype` where the state has another type than the model.
InitialValue as_stored(const InitialValue& initial, const format::State& state, DataType dtype) {
  if (state.tensor.dtype == format_type(initial.type.type)) return initial;
  graph::RefTensor elements = initial.elements();
  elements.type.type = dtype;
  return InitialValue(elements);
}

// As a manifest says it: nothing for rows.
std::vector<int64_t> order_of(const graph::Value& state, const Layout& layout) {
  const std::optional<std::vector<int64_t>> order = transform::storage_order(layout, state.type.shape.size());
  TW_CHECK(order.has_value(), "the state '{}' is stored as {}", state.name, to_string(layout));
  return std::ranges::is_sorted(*order) ? std::vector<int64_t>() : *order;
}

std::vector<format::StatePart> parts_of(const graph::Value& state, const StatePair& pair) {
  return mapped(pair.parts, [&](const StatePair::Part& part) {
    return format::StatePart{{part.name, format_type(state.type.type), part.shape}, part.order};
  });
}

// Extents that become one more: of states before and after a run.
using Extents = std::vector<int64_t>;

frontend::ImportOptions one_longer(const frontend::ImportOptions& import, const Extents& growing) {
  frontend::ImportOptions longer = import;
  const auto grow = [&](int64_t& extent) { extent += std::ranges::count(growing, extent) > 0 ? 1 : 0; };
  for (auto& [name, extent] : longer.dims) grow(extent);
  for (auto& [name, shape] : longer.shapes) std::ranges::for_each(shape, grow);
  return longer;
}

}  // namespace

graph::Graph with_states_last(const graph::Graph& graph, std::span<const StatePair> states, DataType dtype) {
  std::vector<transform::StateNames> growing;
  for (const StatePair& pair : states) {
    find(graph, graph.inputs, pair.input, "input");
    find(graph, graph.outputs, pair.output, "output");
    if (transform::grows(graph, {pair.input, pair.output})) growing.push_back({pair.input, pair.output});
  }
  graph::Graph out = growing.empty() ? graph : transform::append_states(graph, ops::all_ops(), growing);
  for (size_t s = 0; s < states.size(); ++s) {
    const StatePair& pair = states[s];
    const bool again = std::ranges::any_of(states.first(s), [&](const StatePair& other) {
      return other.input == pair.input || other.output == pair.output;
    });
    if (again) throw UsageError("--state {}={}: one of them is part of another state", pair.input, pair.output);
    const ValueId before = find(out, out.inputs, pair.input, "input");
    const ValueId after = find(out, out.outputs, pair.output, "output");
    const TensorType &type = out.value(before).type, &next = out.value(after).type;
    if (type != next)
      throw UsageError("--state {}={}: the input is {}, the output {}", pair.input, pair.output, to_string(type),
                       to_string(next));
    if (pair.initial && !is_initial(*pair.initial, type))
      throw UsageError("--state {}={}: the initial value is {}, the input {}", pair.input, pair.output,
                       to_string(pair.initial->type), to_string(type));
    move_last(out.inputs, before);
    move_last(out.outputs, after);
  }
  return transform::narrow_states(out, ops::all_ops(), names_of(states), dtype);
}

graph::Graph with_its_states_last(const graph::Graph& graph, std::span<const StatePair> states, DataType dtype) {
  std::vector<StatePair> changed;
  graph::Graph out = graph;
  for (const StatePair& pair : states) {
    const bool changes = has(graph, graph.outputs, pair.output);
    TW_CHECK(!changes || has(graph, graph.inputs, pair.input), "a function changes '{}', which it does not have",
             pair.input);
    if (!has(graph, graph.inputs, pair.input)) continue;
    move_last(out.inputs, find(graph, graph.inputs, pair.input, "input"));
    if (changes) changed.push_back(pair);
  }
  return with_states_last(out, changed, dtype);
}

std::vector<transform::StateNames> states_in(const graph::Graph& graph, std::span<const StatePair> states) {
  std::vector<transform::StateNames> names;
  for (const StatePair& pair : states) {
    if (!has(graph, graph.inputs, pair.input)) continue;
    names.push_back({pair.input, has(graph, graph.outputs, pair.output) ? pair.output : ""});
  }
  return names;
}

std::vector<transform::StateNames> names_of(std::span<const StatePair> states) {
  return mapped(states, [](const StatePair& pair) { return transform::StateNames{pair.input, pair.output}; });
}

StateLayouts layouts_of_stacked(std::span<const StatePair> states) {
  StateLayouts layouts;
  for (const StatePair& pair : states) {
    if (!pair.parts.empty()) layouts[pair.input] = Layout();
  }
  return layouts;
}

std::vector<format::State> place_states(const graph::Graph& graph, std::span<const StatePair> states,
                                        const StateLayouts& layouts) {
  std::vector<format::State> placed;
  int64_t end = 0;
  for (size_t s = 0; s < states.size(); ++s) {
    const graph::Value& value = graph.value(graph.inputs[graph.inputs.size() - states.size() + s]);
    const int64_t offset = round_up(end, format::State::kAlignment);
    placed.push_back({{value.name, format_type(value.type.type), value.type.shape},
                      states[s].output,
                      offset,
                      order_of(value, value_or(layouts, value.name, Layout())),
                      parts_of(value, states[s])});
    end = offset + value.type.bytes();
  }
  return placed;
}

std::vector<uint8_t> initial_values(std::span<const format::State> placed, std::span<const StatePair> states,
                                    const StateLayouts& layouts, DataType dtype) {
  std::vector<uint8_t> block;
  if (placed.empty() || std::ranges::none_of(states, [](const StatePair& s) { return s.initial.has_value(); }))
    return block;
  block.resize(static_cast<size_t>(placed.back().offset + format::tensor_bytes(placed.back().tensor)));
  for (size_t s = 0; s < placed.size(); ++s) {
    if (!states[s].initial) continue;
    const InitialValue initial = as_stored(*states[s].initial, placed[s], dtype);
    const std::span place = std::as_writable_bytes(std::span(block)).subspan(static_cast<size_t>(placed[s].offset));
    te::materialize_into(place.first(static_cast<size_t>(initial.type.bytes())), *initial.bytes,
                         static_cast<size_t>(initial.type.type.bytes()), initial.type.shape,
                         value_or(layouts, states[s].input, Layout()));
  }
  return block;
}

void check_lengths(const frontend::ImportResult& model, const frontend::ImportOptions& import,
                   std::span<const StatePair> states) {
  Extents growing;
  for (const transform::StateNames& names : names_of(states)) {
    const ValueId before = model.graph.find_value(names.before), after = model.graph.find_value(names.after);
    if (before == graph::kAbsent || after == graph::kAbsent || !transform::grows(model.graph, names)) continue;
    const Shape &from = model.graph.value(before).type.shape, &to = model.graph.value(after).type.shape;
    const size_t dim = static_cast<size_t>(std::ranges::mismatch(from, to).in1 - from.begin());
    growing.insert(growing.end(), {from[dim], to[dim]});
  }
  if (growing.empty() || model.skeleton.empty()) return;
  frontend::ImportOptions longer = one_longer(import, growing);
  const frontend::ImportResult other = import_again(model, longer);
  for (const transform::StateNames& names : names_of(states)) {
    const ValueId before = model.graph.find_value(names.before);
    if (!transform::grows(model.graph, names)) continue;
    if (other.graph.value(other.graph.find_value(names.before)).type == model.graph.value(before).type)
      throw Unsupported("state '{}' grows, and its length is not a dimension that --dim or --shape gives",
                        names.before);
  }
  if (const std::string what = difference_in_extents(model.graph, other.graph); !what.empty())
    throw Unsupported(
        "a state grows, and the model computes with its length: {} is another one for a longer state. Positions and "
        "masks have to be inputs",
        what);
}

}  // namespace tw::driver
