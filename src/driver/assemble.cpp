#include "driver/assemble.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "support/error.h"
#include "support/hash.h"
#include "support/math.h"
#include "te/materialize.h"
#include "transform/plan_memory.h"
#include "transform/storage_order.h"

namespace tw::driver {
namespace {

using graph::ValueId;

constexpr int64_t kAlignment = 64;     // one cache line, one vector
constexpr int64_t kCudaThreads = 128;  // of a block: four warps fill the four schedulers of a multiprocessor

format::DataType format_type(DataType type) {
  const auto found = format::parse_data_type(to_string(type));
  TW_CHECK(found.has_value(), "element type {} has no name in artefacts", to_string(type));
  return *found;
}

format::TensorSpec spec_of(const graph::Value& value) {
  return {value.name, format_type(value.type.type), value.type.shape};
}

class Assembler {
 public:
  explicit Assembler(const AssembleInput& in) : in_(in) {}

  Assembled run() {
    for (size_t p = 0; p < in_.programs.size(); ++p) place_code(p);
    entry_.name = "main";
    for (const ValueId id : in_.graph.inputs) entry_.inputs.push_back(spec_of(in_.graph.value(id)));
    for (const ValueId id : in_.graph.outputs) entry_.outputs.push_back(spec_of(in_.graph.value(id)));
    make_steps();
    place_arena();
    out_.sections["weights"] = std::move(weights_);
    out_.manifest.entries.push_back(std::move(entry_));
    return std::move(out_);
  }

 private:
  // CPU programs share one section; each cubin is a section of its own.
  void place_code(size_t p) {
    const ProgramCode& program = in_.programs[p];
    const bool cubin = in_.device == DeviceKind::kCuda;
    const std::string section = cubin ? fmt::format("cubin.{}", p) : "code";
    std::vector<uint8_t>& code = out_.sections[section];
    code.resize(round_up(static_cast<int64_t>(code.size()), kAlignment));
    const auto base = static_cast<int64_t>(code.size());
    const auto* bytes = reinterpret_cast<const uint8_t*>(program.bytes.data());
    code.insert(code.end(), bytes, bytes + program.bytes.size());
    first_kernel_.push_back(static_cast<int64_t>(out_.manifest.kernels.size()));
    for (size_t k = 0; k < program.kernels.size(); ++k) {
      const ProgramCode::Entry& kernel = program.kernels[k];
      const std::string name = cubin ? kernel.name : fmt::format("p{}.k{}", p, k);
      const auto size = cubin ? static_cast<int64_t>(program.bytes.size()) : kernel.bytes;
      out_.manifest.kernels.push_back({name, section, base + kernel.offset, size});
      entry_.scratch_bytes_per_thread = std::max(entry_.scratch_bytes_per_thread, kernel.scratch_bytes);
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
    const std::vector<std::byte> bytes =
        te::materialize(*value.constant, value.type.type.bytes(), value.type.shape, param.layout);
    const std::string content = content_hash(bytes);
    auto offset = weight_offset_.find(content);
    if (offset == weight_offset_.end()) {
      weights_.resize(round_up(static_cast<int64_t>(weights_.size()), kAlignment));
      offset = weight_offset_.emplace(content, static_cast<int64_t>(weights_.size())).first;
      const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
      weights_.insert(weights_.end(), data, data + bytes.size());
    }
    entry_.buffers.push_back(
        {format::Place::kWeights, 0, offset->second, static_cast<int64_t>(bytes.size()), value.name});
    return constant_buffer_[key] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  int64_t buffer_of_param(const Param& param, const std::string& name, std::map<std::string, int64_t>& temporaries) {
    switch (param.kind) {
      case Param::Kind::kValue:
        return buffer_of_value(param.value);
      case Param::Kind::kConstant:
        return buffer_of_constant(param);
      case Param::Kind::kTemporary:
        break;
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
        std::vector<int64_t> args;
        for (const loop::Buffer& p : kernels[k].params) {
          args.push_back(buffer_of_param(in_.groups[g].params.at(p.name), p.name, temporaries));
        }
        const std::string& group = in_.groups[g].plan.name;
        const std::string name = kernels.size() == 1 ? group : fmt::format("{} ({})", group, kernels[k].name);
        add_step(first_kernel_[in_.program_of_group[g]] + static_cast<int64_t>(k), kernels[k].tiles, args, name);
        step_args_.push_back(std::move(args));
      }
    }
  }

  void add_step(int64_t kernel, int64_t tiles, const std::vector<int64_t>& args, const std::string& name) {
    if (in_.device == DeviceKind::kCpu) {
      entry_.cpu_steps.push_back({kernel, args, tiles, !entry_.cpu_steps.empty(), name});
      return;
    }
    format::CudaStep step;
    step.kernel = kernel;
    step.grid = {ceil_div(tiles, kCudaThreads), 1, 1};
    step.block = {kCudaThreads, 1, 1};
    step.params.resize(args.size() * sizeof(uint64_t));
    for (size_t i = 0; i < args.size(); ++i)
      step.relocations.push_back({static_cast<int64_t>(i * sizeof(uint64_t)), args[i], 0});
    step.name = name;
    entry_.cuda_steps.push_back(std::move(step));
  }

  void place_arena() {
    std::vector<transform::BufferRequest> requests;
    std::vector<size_t> places;
    for (size_t b = 0; b < entry_.buffers.size(); ++b) {
      if (entry_.buffers[b].place != format::Place::kArena) continue;
      transform::BufferRequest request;
      request.bytes = entry_.buffers[b].bytes;
      request.first_step = static_cast<int64_t>(step_args_.size());
      for (size_t s = 0; s < step_args_.size(); ++s) {
        if (std::find(step_args_[s].begin(), step_args_[s].end(), static_cast<int64_t>(b)) == step_args_[s].end())
          continue;
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
  std::vector<uint8_t> weights_;
  std::vector<int64_t> first_kernel_;            // of each program
  std::vector<std::vector<int64_t>> step_args_;  // buffers of each step
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
    if (!transform::is_view(graph, node)) continue;
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
