#include "driver/artefact/place_entry.h"

#include "driver/artefact/embed_loop.h"
#include "driver/artefact/extent_input.h"
#include "driver/artefact/plan_memory.h"
#include "driver/artefact/step_order.h"
#include "driver/code/format_type.h"
#include "graph/error_output.h"
#include "runtime/format/turns.h"
#include "support/join.h"

namespace tw::driver {
namespace {

using graph::ValueId;

format::TensorSpec spec_of(const graph::Value& value) {
  return {value.name, format_type(value.type.type), value.type.shape};
}

class Placer {
 public:
  Placer(DeviceKind device, const EntryCode& code, const CodeStore& kernels, WeightStore& weights,
         const PlaceOptions& options)
      : device_(device),
        code_(code),
        kernels_(kernels),
        weights_(weights),
        states_(options.states),
        branches_(options.branches) {}

  PlacedEntry run() {
    out_.graph = code_.graph;
    const std::vector<ValueId>&inputs = code_.graph.inputs, &outputs = code_.graph.outputs;
    for (size_t i = 0; i < inputs.size(); ++i) input_of_.emplace(inputs[i], i);
    for (size_t i = 0; i < outputs.size(); ++i) output_of_.emplace(storage(outputs[i]), i);
    entry_.name = code_.plan.name;
    entry_.function = code_.function;
    entry_.extents = code_.extents;
    for (const ValueId id : code_.graph.inputs) {
      if (state_of(id) < 0 && extent_of(id) < 0) entry_.inputs.push_back(spec_of(code_.graph.value(id)));
    }
    for (const ValueId id : code_.graph.outputs) {
      if (!is_error(id) && state_after(id) < 0) entry_.outputs.push_back(spec_of(code_.graph.value(id)));
    }
    make_steps();
    keep_other_constants();
    place_arena();
    order_steps();
    double flop = loop_flop_;
    for (const GroupCode& group : code_.groups) flop += group.lowered.flop;
    entry_.flop = static_cast<int64_t>(flop);
    return std::move(out_);
  }

 private:
  ValueId storage(ValueId id) const {
    for (auto alias = code_.aliases.find(id); alias != code_.aliases.end(); alias = code_.aliases.find(id))
      id = alias->second;
    return id;
  }

  // Number of the state that is, or that becomes, the value; -1: none.
  int64_t state_of(ValueId id) const {
    return index_of(states_, code_.graph.value(id).name, [](const format::State& s) { return s.tensor.name; });
  }
  // Number of the extent that the value is; -1: none.
  int64_t extent_of(ValueId id) const {
    return index_of(code_.extents, code_.graph.value(id).name, [](const format::Extent& e) { return input_of(e); });
  }
  int64_t state_after(ValueId id) const { return index_of(states_, code_.graph.value(id).name, &format::State::next); }

  bool is_error(ValueId id) const { return code_.graph.value(id).name == graph::kErrorOutput; }

  int64_t buffer_of_value(ValueId id) {
    const ValueId root = storage(id);
    if (const auto known = value_buffer_.find(root); known != value_buffer_.end()) return known->second;
    const graph::Value& value = code_.graph.value(root);
    if (value.is_constant()) return buffer_of_constant(root, value.layout);  // a view of it is read
    format::Buffer buffer{format::Place::kArena, 0, 0, value.type.bytes(), value.name};
    const auto input = input_of_.find(root), output = output_of_.find(root);
    if (input != input_of_.end()) {
      const int64_t state = state_of(root), extent = extent_of(root);
      buffer.place = state >= 0 ? format::Place::kState : extent >= 0 ? format::Place::kExtent : format::Place::kInput;
      buffer.index = std::max({state, extent, int64_t{-1}});
      if (buffer.index < 0) buffer.index = static_cast<int64_t>(input->second);
    } else if (output != output_of_.end() && is_error(code_.graph.outputs[output->second])) {
      buffer.place = format::Place::kError;
    } else if (output != output_of_.end()) {
      const int64_t state = state_after(code_.graph.outputs[output->second]);
      buffer.place = state < 0 ? format::Place::kOutput : format::Place::kNextState;
      buffer.index = state < 0 ? static_cast<int64_t>(output->second) : state;
    } else {
      // Layouts may pad: the storage can be larger than the logical tensor.
      buffer.bytes = num_elements(value.layout.storage_shape(value.type.shape)) * value.type.type.bytes();
    }
    entry_.buffers.push_back(buffer);
    return value_buffer_[root] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  int64_t buffer_of_constant(ValueId id, const Layout& layout) {
    const graph::Value& value = code_.graph.value(id);
    const std::string key = fmt::format("{} {}", id, to_string(layout));
    if (const auto known = constant_buffer_.find(key); known != constant_buffer_.end()) return known->second;
    const WeightStore::Place place = weights_.add(value, layout);
    entry_.buffers.push_back({format::Place::kWeights, 0, place.offset, place.bytes, value.name});
    out_.layouts.push_back(layout);
    if (kept_.insert(id).second) out_.graph.values[id].layout = layout;
    return constant_buffer_[key] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  // Constants that no kernel reads: the artefact's own graph must have all that its text does not hold.
  void keep_other_constants() {
    for (size_t i = 0; i < code_.graph.values.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      const graph::Value& value = code_.graph.value(id);
      if (value.is_constant() && !graph::is_inline(value) && kept_.count(id) == 0) buffer_of_constant(id, Layout());
    }
  }

  int64_t buffer_of_param(const Param& param, const std::string& name, std::map<std::string, int64_t>& temporaries) {
    switch (param.kind) {
      case Param::Kind::kValue:
        return buffer_of_value(param.value);
      case Param::Kind::kConstant:
        return buffer_of_constant(param.value, param.layout);
      case Param::Kind::kTemporary:
        break;
    }
    if (const auto known = temporaries.find(name); known != temporaries.end()) return known->second;
    entry_.buffers.push_back({format::Place::kArena, 0, 0, param.bytes, ""});
    return temporaries[name] = static_cast<int64_t>(entry_.buffers.size()) - 1;
  }

  void make_steps() {
    size_t loops = 0;
    for (size_t g = 0; g < code_.groups.size(); ++g) {
      const int program = code_.program_of_group[g];
      if (graph::loop_of(code_.graph.nodes[g]) != nullptr) add_loop(g, code_.bodies[loops++]);
      if (program < 0) continue;
      std::map<std::string, int64_t> temporaries;
      const std::vector<loop::Kernel>& kernels = code_.groups[g].lowered.loops->kernels;
      for (size_t k = 0; k < kernels.size(); ++k) {
        std::vector<int64_t> args = mapped(kernels[k].params, [&](const loop::Buffer& p) {
          return buffer_of_param(code_.groups[g].params.at(p.name), p.name, temporaries);
        });
        const std::string& group = code_.groups[g].name;
        const std::string name = kernels.size() == 1 ? group : fmt::format("{} ({})", group, kernels[k].name);
        const ProgramCode::Entry& code = kernels_.entry(program, k);
        if (device_ == DeviceKind::kCpu) {
          entry_.cpu_steps.push_back(
              {kernels_.row(program, k), args, kernels[k].tiles, !entry_.cpu_steps.empty(), name});
        } else {
          if (code.cuda.workspace_bytes > 0) args.push_back(workspace_of(kernels_.row(program, k), code.cuda));
          add_cuda_step(kernels_.row(program, k), code, kernels[k].tiles, args, name);
        }
        entry_.scratch_bytes_per_thread = std::max(entry_.scratch_bytes_per_thread, code.scratch_bytes);
        step_args_.push_back(std::move(args));
        step_writes_.push_back(written_by(kernels[k]));
      }
    }
  }

  void add_loop(size_t g, const EntryCode& code) {
    const graph::Node& group = code_.graph.nodes[g];
    const graph::Node& loop = *graph::loop_of(group);
    LoopPorts ports{graph::repeat_of(loop), {}, {}};
    for (const ValueId id : ports_of(group, group.body->inputs, loop.inputs, group.inputs))
      ports.inputs.push_back(buffer_of_value(id));
    for (const ValueId id : ports_of(group, group.body->outputs, loop.outputs, group.outputs))
      ports.outputs.push_back(buffer_of_value(id));
    // Behind the ports: constants are stored in the order of their buffers.
    PlacedEntry body = Placer(device_, code, kernels_, weights_, {{}, Branches::kNone}).run();
    // Names of buffers say which value lies there: those of a body are others than the values around it.
    const std::string prefix = graph::body_prefix(code_.graph, group);
    body.graph = graph::with_prefix(std::move(body.graph), prefix);
    for (format::Buffer& buffer : body.entry.buffers) {
      if (!buffer.name.empty()) buffer.name = prefix + buffer.name;
    }
    EmbeddedLoop made = embed_loop(body.entry, ports, entry_);
    append(step_args_, std::move(made.step_args));
    step_writes_.resize(step_args_.size());
    within_.merge(made.within);
    if (made.arena >= 0) rooms_.push_back(made.arena);
    append(out_.layouts, std::move(body.layouts));
    entry_.scratch_bytes_per_thread = std::max(entry_.scratch_bytes_per_thread, body.entry.scratch_bytes_per_thread);
    loop_flop_ += static_cast<double>(body.entry.flop) * static_cast<double>(ports.repeat.turns);
    out_.graph.nodes[g].body = graph::with_loop_body(*group.body, std::move(body.graph));
  }

  // Of the loop's values, which are `inside` of its group, those outside of it.
  std::vector<ValueId> ports_of(const graph::Node& group, const std::vector<ValueId>& boundary,
                                const std::vector<ValueId>& inside, const std::vector<ValueId>& outside) const {
    return mapped(inside, [&](ValueId id) {
      const int64_t position = index_of(boundary, id);
      TW_CHECK(position >= 0, "the loop of '{}' has a value that its group does not have", group.name);
      return outside[static_cast<size_t>(position)];
    });
  }

  // By argument; the workspace, behind those of the kernel, is written.
  static std::vector<bool> written_by(const loop::Kernel& kernel) {
    return mapped(kernel.params, [&](const loop::Buffer& p) {
      return std::ranges::find(kernel.written, p.name) != kernel.written.end();
    });
  }

  // Steps of one kernel share it, one after the other: each leaves its zeros as they were.
  int64_t workspace_of(int64_t kernel, const format::CudaLaunch& launch) {
    const auto [found, fresh] = workspaces_.try_emplace(kernel, std::ssize(entry_.buffers));
    if (!fresh) return found->second;
    entry_.buffers.push_back({format::Place::kArena, 0, 0, launch.workspace_bytes, ""});
    entry_.zeros.push_back(launch.zeros(found->second));
    return found->second;
  }

  void add_cuda_step(int64_t kernel, const ProgramCode::Entry& code, int64_t tiles, const std::vector<int64_t>& args,
                     const std::string& name) {
    format::CudaStep step = format::step_over_tiles(kernel, tiles, code.cuda, args);
    step.name = name;
    if (const auto number = std::ssize(entry_.cuda_steps); number > 0) step.after = {number - 1};
    entry_.cuda_steps.push_back(std::move(step));
  }

  void place_arena() {
    const int64_t steps = std::ssize(step_args_);
    std::vector<BufferRequest> all(entry_.buffers.size(), {.first_step = steps});
    const auto use = [&](int64_t buffer, int64_t step) {
      const auto part = within_.find(buffer);
      BufferRequest& request = all[static_cast<size_t>(part == within_.end() ? buffer : part->second.whole)];
      request.first_step = std::min(request.first_step, step);
      request.last_step = std::max(request.last_step, step);
    };
    const auto use_at = [&](int64_t buffer, int64_t step) {
      use(buffer, step);
      for (const format::Repeat& repeat : entry_.repeats) {  // what a turn reads, the next one may read, too
        if (!format::holds(repeat, step)) continue;
        use(buffer, repeat.first);
        use(buffer, repeat.first + repeat.count - 1);
      }
    };
    for (int64_t s = 0; s < steps; ++s) {
      for (const int64_t b : step_args_[static_cast<size_t>(s)]) {
        use_at(b, s);
        for (const int64_t first : entry_.buffers[static_cast<size_t>(b)].initial) use_at(first, s);
      }
    }
    for (const format::Zeros& zeros : entry_.zeros) {
      use(zeros.buffer, 0);
      use(zeros.buffer, steps - 1);
    }
    std::vector<BufferRequest> requests;
    std::vector<size_t> places;
    for (size_t b = 0; b < entry_.buffers.size(); ++b) {
      if (entry_.buffers[b].place != format::Place::kArena || within_.contains(static_cast<int64_t>(b))) continue;
      all[b].bytes = entry_.buffers[b].bytes;
      requests.push_back(all[b]);
      places.push_back(b);
    }
    if (device_ == DeviceKind::kCuda && branches_ == Branches::kAuto) keep_small(requests, steps);
    const MemoryPlan plan = plan_memory(requests);
    for (size_t i = 0; i < places.size(); ++i) entry_.buffers[places[i]].offset = plan.offsets[i];
    for (const auto& [b, within] : within_)
      entry_.buffers[static_cast<size_t>(b)].offset =
          entry_.buffers[static_cast<size_t>(within.whole)].offset + within.offset;
    for (const int64_t room : rooms_) entry_.buffers[static_cast<size_t>(room)].bytes = 0;  // its parts are all there
    entry_.arena_bytes = plan.arena_bytes;
  }

  // The smallest buffers keep their places to the end, as long as they are a small part of all: a step that only takes
  // the place of another one would wait for it.
  static void keep_small(std::vector<BufferRequest>& requests, int64_t steps) {
    constexpr int64_t kPart = 32;
    int64_t left = plan_memory(requests).arena_bytes / kPart;
    std::vector<BufferRequest*> by_size = by_index(requests.size(), [&](size_t i) { return &requests[i]; });
    std::ranges::stable_sort(by_size, {}, [](const BufferRequest* r) { return r->bytes; });
    for (BufferRequest* request : by_size) {
      left -= request->bytes;
      if (left < 0) return;
      if (request->first_step < steps) request->last_step = steps - 1;
    }
  }

  // Memories in which buffers lie, besides outputs: those are apart from each other and from inputs.
  enum Memory : int64_t { kArenaMemory, kStateMemory, kErrorMemory, kLibraryMemory, kFirstOutput };

  std::optional<MemoryAccess> access_to(const format::Buffer& buffer, bool writes) const {
    const MemoryAccess bytes = {kArenaMemory, buffer.offset, buffer.offset + buffer.bytes, writes};
    switch (buffer.place) {
      case format::Place::kArena:
        return bytes;
      case format::Place::kState:
      case format::Place::kNextState: {
        const int64_t state = states_[static_cast<size_t>(buffer.index)].offset;
        return MemoryAccess{kStateMemory, state + bytes.begin, state + bytes.end, writes};
      }
      case format::Place::kError:
        return MemoryAccess{kErrorMemory, 0, 1, true};
      case format::Place::kOutput:
        return MemoryAccess{kFirstOutput + buffer.index, bytes.begin, bytes.end, writes};
      case format::Place::kInput:
      case format::Place::kExtent:
      case format::Place::kWeights:
        break;
    }
    return std::nullopt;  // nobody writes it
  }

  std::vector<MemoryAccess> accesses_of(size_t step) const {
    std::vector<MemoryAccess> accesses;
    for (size_t i = 0; i < step_args_[step].size(); ++i) {
      const bool writes = i >= step_writes_[step].size() || step_writes_[step][i];
      const auto access = access_to(entry_.buffers[static_cast<size_t>(step_args_[step][i])], writes);
      if (access && access->begin < access->end) accesses.push_back(*access);
    }
    if (!entry_.cuda_steps[step].call.empty())
      accesses.push_back({kLibraryMemory, 0, 1, true});  // all calls have one workspace
    return accesses;
  }

  void order_steps() {
    if (branches_ == Branches::kNone || !entry_.repeats.empty()) return;  // steps of loops are a chain
    std::vector<std::vector<MemoryAccess>> accesses;
    for (size_t s = 0; s < entry_.cuda_steps.size(); ++s) accesses.push_back(accesses_of(s));
    const std::vector<std::vector<int64_t>> waits = waits_of(accesses);
    for (size_t s = 0; s < waits.size(); ++s) entry_.cuda_steps[s].after = waits[s];
  }

  DeviceKind device_;
  const EntryCode& code_;
  const CodeStore& kernels_;
  WeightStore& weights_;
  const std::span<const format::State> states_;
  Branches branches_;
  PlacedEntry out_;
  format::Entry& entry_ = out_.entry;
  std::vector<std::vector<int64_t>> step_args_;     // buffers of each step
  std::vector<std::vector<bool>> step_writes_;      // whether it writes them
  std::map<ValueId, size_t> input_of_, output_of_;  // storages that are tensors of the caller's
  std::map<ValueId, int64_t> value_buffer_;
  std::map<int64_t, Within> within_;  // buffers of loops
  std::vector<int64_t> rooms_;        // buffers that are the arenas of loops' bodies
  double loop_flop_ = 0;
  std::map<int64_t, int64_t> workspaces_;           // of kernels
  std::map<std::string, int64_t> constant_buffer_;  // constant and layout
  std::set<ValueId> kept_;                          // constants that have a buffer
};

}  // namespace

PlacedEntry place_entry(DeviceKind device, const EntryCode& code, const CodeStore& kernels, WeightStore& weights,
                        const PlaceOptions& options) {
  return Placer(device, code, kernels, weights, options).run();
}

}  // namespace tw::driver
