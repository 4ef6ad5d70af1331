#include "artefact/run_values.h"

#include "te/materialize.h"
#include "transform/storage_order.h"

namespace tw::artefact {

using graph::RefTensor;
using graph::ValueId;

std::vector<std::byte> from_storage(const graph::Value& value, std::span<const std::byte> stored) {
  const Shape storage = value.layout.storage_shape(value.type.shape);
  return te::materialize(stored, value.type.type.bytes(), storage, value.layout.inverse(value.type.shape));
}

std::vector<std::byte> to_storage(const graph::Value& value, std::span<const std::byte> logical) {
  return te::materialize(logical, value.type.type.bytes(), value.type.shape, value.layout);
}

RunValues::RunValues(const graph::Graph& graph, Session& session, const std::vector<RefTensor>& inputs,
                     const std::vector<RefTensor>& outputs)
    : graph_(graph), session_(session) {
  for (size_t i = 0; i < inputs.size(); ++i) given_[graph.inputs[i]] = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i) {  // the error word, if there is one, is no output of the session
    const bool is_cut = outputs[i].type != graph.value(graph.outputs[i]).type;
    are_cut_ |= is_cut;
    if (is_cut) continue;
    given_[graph.outputs[i]] = outputs[i];
    know_sources_of_views(graph.outputs[i]);
  }
  const std::vector<std::string> names = session.buffer_names();
  for (size_t b = 0; b < names.size(); ++b) {
    if (!names[b].empty()) buffers_.emplace(names[b], static_cast<int>(b));
  }
}

const RefTensor* RunValues::find(ValueId id) {
  for (const auto* known : {&given_, &read_}) {
    if (const auto it = known->find(id); it != known->end()) return &it->second;
  }
  const graph::Value& value = graph_.value(id);
  if (value.is_constant()) return &(read_[id] = RefTensor::from_bytes(value.type, *value.constant));
  const int producer = graph_.producer(id);
  const auto buffer = buffers_.find(value.name);
  if (buffer != buffers_.end()) {
    const std::vector<std::byte> stored = session_.read_buffer(buffer->second);
    return &(read_[id] = RefTensor::from_bytes(value.type, from_storage(value, stored)));
  }
  if (producer < 0 || !transform::is_view(graph_, graph_.nodes[producer])) return nullptr;
  return find_view(id, graph_.nodes[producer]);
}

// A value that leaves the model through views lies in the caller's tensor: its elements are those of the output.
void RunValues::know_sources_of_views(ValueId id) {
  for (int p = graph_.producer(id); p >= 0 && transform::is_view(graph_, graph_.nodes[p]); p = graph_.producer(id)) {
    const ValueId source = graph_.nodes[p].inputs[0];
    if (graph_.value(source).is_constant() || given_.count(source) != 0) return;
    const std::vector<std::byte> stored = to_storage(graph_.value(id), given_.at(id).to_bytes());
    const graph::Value& to = graph_.value(source);
    given_[source] = RefTensor::from_bytes(to.type, from_storage(to, stored));
    id = source;
  }
}

const RefTensor* RunValues::find_view(ValueId id, const graph::Node& group) {
  const RefTensor* source = find(group.inputs[0]);
  if (source == nullptr) return nullptr;
  const std::vector<std::byte> stored = to_storage(graph_.value(group.inputs[0]), source->to_bytes());
  const graph::Value& to = graph_.value(id);
  return &(read_[id] = RefTensor::from_bytes(to.type, from_storage(to, stored)));
}

}  // namespace tw::artefact
