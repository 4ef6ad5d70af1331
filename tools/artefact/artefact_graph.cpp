#include "artefact/artefact_graph.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <span>

#include "artefact/resize.h"
#include "artefact/run_values.h"
#include "ops/list.h"
#include "runtime/format/container.h"
#include "runtime/format/error.h"
#include "runtime/format/signature.h"
#include "support/error.h"
#include "support/join.h"
#include "support/math.h"
#include "te/materialize.h"
#include "transform/storage_order.h"

namespace tw::artefact {
namespace {

constexpr int64_t kAlignment = 64;  // bytes: one cache line, one vector

std::string_view text_of(const format::Artefact& artefact, const std::string& section) {
  const format::Bytes bytes = artefact.section(section);
  if (bytes.empty()) throw UserError(fmt::format("the artefact has no section '{}': it cannot be checked", section));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Weights by the name of their value. A constant that is stored in several layouts is read from its first buffer, whose
// layout the graph's text gives.
graph::ConstantSource weights_of(const format::Artefact& artefact, const format::Entry& entry) {
  std::map<std::string, std::span<const std::byte>> stored;
  const format::Bytes weights = artefact.section("weights");
  for (const format::Buffer& buffer : entry.buffers) {
    if (buffer.place != format::Place::kWeights || !buffer.moves.empty()) continue;
    stored.emplace(buffer.name, std::as_bytes(weights.subspan(static_cast<size_t>(buffer.offset),
                                                              static_cast<size_t>(buffer.bytes))));
  }
  return [stored = std::move(stored)](const graph::Value& declared, const std::string&) -> graph::Bytes {
    const auto found = stored.find(declared.name);
    if (found == stored.end()) return nullptr;
    return share(from_storage(declared, found->second));
  };
}

class Flattener {
 public:
  explicit Flattener(const graph::Graph& grouped) : grouped_(grouped) {}

  graph::Graph run() {
    out_.name = grouped_.name;
    for (size_t i = 0; i < grouped_.values.size(); ++i) {
      out_.values.push_back(grouped_.values[i]);
      out_.values.back().layout = Layout();
    }
    out_.inputs = grouped_.inputs;
    out_.outputs = grouped_.outputs;
    for (const graph::Node& group : grouped_.nodes) add_group(group);
    return std::move(out_);
  }

 private:
  void add_group(const graph::Node& group) {
    const graph::Graph& body = *group.body;
    std::map<graph::ValueId, graph::ValueId> outer = {{graph::kAbsent, graph::kAbsent}};
    for (size_t i = 0; i < body.inputs.size(); ++i) outer[body.inputs[i]] = group.inputs[i];
    for (size_t i = 0; i < body.outputs.size(); ++i) outer[body.outputs[i]] = group.outputs[i];
    for (size_t v = 0; v < body.values.size(); ++v) {
      const auto id = static_cast<graph::ValueId>(v);
      if (outer.count(id) != 0) continue;
      const graph::Value& value = body.values[v];
      outer[id] = value.is_constant() ? out_.add_constant(value.name, value.type, value.constant)
                                      : out_.add_value(value.name, value.type);
    }
    for (graph::Node node : body.nodes) {
      if (node.body != nullptr) node.body = std::make_shared<const graph::Graph>(without_groups(*node.body));
      for (graph::ValueId& id : node.inputs) id = outer.at(id);
      for (graph::ValueId& id : node.outputs) id = outer.at(id);
      out_.nodes.push_back(std::move(node));
    }
  }

  const graph::Graph& grouped_;
  graph::Graph out_;
};

}  // namespace

size_t manifest_entry(const format::Manifest& manifest, const std::string& target, int entry) {
  const auto found = std::ranges::find(manifest.targets, target, &format::ManifestTarget::arch);
  const auto index = static_cast<size_t>(found - manifest.targets.begin());
  return index * manifest.combinations() + static_cast<size_t>(entry);
}

namespace {

// The state whose parts, or which itself, the first of `seen` are.
Array state_of(const format::State& state, std::span<const Array> seen) {
  if (state.parts.empty()) return seen.front();
  Array whole{{seen.front().type.type, state.tensor.shape}, {}};
  for (size_t p = 0; p < state.parts.size(); ++p) {
    const Array& part = seen[p];
    const std::vector<int64_t>& order = state.parts[p].order;
    append(whole.bytes, te::materialize(part.bytes, static_cast<size_t>(part.type.type.bytes()), part.type.shape,
                                        order.empty() ? Layout() : transform::layout_of_order(order)));
  }
  return whole;
}

}  // namespace

GraphArrays arrays_of(const ArtefactGraph& read, const std::vector<Array>& inputs, const std::vector<Array>& outputs) {
  size_t seen = 0;
  for (const format::State& state : read.states) seen += std::max<size_t>(1, state.parts.size());
  const size_t ins = inputs.size() - seen, outs = outputs.size() - seen;
  GraphArrays own{{inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(ins)},
                  {outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(outs)}};
  for (size_t i = 0; i < ins; ++i)
    own.inputs[i] = resized(own.inputs[i], read.graph.value(read.graph.inputs[i]).type.shape);
  for (const format::Extent& extent : read.extents) {
    const format::ExtentDim& first = extent.inputs.front();
    graph::RefTensor length = graph::RefTensor::zeros({DataType::i64(), {1}});
    length.ints[0] = inputs[static_cast<size_t>(first.tensor)].type.shape[static_cast<size_t>(first.dim)] / first.times;
    own.inputs.push_back(to_array(length));
  }
  const auto has = [&](const std::vector<graph::ValueId>& among, const std::string& name) {
    return std::ranges::any_of(among, [&](graph::ValueId id) { return read.graph.value(id).name == name; });
  };
  size_t first = 0;
  for (const format::State& state : read.states) {
    const auto of = [&](const std::vector<Array>& all, size_t behind) {
      return state_of(state, std::span(all).subspan(behind + first));
    };
    if (has(read.graph.inputs, state.tensor.name)) own.inputs.push_back(of(inputs, ins));
    if (has(read.graph.outputs, state.next)) own.outputs.push_back(of(outputs, outs));
    first += std::max<size_t>(1, state.parts.size());
  }
  return own;
}

ArtefactGraph read_graph(const std::vector<uint8_t>& bytes, const std::string& target, int entry) {
  const format::Artefact artefact = format::Artefact::parse(bytes);
  const size_t index = manifest_entry(artefact.manifest(), target, entry);
  const format::Entry& program = artefact.manifest().entries.at(index);
  ArtefactGraph out;
  out.dtype = *parse_data_type(format::name_of(artefact.manifest().dtype));
  out.states = artefact.manifest().states;
  out.extents = program.extents;
  const std::string_view plan = text_of(artefact, "plan");
  const std::string_view graph = text_of(artefact, fmt::format("graph.{}", index));
  try {
    out.plan = plan::parse_plan(plan).entries.at(index);
    out.graph = graph::parse_graph_from(graph, weights_of(artefact, program));
    graph::verify(out.graph, ops::all_ops());
    if (out.plan.groups.size() != out.graph.nodes.size()) throw UserError("plan and graph have other groups");
  } catch (const std::exception& error) {  // checksums hold: somebody made them
    throw format::Error(format::ErrorCode::kDamaged, fmt::format("its plan or graph is damaged: {}", error.what()));
  }
  return out;
}

std::vector<uint8_t> keep_buffers_apart(const std::vector<uint8_t>& bytes) {
  const format::Artefact artefact = format::Artefact::parse(bytes);
  format::Manifest manifest = artefact.manifest();
  for (format::Entry& entry : manifest.entries) {
    entry.arena_bytes = 0;
    std::map<std::string, int64_t> places;  // by the name of the value
    const auto lies_in_arena = [](const format::Buffer& b) { return b.place == format::Place::kArena; };
    for (format::Buffer& buffer : entry.buffers | std::views::filter(lies_in_arena)) {
      if (!buffer.moves.empty()) continue;
      buffer.offset = places[buffer.name] = entry.arena_bytes;
      entry.arena_bytes = round_up(entry.arena_bytes + buffer.bytes, kAlignment);
    }
    for (format::Buffer& buffer : entry.buffers | std::views::filter(lies_in_arena)) {
      if (!buffer.moves.empty()) buffer.offset = places.at(buffer.name);  // a row of that value
    }
  }
  std::vector<format::Section> sections;
  std::ranges::copy_if(artefact.sections(), std::back_inserter(sections), [](const format::Section& s) {
    return s.name != "manifest" && s.name != format::kSignatureSection;
  });
  return format::serialize_artefact(manifest, sections);
}

graph::Graph without_groups(const graph::Graph& graph) { return Flattener(graph).run(); }

}  // namespace tw::artefact
