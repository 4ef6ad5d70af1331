#include "frontend/onnx/loop_body.h"

#include <algorithm>

#include "graph/repeat.h"
#include "support/error.h"

namespace tw::frontend {

LoopBody::LoopBody(GraphBuilder& outer, const std::string& name)
    : outer_(outer), builder_(name, outer.ops()), emitter_(builder_, name), around_(outer, name), name_(name) {}

std::string LoopBody::inside_name(ValueId outer) const { return fmt::format("{}/{}", name_, outer_.value_name(outer)); }

ValueId LoopBody::add_input(ValueId outer, const TensorType& type) {
  inputs_.push_back(outer);
  return builder_.add_input(inside_name(outer), type);
}

ValueId LoopBody::carried(ValueId first) {
  TW_CHECK(inputs_backwards_.empty(), "loop '{}': carried values come first", name_);
  ++carried_;
  return add_input(first, outer_.type(first));
}

ValueId LoopBody::row(ValueId stacked, Order order) {
  TensorType type = outer_.type(stacked);
  type.shape.erase(type.shape.begin());
  inputs_backwards_.push_back(order == Order::kBackwards ? 1 : 0);
  return add_input(stacked, type);
}

ValueId LoopBody::captured(ValueId outer) {
  if (outer_.sequence(outer) != nullptr) throw Unsupported("it reads the sequence '{}'", outer_.value_name(outer));
  const auto [known, fresh] = captured_.try_emplace(outer, kAbsent);
  if (!fresh) return known->second;
  if (outer_.is_constant(outer) && !outer_.is_kept(outer)) {
    known->second = builder_.add_constant(outer_.value_name(outer), outer_.type(outer), outer_.shared_bytes(outer));
    constants_[known->second] = outer;
  } else {
    known->second = add_input(outer, outer_.type(outer));
  }
  return known->second;
}

// What leaves the body is a value of its own that the body computes.
void LoopBody::add_output(ValueId id, std::vector<ValueId>& outputs) {
  const bool is_computed = builder_.producer(id) != nullptr;
  if (!is_computed || std::ranges::find(outputs, id) != outputs.end()) id = emitter_.copy(id);
  outputs.push_back(id);  // the copy of a constant is one, too: it is what every turn writes
}

LoopBody::Made LoopBody::finish(int64_t turns, const std::vector<Left>& left, const std::vector<Row>& rows) {
  constexpr int64_t kFewestRows = 2;  // one that a turn reads, one that it writes
  graph::Repeat repeat;
  repeat.turns = turns;
  repeat.carried = carried_;
  repeat.scanned = inputs_backwards_.size();
  repeat.inputs_backwards = inputs_backwards_;
  std::vector<ValueId> outputs;
  for (size_t k = 0; k < left.size(); ++k) {
    const TensorType before = outer_.type(inputs_[k]), after = builder_.type(left[k].value);
    if (before != after)
      throw UserError("carried value {} is {}, and {} after a turn", k, to_string(before), to_string(after));
    add_output(left[k].value, outputs);
    repeat.rows.push_back(left[k].keeps_rows ? turns : std::min(turns, kFewestRows));
    // Of the last rows alone the very last one is the first, however many turns there are.
    repeat.outputs_backwards.push_back(left[k].keeps_rows && left[k].order == Order::kForwards ? 0 : 1);
  }
  for (const Row& row : rows) {
    add_output(row.value, outputs);
    repeat.rows.push_back(turns);
    repeat.outputs_backwards.push_back(row.order == Order::kBackwards ? 1 : 0);
  }
  const std::vector<bool> seen = builder_.looked_at();
  for (const auto& [inside, outer] : constants_) {
    if (seen[static_cast<size_t>(inside)]) outer_.look_at(outer);
  }
  const auto body = std::make_shared<const graph::Graph>(builder_.finish(outputs));
  graph::Node loop{.op = std::string(graph::kRepeat),
                   .name = name_,
                   .attrs = graph::attrs_of(repeat),
                   .inputs = inputs_,
                   .body = body};
  const std::vector<ValueId> stacks = outer_.append(std::move(loop), name_ + "/turns");
  Made made;
  for (size_t k = 0; k < left.size(); ++k) {
    const int64_t last = repeat.output_row(k, turns - 1);
    const Shape shape = around_.shape(inputs_[k]);  // what is appended moves the graph's values
    made.last.push_back(around_.reshape(around_.slice(stacks[k], 0, last, 1), shape));
    made.kept.push_back(left[k].keeps_rows ? stacks[k] : kAbsent);
  }
  made.stacks.assign(stacks.begin() + static_cast<std::ptrdiff_t>(left.size()), stacks.end());
  return made;
}

}  // namespace tw::frontend
