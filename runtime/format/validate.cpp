#include "runtime/format/validate.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "runtime/format/error.h"
#include "runtime/format/problem.h"
#include "runtime/format/step_order.h"
#include "runtime/format/turns.h"
#include "runtime/format/validate_parts.h"

namespace tw::format {
namespace {

constexpr int64_t kMaxMemoryBytes = int64_t{1} << 47;  // the user address space of x86-64
constexpr int64_t kMaxTiles = int64_t{1} << 40;        // tiles * threads stays inside int64
constexpr size_t kMaxRank = 32;
// Limits of CUDA: grid.x, grid.y and grid.z, threads in a block, parameter bytes (since CUDA 12.1 on sm_70 and later).
constexpr int64_t kMaxGrid[3] = {(int64_t{1} << 31) - 1, 65535, 65535};
constexpr int64_t kMaxBlockThreads = 1024;
constexpr size_t kMaxParamBytes = 32764;
constexpr int64_t kMaxSharedBytes = int64_t{1} << 20;
constexpr int64_t kAccessBytes = 16;  // max bytes of an access: kernels, libraries, TMA

constexpr Require require{"manifest: "};

/// [offset, offset + bytes) inside [0, size), without overflow.
bool is_range(int64_t offset, int64_t bytes, int64_t size) {
  return offset >= 0 && bytes >= 0 && offset <= size && bytes <= size - offset;
}

void check_kernels(const Manifest& manifest, const SectionSize& section_size) {
  for (const Kernel& kernel : manifest.kernels) {
    const int64_t size = section_size(kernel.section);
    if (manifest.kind() == TargetKind::kCpu) {
      require(kernel.section == "code", "kernel '", kernel.name, "' is not in section 'code'");
      require(kernel.bytes > 0 && is_range(kernel.offset, kernel.bytes, size), "kernel '", kernel.name,
              "' lies outside of section 'code'");
    } else {
      require(kernel.section.starts_with("cubin.") && size > 0, "kernel '", kernel.name, "' names no cubin");
      require(kernel.offset == 0 && kernel.bytes == size, "kernel '", kernel.name, "' is not the whole of its cubin");
    }
  }
}

void check_tensors(const Entry& entry, const std::vector<TensorSpec>& specs) {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : specs) {
    require(!spec.name.empty() && names.insert(spec.name).second, "entry '", entry.name, "' has tensor '", spec.name,
            "' twice or without a name");
    require(spec.shape.size() <= kMaxRank, "tensor '", spec.name, "' has more than 32 dimensions");
    tensor_bytes(spec);
  }
}

void check_buffer(const Manifest& manifest, const Entry& entry, const Buffer& buffer, int64_t weights_size) {
  int64_t size = 0;
  switch (buffer.place) {
    case Place::kArena:
      size = entry.arena_bytes;
      break;
    case Place::kWeights:
      size = weights_size;
      break;
    case Place::kInput:
    case Place::kOutput: {
      const auto& specs = buffer.place == Place::kInput ? entry.inputs : entry.outputs;
      require(is_index(buffer.index, specs.size()), "entry '", entry.name, "' has a buffer of a missing tensor");
      size = tensor_bytes(specs[static_cast<size_t>(buffer.index)]);
      break;
    }
    case Place::kError:
      size = sizeof(int32_t);
      require(buffer.bytes == size, "entry '", entry.name, "' has an error word that is not 4 bytes");
      break;
    case Place::kExtent:
      size = sizeof(int64_t);
      require(is_index(buffer.index, entry.extents.size()) && buffer.bytes == size, "entry '", entry.name,
              "' has a buffer that is none of its extents");
      break;
    case Place::kState:
    case Place::kNextState:
      require(is_index(buffer.index, manifest.states.size()), "entry '", entry.name, "' has a buffer of no state");
      size = tensor_bytes(manifest.states[static_cast<size_t>(buffer.index)].tensor);
      break;
  }
  const bool is_indexed =
      buffer.place != Place::kArena && buffer.place != Place::kWeights && buffer.place != Place::kError;
  require(is_indexed || buffer.index == 0, "entry '", entry.name, "' has a buffer with a needless index");
  require(is_range(buffer.offset, buffer.bytes, size), "entry '", entry.name, "' has a buffer outside of its place");
  check_moves(entry, buffer, size - buffer.offset - buffer.bytes);
}

void check_step(const Manifest& manifest, const Entry& entry, const CpuStep& step) {
  require(is_index(step.kernel, manifest.kernels.size()), "step '", step.name, "' has no such kernel");
  require(step.tiles >= 1 && step.tiles <= kMaxTiles, "step '", step.name, "' has ", step.tiles, " tiles");
  for (const int64_t arg : step.args) {
    require(is_index(arg, entry.buffers.size()), "step '", step.name, "' has no such buffer");
  }
}

void check_windows(const CudaStep& step, const TensorMap& map) {
  const Windows& w = map.windows;
  const size_t rank = map.shape.size();
  bool right = rank >= Windows::kMinRank && w.extents.size() == rank - 2 && w.steps.size() == rank - 2 &&
               w.before.size() == rank - 2;
  const int64_t corners = Windows::max_corner(rank);
  for (size_t d = 0; right && d + 2 < rank; ++d) {
    right = map.box[d + 1] == 1 && w.steps[d] >= 1 && w.steps[d] <= Windows::kMaxStep && w.before[d] <= corners &&
            w.extents[d] >= 1 && w.extents[d] <= kMaxTiles;
    if (!right) break;
    const int64_t behind = w.last_corner(d, map.shape[d + 1]);
    right = behind >= -corners && behind < corners;
  }
  require(right, "step '", step.name, "' describes windows that the tensor does not have");
}

void check_map(const Entry& entry, const CudaStep& step, const TensorMap& map) {
  constexpr int64_t kMaxExtent = int64_t{1} << 32;
  constexpr int64_t kMaxPixels = 1024;  // that one copy of windows brings
  require(is_range(map.offset, TensorMap::kBytes, static_cast<int64_t>(step.params.size())), "step '", step.name,
          "' describes a tensor outside of its parameters");
  require(is_index(map.buffer, entry.buffers.size()), "step '", step.name, "' describes a missing buffer");
  const size_t rank = map.shape.size();
  bool right = rank >= 1 && rank <= TensorMap::kMaxRank && map.box.size() == rank;
  for (size_t d = 0; right && d < rank; ++d) {
    const int64_t max = d == 0 && !map.windows.empty() ? kMaxPixels : TensorMap::kMaxBox;
    right = map.shape[d] >= 1 && map.shape[d] <= kMaxExtent && map.box[d] >= 1 && map.box[d] <= max;
  }
  require(right, "step '", step.name, "' describes a tensor that has no such box");
  if (!map.windows.empty()) check_windows(step, map);
  const int64_t bytes = bytes_of(map.dtype);
  const int64_t line = map.box.back() * bytes;
  require((line == 32 || line == 64 || line == 128) && map.shape.back() * bytes % kAccessBytes == 0, "step '",
          step.name, "' copies boxes whose lines are not of 32, 64 or 128 bytes, or from lines that are not aligned");
  const Buffer& buffer = entry.buffers[static_cast<size_t>(map.buffer)];
  require(tensor_bytes({"", map.dtype, map.shape}) <= buffer.bytes, "step '", step.name,
          "' describes more than a buffer holds");
}

void check_call(const Entry& entry, const CudaStep& step) {
  const LibraryCall call = parse_library_call(step.call);
  const std::string reason = why_declined(call);
  require(reason.empty(), "step '", step.name, "' calls ", call.library, " for what it does not compute: ", reason);
  const std::vector<const Operand*> operands = call.problem.operands();
  require(operands.size() == step.operands.size(), "step '", step.name, "' has other operands than its problem");
  for (size_t i = 0; i < operands.size(); ++i) {
    require(is_index(step.operands[i], entry.buffers.size()), "step '", step.name, "' has no such buffer");
    const Buffer& buffer = entry.buffers[static_cast<size_t>(step.operands[i])];
    require(call.problem.span(*operands[i]) * bytes_of(operands[i]->dtype) <= buffer.bytes, "step '", step.name,
            "' has an operand beyond its buffer");
  }
}

void check_step(const Manifest& manifest, const Entry& entry, const CudaStep& step) {
  if (!step.call.empty()) return check_call(entry, step);
  require(is_index(step.kernel, manifest.kernels.size()), "step '", step.name, "' has no such kernel");
  int64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    require(step.grid[i] >= 1 && step.grid[i] <= kMaxGrid[i], "step '", step.name, "' has a wrong grid");
    require(step.block[i] >= 1 && step.block[i] <= kMaxBlockThreads, "step '", step.name, "' has a wrong block");
    threads *= step.block[i];
  }
  require(threads <= kMaxBlockThreads, "step '", step.name, "' has a block of more than 1024 threads");
  require(step.shared_bytes <= kMaxSharedBytes, "step '", step.name, "' wants too much shared memory");
  require(step.params.size() <= kMaxParamBytes, "step '", step.name, "' has too many parameter bytes");
  for (const int64_t argument : step.arguments) {
    require(is_index(argument, step.params.size()), "step '", step.name, "' has a parameter outside of all");
  }
  for (const Relocation& relocation : step.relocations) {
    require(is_range(relocation.offset, sizeof(uint64_t), static_cast<int64_t>(step.params.size())), "step '",
            step.name, "' relocates outside of its parameters");
    require(is_index(relocation.buffer, entry.buffers.size()), "step '", step.name, "' has no such buffer");
    const Buffer& buffer = entry.buffers[static_cast<size_t>(relocation.buffer)];
    require(is_range(relocation.addend, 0, buffer.bytes), "step '", step.name, "' points outside of a buffer");
  }
  for (const TensorMap& map : step.tensor_maps) check_map(entry, step, map);
}

void check_zeros(const Entry& entry, const Zeros& zeros) {
  require(is_index(zeros.buffer, entry.buffers.size()), "entry '", entry.name, "' has zeros of a missing buffer");
  const Buffer& buffer = entry.buffers[static_cast<size_t>(zeros.buffer)];
  require(buffer.place == Place::kArena && is_range(zeros.offset, zeros.bytes, buffer.bytes), "entry '", entry.name,
          "' has zeros outside of the arena or of their buffer");
  const int64_t begin = buffer.offset + zeros.offset, end = begin + zeros.bytes;
  for (const Buffer& other : entry.buffers) {
    const bool apart = other.place != Place::kArena || other.offset >= end || other.offset + extent(other) <= begin;
    require(apart || &other == &buffer, "entry '", entry.name, "' has a buffer where its zeros lie");
  }
}

void check_order(const Entry& entry) {
  for (size_t i = 0; i < entry.cuda_steps.size(); ++i) {
    int64_t last = -1;
    for (const int64_t before : entry.cuda_steps[i].after) {
      require(before > last && is_index(before, i), "step '", entry.cuda_steps[i].name,
              "' waits for no step before it");
      last = before;
    }
  }
}

/// That the steps of an entry have read each state before any of them writes it, and that the first one that takes what
/// is left of it, which writes it, has ended before others do.
class StateUses {
 public:
  StateUses(const Manifest& manifest, const Entry& entry) : manifest_(manifest), entry_(entry), order_(entry) {}

  void add(const CpuStep& step) { take(step.name, step.args); }

  void add(const CudaStep& step) {
    const bool writes = take(step.name, buffers_of(step));
    require(!writes || step.call.empty(), "step '", step.name, "' lets a library change a state");
  }

  /// Of all steps: in its second turn a repeat must not read what it has changed in the first.
  void check_repeats() const {
    for (const Repeat& repeat : entry_.repeats) {
      const auto in_repeat = [&](size_t step) { return holds(repeat, static_cast<int64_t>(step)); };
      for (const auto& [state, uses] : uses_) {
        const bool apart = !uses.writer || !in_repeat(*uses.writer) || std::ranges::none_of(uses.readers, in_repeat);
        require(apart, "entry '", entry_.name, "' has a repeat that reads and changes state '",
                manifest_.states[static_cast<size_t>(state)].tensor.name, "'");
      }
    }
  }

 private:
  struct Uses {
    std::vector<size_t> readers;
    std::optional<size_t> writer;
  };

  /// Whether the step takes what the run leaves of a state that no step before it has taken so.
  bool take(const std::string& step, const std::vector<int64_t>& buffers) {
    std::set<int64_t> found, left;
    const auto add_state = [&](const Buffer& buffer) {
      if (buffer.place == Place::kState) found.insert(buffer.index);
      if (buffer.place == Place::kNextState) left.insert(buffer.index);
    };
    for (const int64_t index : buffers) {
      const Buffer& buffer = entry_.buffers[static_cast<size_t>(index)];
      add_state(buffer);
      for (const int64_t initial : buffer.initial) add_state(entry_.buffers[static_cast<size_t>(initial)]);
    }
    for (const int64_t state : found) {
      require(!uses_[state].writer && !left.contains(state), "step '", step, "' reads state '",
              manifest_.states[static_cast<size_t>(state)].tensor.name, "' where it has changed");
      uses_[state].readers.push_back(number_);
    }
    bool writes = false;
    for (const int64_t state : left) {
      Uses& uses = uses_[state];
      const bool alone = std::ranges::all_of(uses.readers, [&](size_t r) { return order_.has_ended(r, number_); }) &&
                         (!uses.writer || order_.has_ended(*uses.writer, number_));
      require(alone, "step '", step, "' changes a state while others may use it");
      writes |= !uses.writer;
      uses.writer = uses.writer.value_or(number_);
    }
    ++number_;
    return writes;
  }

  const Manifest& manifest_;
  const Entry& entry_;
  const StepOrder order_;
  std::map<int64_t, Uses> uses_;  // by state
  size_t number_ = 0;             // of the step
};

void check_entry(const Manifest& manifest, const Entry& entry, int64_t weights_size) {
  check_tensors(entry, entry.inputs);
  check_tensors(entry, entry.outputs);
  check_extents(entry);
  require(entry.arena_bytes <= kMaxMemoryBytes, "entry '", entry.name, "' has too large an arena");
  require(entry.scratch_bytes_per_thread <= kMaxMemoryBytes, "entry '", entry.name, "' has too large a scratch area");
  const bool is_cpu = manifest.kind() == TargetKind::kCpu;
  for (const Buffer& buffer : entry.buffers) {
    check_buffer(manifest, entry, buffer, weights_size);
    const auto at_access = [](const Move& move) { return move.bytes % kAccessBytes == 0; };
    require(is_cpu || (buffer.offset % kAccessBytes == 0 && std::ranges::all_of(buffer.moves, at_access)), "entry '",
            entry.name, "' has a buffer between accesses");
  }
  require(is_cpu ? entry.cuda_steps.empty() : entry.cpu_steps.empty(), "entry '", entry.name,
          "' has steps of another target");
  for (const CpuStep& step : entry.cpu_steps) check_step(manifest, entry, step);
  for (const CudaStep& step : entry.cuda_steps) check_step(manifest, entry, step);
  for (const Zeros& zeros : entry.zeros) check_zeros(entry, zeros);
  check_repeats(entry);
  check_order(entry);
  check_memory(entry);
  StateUses uses(manifest, entry);
  for (const CpuStep& step : entry.cpu_steps) uses.add(step);
  for (const CudaStep& step : entry.cuda_steps) uses.add(step);
  uses.check_repeats();
}

/// Nothing, or dims in another order than their own: one spelling for each.
bool is_order(const std::vector<int64_t>& order, size_t rank) {
  if (order.empty()) return true;
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d) {
    if (sorted[d] != static_cast<int64_t>(d)) return false;
  }
  return order.size() == rank && sorted != order;
}

/// They are of the state's type, and all of it.
void check_parts(const State& state, std::set<std::string_view>& names) {
  int64_t bytes = 0;
  for (const StatePart& part : state.parts) {
    const TensorSpec& spec = part.tensor;
    require(!spec.name.empty() && names.insert(spec.name).second, "part '", spec.name, "' of state '",
            state.tensor.name, "' has no name or that of another tensor");
    require(spec.dtype == state.tensor.dtype && spec.shape.size() <= kMaxRank, "part '", spec.name,
            "' is of another type than state '", state.tensor.name, "'");
    require(is_order(part.order, spec.shape.size()), "part '", spec.name, "' is stored in no order of its dims");
    bytes += tensor_bytes(spec);
  }
  require(state.order.empty() && bytes == tensor_bytes(state.tensor), "state '", state.tensor.name,
          "' is not what its parts are");
}

/// Each lies by itself; no name is that of another tensor of the model.
void check_states(const Manifest& manifest, int64_t section_size) {
  std::set<std::string_view> names;
  for (const Entry& entry : manifest.entries) {
    for (const TensorSpec& spec : entry.inputs) names.insert(spec.name);
    for (const TensorSpec& spec : entry.outputs) names.insert(spec.name);
  }
  int64_t end = 0;
  for (const State& state : manifest.states) {
    const std::string& name = state.tensor.name;
    require(!name.empty() && names.insert(name).second, "state '", name, "' has no name or that of another tensor");
    require(!state.next.empty() && names.insert(state.next).second, "state '", name, "' becomes another tensor");
    require(state.tensor.shape.size() <= kMaxRank, "state '", name, "' has more than 32 dimensions");
    require(state.offset % State::kAlignment == 0 && state.offset >= end && state.offset <= kMaxMemoryBytes, "state '",
            name, "' lies in the wrong place");
    require(is_order(state.order, state.tensor.shape.size()), "state '", name, "' is stored in no order of its dims");
    end = state.offset + tensor_bytes(state.tensor);
    if (!state.parts.empty()) check_parts(state, names);
  }
  require(section_size == 0 || section_size == manifest.state_bytes(), "section 'states' has ", section_size,
          " bytes for states of ", manifest.state_bytes());
}

bool same_but_for_shapes(const std::vector<TensorSpec>& a, const std::vector<TensorSpec>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorSpec& x, const TensorSpec& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape.size() == y.shape.size();
  });
}

/// Kernels and steps have the form of one kind of device: a GPU's code is for one architecture.
void check_targets(const Manifest& manifest) {
  require(!manifest.targets.empty(), "there is no target");
  require(manifest.kind() == TargetKind::kCpu || manifest.targets.size() == 1, "there are several GPU targets");
  std::set<std::string_view> names;
  for (const ManifestTarget& target : manifest.targets) {
    require(!target.arch.empty(), "a target has no architecture");
    require(target.kind == manifest.kind(), "there are targets of several kinds");
    require(names.insert(target.arch).second, "the target '", target.arch, "' occurs twice");
  }
}

/// Every target has the entries of the first one, in the same order.
void check_entries_of_targets(const Manifest& manifest) {
  const size_t combinations = manifest.combinations();
  require(combinations * manifest.targets.size() == manifest.entries.size() && combinations > 0,
          "there are not as many entries for each target");
  for (size_t e = 0; e < manifest.entries.size(); ++e) {
    const Entry& entry = manifest.entries[e];
    const Entry& first = manifest.entries[e % combinations];
    require(entry.target == static_cast<int64_t>(e / combinations), "entry '", entry.name, "' is not in its place");
    require(entry.name == first.name && entry.function == first.function && entry.inputs == first.inputs &&
                entry.outputs == first.outputs && entry.extents == first.extents,
            "entry '", entry.name, "' differs between targets");
  }
}

/// Entries of a function are versions of it for different input shapes; the caller's inputs must select one of them.
void check_entries_agree(const Manifest& manifest, const Function& function) {
  std::set<std::vector<std::vector<int64_t>>> shapes;
  const Entry& first = manifest.entries[function.first];
  for (size_t e = function.first; e < function.first + function.count; ++e) {
    const Entry& entry = manifest.entries[e];
    require(same_but_for_shapes(entry.inputs, first.inputs) && same_but_for_shapes(entry.outputs, first.outputs),
            "entry '", entry.name, "' has other inputs or outputs than '", first.name, "'");
    std::vector<std::vector<int64_t>> key;
    for (const TensorSpec& spec : entry.inputs) key.push_back(spec.shape);
    require(shapes.insert(std::move(key)).second, "entry '", entry.name, "' repeats the shapes of another entry");
  }
}

void check_functions(const Manifest& manifest) {
  std::set<std::string_view> names, functions;
  for (size_t e = 0; e < manifest.combinations(); ++e) {
    const std::string& name = manifest.entries[e].name;
    require(!name.empty() && names.insert(name).second, "entry '", name, "' occurs twice or has no name");
  }
  const std::vector<Function> all = functions_of(manifest);
  for (const Function& function : all) {
    require(functions.insert(function.name).second, "the entries of function '", function.name, "' are apart");
    require(!function.name.empty() || all.size() == 1, "one of several functions has no name");
    check_entries_agree(manifest, function);
  }
}

}  // namespace

void validate(const Manifest& manifest, const SectionSize& section_size) {
  require(!manifest.entries.empty(), "there is no entry");
  const bool is_dtype =
      manifest.dtype == DataType::kF32 || manifest.dtype == DataType::kF16 || manifest.dtype == DataType::kBF16;
  require(is_dtype, "the dtype ", name_of(manifest.dtype), " is none that f32 is compiled to");
  check_targets(manifest);
  check_entries_of_targets(manifest);
  check_kernels(manifest, section_size);
  const int64_t weights_size = section_size("weights");
  check_states(manifest, section_size("states"));
  size_t steps = 0;  // a context prepares those of all entries
  for (const Entry& entry : manifest.entries) {
    check_entry(manifest, entry, weights_size);
    steps += steps_run(entry, entry.cpu_steps.size() + entry.cuda_steps.size());
    require(steps <= static_cast<size_t>(kMaxStepsRun), "its entries run more than ", kMaxStepsRun, " steps");
  }
  check_functions(manifest);
}

bool is_section_name(std::string_view name) {
  constexpr std::string_view kNames[] = {"code",      "kernels", "manifest", "metadata", "plan",
                                         "signature", "source",  "states",   "weights"};
  constexpr std::string_view kNumbered[] = {"cubin.", "graph."};
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  const auto* prefix =
      std::find_if(std::begin(kNumbered), std::end(kNumbered), [&](std::string_view p) { return name.starts_with(p); });
  if (prefix == std::end(kNumbered)) return false;
  name.remove_prefix(prefix->size());
  constexpr size_t kMaxDigits = 5;
  return !name.empty() && name.size() <= kMaxDigits &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace tw::format
