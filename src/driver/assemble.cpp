#include "driver/assemble.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "support/error.h"
#include "support/hash.h"
#include "support/math.h"
#include "te/materialize.h"
#include "transform/plan_memory.h"

namespace tw::driver {
namespace {

using graph::ValueId;

constexpr int64_t kAlignment = 64;  // one cache line, one vector

format::DataType format_type(DataType type) {
  const auto found = format::parse_data_type(to_string(type));
  TW_CHECK(found.has_value(), "element type {} has no name in artefacts", to_string(type));
  return *found;
}

format::TensorSpec spec_of(const graph::Value& value) { return {value.name, format_type(value.type.type), value.type.shape}; }

class Assembler {
 public:
  explicit Assembler(const AssembleInput& in) : in_(in) {}

  Assembled run() {
    place_code();
    entry_.name = "main";
    for (const ValueId id : in_.graph.inputs) entry_.inputs.push_back(spec_of(in_.graph.value(id)));
    for (const ValueId id : in_.graph.outputs) entry_.outputs.push_back(spec_of(in_.graph.value(id)));
    make_steps();
    place_arena();
    out_.manifest.entries.push_back(std::move(entry_));
    return std::move(out_);
  }

 private:
  void place_code() {
    for (size_t p = 0; p < in_.programs.size(); ++p) {
      out_.code.resize(round_up(static_cast<int64_t>(out_.code.size()), kAlignment));
      const auto base = static_cast<int64_t>(out_.code.size());
      first_kernel_.push_back(static_cast<int64_t>(out_.manifest.kernels.size()));
      const auto* bytes = reinterpret_cast<const uint8_t*>(in_.programs[p].bytes.data());
      out_.code.insert(out_.code.end(), bytes, bytes + in_.programs[p].bytes.size());
      for (size_t k = 0; k < in_.programs[p].kernels.size(); ++k) {
        const ProgramCode::Entry& kernel = in_.programs[p].kernels[k];
        out_.manifest.kernels.push_back({fmt::format("p{}.k{}", p, k), "code", base + kernel.offset, kernel.bytes});
        entry_.scratch_bytes_per_thread = std::max(entry_.scratch_bytes_per_thread, kernel.scratch_bytes);
      }
    }
  }

  ValueId storage(ValueId id) const {
    const auto alias = in_.aliases.find(id);
    return alias == in_.aliases.end() ? id : storage(alias->second);
  }

  // The graph output whose tensor holds the storage of `root`, or -1.
  int output_of(ValueId root) const {
    for (size_t i = 0; i < in_.graph.outputs.size(); ++i) {
      if (storage(in_.graph.outputs[i]) == root) return static_cast<int>(i);
    }
    return -1;
  }

  int64_t buffer_of_value(ValueId id) {
    const ValueId root = storage(id);
    if (const auto known = value_buffer_.find(root); known != value_buffer_.end()) return known->second;
    const graph::Value& value = in_.graph.value(root);
    format::Buffer buffer{format::Place::kArena, 0, 0, value.type.bytes(), value.name};
    const auto input = std::find(in_.graph.inputs.begin(), in_.graph.inputs.end(), root);
    if (input != in_.graph.inputs.end()) {
      buffer.place = format::Place::kInput;
      buffer.index = input - in_.graph.inputs.begin();
    } else if (const int output = output_of(root); output >= 0) {
      buffer.place = format::Place::kOutput;
      buffer.index = output;
    } else {
      // Layouts may pad: the storage can be larger than the logical tensor.
      buffer.bytes = num_elements(value.layout.storage_shape(value.type.shape)) * value.type.type.bytes();
    }
    entry_.buffers.push_back(buffer);
    return value_buffer_[root] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  int64_t buffer_of_constant(const Param& param) {
    const graph::Value& value = in_.graph.value(param.value);
    const std::string key = fmt::format("{} {}", param.value, to_string(param.layout));
    if (const auto known = constant_buffer_.find(key); known != constant_buffer_.end()) return known->second;
    const std::vector<std::byte> bytes = te::materialize(*value.constant, value.type.type.bytes(), value.type.shape, param.layout);
    const std::string content = content_hash(bytes);
    auto offset = weight_offset_.find(content);
    if (offset == weight_offset_.end()) {
      out_.weights.resize(round_up(static_cast<int64_t>(out_.weights.size()), kAlignment));
      offset = weight_offset_.emplace(content, static_cast<int64_t>(out_.weights.size())).first;
      const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
      out_.weights.insert(out_.weights.end(), data, data + bytes.size());
    }
    entry_.buffers.push_back({format::Place::kWeights, 0, offset->second, static_cast<int64_t>(bytes.size()), value.name});
    return constant_buffer_[key] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  int64_t buffer_of_param(const Param& param, const std::string& name, std::map<std::string, int64_t>& temporaries) {
    switch (param.kind) {
      case Param::Kind::kValue: return buffer_of_value(param.value);
      case Param::Kind::kConstant: return buffer_of_constant(param);
      case Param::Kind::kTemporary: break;
    }
    if (const auto known = temporaries.find(name); known != temporaries.end()) return known->second;
    entry_.buffers.push_back({format::Place::kArena, 0, 0, param.bytes, ""});
    return temporaries[name] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  void make_steps() {
    for (size_t g = 0; g < in_.groups.size(); ++g) {
      if (in_.program_of_group[g] < 0) continue;
      std::map<std::string, int64_t> temporaries;
      const std::vector<loop::Kernel>& kernels = in_.groups[g].loops.kernels;
      for (size_t k = 0; k < kernels.size(); ++k) {
        format::CpuStep step;
        step.kernel = first_kernel_[in_.program_of_group[g]] + static_cast<int64_t>(k);
        for (const loop::Buffer& p : kernels[k].params) {
          step.args.push_back(buffer_of_param(in_.groups[g].params.at(p.name), p.name, temporaries));
        }
        step.tiles = kernels[k].tiles;
        step.after = !entry_.cpu_steps.empty();
        step.name = kernels.size() == 1 ? in_.groups[g].plan.name : fmt::format("{} ({})", in_.groups[g].plan.name, kernels[k].name);
        entry_.cpu_steps.push_back(std::move(step));
      }
    }
  }

  void place_arena() {
    std::vector<transform::BufferRequest> requests;
    std::vector<size_t> places;
    for (size_t b = 0; b < entry_.buffers.size(); ++b) {
      if (entry_.buffers[b].place != format::Place::kArena) continue;
      transform::BufferRequest request;
      request.bytes = entry_.buffers[b].bytes;
      request.first_step = static_cast<int64_t>(entry_.cpu_steps.size());
      for (size_t s = 0; s < entry_.cpu_steps.size(); ++s) {
        const auto& args = entry_.cpu_steps[s].args;
        if (std::find(args.begin(), args.end(), static_cast<int64_t>(b)) == args.end()) continue;
        request.first_step = std::min(request.first_step, static_cast<int64_t>(s));
        request.last_step = static_cast<int64_t>(s);
      }
      requests.push_back(request);
      places.push_back(b);
    }
    const auto reuse = in_.reuse_memory ? transform::Reuse::kAllowed : transform::Reuse::kNone;
    const transform::MemoryPlan plan = transform::plan_memory(requests, reuse);
    for (size_t i = 0; i < places.size(); ++i) entry_.buffers[places[i]].offset = plan.offsets[i];
    entry_.arena_bytes = plan.arena_bytes;
  }

  const AssembleInput& in_;
  Assembled out_;
  format::Entry entry_;
  std::vector<int64_t> first_kernel_;  // of each program
  std::map<ValueId, int64_t> value_buffer_;
  std::map<std::string, int64_t> constant_buffer_;
  std::map<std::string, int64_t> weight_offset_;  // content hash -> offset
};

}  // namespace

std::map<ValueId, ValueId> find_aliases(const graph::Graph& graph) {
  std::map<ValueId, ValueId> aliases;
  std::set<ValueId> leaving;  // storages that hold a graph output already
  const auto root = [&](ValueId id) {
    while (aliases.count(id) != 0) id = aliases[id];
    return id;
  };
  for (const ValueId id : graph.outputs) leaving.insert(id);
  for (const graph::Node& node : graph.nodes) {
    if (!is_view(graph, node)) continue;
    const ValueId out = node.outputs[0];
    const ValueId in = root(node.inputs[0]);
    const bool fixed = graph.producer(in) < 0;
    if (graph.is_output(out) && (fixed || !leaving.insert(in).second)) continue;
    aliases[out] = node.inputs[0];
  }
  return aliases;
}

Assembled assemble(const AssembleInput& in) { return Assembler(in).run(); }

}  // namespace tw::driver
