#include "runtime/format/kernel_use.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "runtime/format/error.h"
#include "runtime/format/problem.h"
#include "runtime/format/step_order.h"
#include "runtime/format/turns.h"

namespace tw::format {
namespace {

constexpr Require require{};

class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  int64_t number(int64_t most) {
    require(rest_.size() >= sizeof(int64_t), "section 'kernels' is cut");
    int64_t value = 0;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    require(value >= 0 && value <= most, "section 'kernels' has the number ", value);
    return value;
  }
  /// Of rows of at least so many bytes each.
  size_t count(size_t row) { return static_cast<size_t>(number(static_cast<int64_t>(rest_.size() / row))); }
  bool at_end() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

constexpr int64_t kAny = INT64_MAX;
constexpr int64_t kMaxDtype = static_cast<int64_t>(DataType::kF64);
constexpr size_t kUseBytes = 6 * sizeof(int64_t), kArgumentBytes = 3 * sizeof(int64_t);

bool may_be_written(Place place) {
  return place == Place::kArena || place == Place::kOutput || place == Place::kError || place == Place::kNextState;
}

bool is_tensor(Place place) { return place == Place::kInput || place == Place::kOutput; }

bool overlap(const Buffer& a, const Buffer& b) {
  if (a.place != b.place || a.index != b.index || a.place == Place::kError) return false;
  return a.offset < b.offset + extent(b) && b.offset < a.offset + extent(a);
}

/// Where a buffer may lie: in its own place, and in that where it begins.
std::vector<const Buffer*> places_of(const Entry& entry, const Buffer& buffer) {
  std::vector<const Buffer*> places = {&buffer};
  for (const int64_t begin : buffer.initial) places.push_back(&entry.buffers[static_cast<size_t>(begin)]);
  return places;
}

bool may_overlap(const Entry& entry, int64_t a, int64_t b) {
  for (const Buffer* place : places_of(entry, entry.buffers[static_cast<size_t>(a)])) {
    for (const Buffer* other : places_of(entry, entry.buffers[static_cast<size_t>(b)])) {
      if (overlap(*place, *other)) return true;
    }
  }
  return false;
}

/// That steps read what a step before has written, and that something of each output is written.
class ValueFlow {
 public:
  explicit ValueFlow(const Entry& entry) : entry_(entry) {
    for (size_t b = 0; b < entry.buffers.size(); ++b) {
      const Buffer& buffer = entry.buffers[b];
      const bool is_value = buffer.place == Place::kArena && buffer.moves.empty() && !buffer.name.empty();
      if (is_value) wholes_.emplace(buffer.name, b);
    }
    for (const Zeros& zeros : entry.zeros) live_.insert(static_cast<size_t>(zeros.buffer));
  }

  void add(const std::string& step, std::span<const int64_t> args, const KernelUse& use) {
    for (size_t a = 0; a < args.size(); ++a) {
      if (!use.arguments[a].is_written) read(step, static_cast<size_t>(args[a]));
    }
    for (size_t a = 0; a < args.size(); ++a) {
      if (use.arguments[a].is_written) write(static_cast<size_t>(args[a]));
    }
  }

  void finish() const {
    for (size_t o = 0; o < entry_.outputs.size(); ++o) {
      require(written_.contains(static_cast<int64_t>(o)), "entry '", entry_.name, "': no step writes its output '",
              entry_.outputs[o].name, "'");
    }
  }

 private:
  // The value that a buffer is, or that it is rows of.
  size_t value_of(size_t b) const {
    const auto found = entry_.buffers[b].moves.empty() ? wholes_.end() : wholes_.find(entry_.buffers[b].name);
    return found == wholes_.end() ? b : found->second;
  }

  void read(const std::string& step, size_t b) const {
    const Buffer& buffer = entry_.buffers[b];
    if (!buffer.initial.empty())
      return read(step, static_cast<size_t>(buffer.initial.front()));  // later turns wrote it
    require(buffer.place != Place::kArena || buffer.bytes == 0 || live_.contains(value_of(b)), "step '", step,
            "' reads '", buffer.name, "', which no step before it has written");
  }

  void write(size_t b) {
    const Buffer& buffer = entry_.buffers[b];
    if (buffer.place == Place::kOutput) written_.insert(buffer.index);
    if (buffer.place != Place::kArena) return;
    const size_t value = value_of(b);
    std::erase_if(live_, [&](size_t other) { return other != value && overlap(buffer, entry_.buffers[other]); });
    live_.insert(value);
  }

  const Entry& entry_;
  std::map<std::string_view, size_t> wholes_;  // values of the arena, by name
  std::set<size_t> live_;                      // buffers of the arena: nothing else was written there since
  std::set<int64_t> written_;                  // outputs
};

/// What a library reads and writes: the last operand is the result.
KernelUse use_of(const LibraryCall& call) {
  KernelUse use;
  for (const Operand* operand : call.problem.operands())
    use.arguments.push_back({operand->dtype, call.problem.span(*operand) * bytes_of(operand->dtype), false});
  use.arguments.back().is_written = true;
  return use;
}

class UseCheck {
 public:
  UseCheck(const Manifest& manifest, const std::vector<KernelUse>& uses) : manifest_(manifest) {
    for (const KernelUse& use : uses) uses_.emplace(std::pair(use.offset, use.launch), &use);
  }

  void run(const Entry& entry) {
    std::vector<Call> calls;
    for (const CpuStep& step : entry.cpu_steps) calls.push_back(find(entry, step));
    for (const CudaStep& step : entry.cuda_steps) calls.push_back(find(entry, step));
    int64_t scratch = 0;
    const StepOrder order(entry);
    ValueFlow flow(entry);
    for (size_t s = 0; s < calls.size(); ++s) {
      const Call& call = calls[s];
      if (!entry.cpu_steps.empty()) scratch = std::max(scratch, call.use.scratch_bytes);
      for (const StepOrder::Range& beside : order.open(s)) {
        for (size_t other = beside.begin; other < beside.end; ++other) {
          require(!conflict(entry, call, calls[other]), "step '", *call.name, "' does not wait for step '",
                  *calls[other].name, "', which it needs");
        }
      }
      flow.add(*call.name, call.args, call.use);
    }
    flow.finish();
    require(scratch == entry.scratch_bytes_per_thread, "entry '", entry.name, "' has scratch memory of ",
            entry.scratch_bytes_per_thread, " bytes, its kernels use ", scratch);
  }

 private:
  struct Call {
    const std::string* name;
    std::vector<int64_t> args;
    KernelUse use;
  };

  Call find(const Entry& entry, const CpuStep& step) const {
    return {&step.name, step.args, find(entry, step.name, step.kernel, step.args, {.tiles = step.tiles})};
  }

  Call find(const Entry& entry, const CudaStep& step) const {
    const std::vector<int64_t> args = buffers_of(step);
    if (!step.call.empty()) return {&step.name, args, use_of(parse_library_call(step.call))};
    KernelUse wanted;
    for (const Zeros& zeros : entry.zeros) {
      if (std::ranges::find(args, zeros.buffer) != args.end()) wanted.scratch_bytes += zeros.bytes;
    }
    wanted.launch = launch_key(manifest_.kernels[static_cast<size_t>(step.kernel)].name, step);
    return {&step.name, args, find(entry, step.name, step.kernel, args, wanted)};
  }

  /// The use of the table that is the wanted one, of these buffers.
  const KernelUse& find(const Entry& entry, const std::string& step, int64_t row, const std::vector<int64_t>& args,
                        const KernelUse& wanted) const {
    const Kernel& kernel = manifest_.kernels[static_cast<size_t>(row)];
    const bool is_cpu = manifest_.kind() == TargetKind::kCpu;
    const int64_t offset = is_cpu ? kernel.offset : cubin_number(kernel.section);
    const auto [begin, end] = uses_.equal_range({offset, wanted.launch});
    require(begin != end, "step '", step, "': no kernel begins where '", kernel.name, "' should, or not in this way");
    for (auto use = begin; use != end; ++use) {
      const KernelUse& found = *use->second;
      if (kernel.bytes != found.bytes || wanted.tiles != found.tiles) continue;
      if (!is_cpu && wanted.scratch_bytes != found.scratch_bytes) continue;
      if (fits(entry, args, found)) return found;
    }
    fail(ErrorCode::kDamaged, "step '", step, "' calls its kernel with other tiles or buffers than it is made for");
  }

  static bool fits(const Entry& entry, const std::vector<int64_t>& args, const KernelUse& use) {
    if (args.size() != use.arguments.size()) return false;
    for (size_t a = 0; a < args.size(); ++a) {
      const Buffer& buffer = entry.buffers[static_cast<size_t>(args[a])];
      const KernelArgument& argument = use.arguments[a];
      if (argument.bytes > buffer.bytes || buffer.offset % bytes_of(argument.dtype) != 0) return false;
      if (argument.is_written && (!may_be_written(buffer.place) || !buffer.initial.empty())) return false;
      for (const Buffer* place : places_of(entry, buffer)) {
        if (is_tensor(place->place) && !is_seen_as(dtype_of(entry, *place), argument.dtype)) return false;
        if (place->place == Place::kExtent && argument.dtype != DataType::kI64) return false;
      }
    }
    return true;
  }

  /// Instructions that multiply bytes read four of them as a word.
  static bool is_seen_as(DataType tensor, DataType argument) {
    const bool is_byte = tensor == DataType::kI8 || tensor == DataType::kU8;
    return tensor == argument || (is_byte && argument == DataType::kI32);
  }

  static DataType dtype_of(const Entry& entry, const Buffer& buffer) {
    const auto& specs = buffer.place == Place::kInput ? entry.inputs : entry.outputs;
    return specs[static_cast<size_t>(buffer.index)].dtype;
  }

  /// Whether one writes what the other touches.
  static bool conflict(const Entry& entry, const Call& x, const Call& y) {
    for (size_t a = 0; a < x.args.size(); ++a) {
      for (size_t b = 0; b < y.args.size(); ++b) {
        const bool writes = x.use.arguments[a].is_written || y.use.arguments[b].is_written;
        if (writes && may_overlap(entry, x.args[a], y.args[b])) return true;
      }
    }
    return false;
  }

  const Manifest& manifest_;
  std::multimap<std::pair<int64_t, int64_t>, const KernelUse*> uses_;  // by offset and launch
};

}  // namespace

int64_t cubin_number(const std::string& section) {
  return std::strtoll(section.c_str() + section.find('.') + 1, nullptr, 10);
}

int64_t launch_key(const std::string& kernel, const CudaStep& step) {
  CudaStep launch = step;
  launch.kernel = 0;
  launch.name = kernel;
  launch.after.clear();
  int64_t place = 0;
  for (Relocation& relocation : launch.relocations) relocation.buffer = place++;
  for (TensorMap& map : launch.tensor_maps) map.buffer = place++;
  const std::string text = to_json(launch);
  const Hash hash = blake3({Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size())});
  int64_t key = 0;
  std::memcpy(&key, hash.data(), sizeof key);
  return key & INT64_MAX;
}

std::vector<uint8_t> to_bytes(const std::vector<KernelUse>& uses) {
  std::vector<uint8_t> bytes;
  const auto add = [&](int64_t number) {
    const auto* first = reinterpret_cast<const uint8_t*>(&number);
    bytes.insert(bytes.end(), first, first + sizeof number);
  };
  add(static_cast<int64_t>(uses.size()));
  for (const KernelUse& use : uses) {
    for (const int64_t number : {use.offset, use.bytes, use.tiles, use.scratch_bytes, use.launch}) add(number);
    add(static_cast<int64_t>(use.arguments.size()));
    for (const KernelArgument& argument : use.arguments) {
      add(static_cast<int64_t>(argument.dtype));
      add(argument.bytes);
      add(argument.is_written ? 1 : 0);
    }
  }
  return bytes;
}

std::vector<KernelUse> read_kernel_uses(Bytes section, uint32_t version) {
  Reader reader(section);
  std::vector<KernelUse> uses(reader.count(kUseBytes));
  for (KernelUse& use : uses) {
    for (int64_t* number : {&use.offset, &use.bytes, &use.tiles, &use.scratch_bytes}) *number = reader.number(kAny);
    if (version > kFormatOfCpuTables) use.launch = reader.number(kAny);
    use.arguments.resize(reader.count(kArgumentBytes));
    for (KernelArgument& argument : use.arguments) {
      argument.dtype = static_cast<DataType>(reader.number(kMaxDtype));
      argument.bytes = reader.number(kAny);
      argument.is_written = reader.number(1) == 1;
    }
  }
  require(reader.at_end(), "section 'kernels' goes on behind its table");
  return uses;
}

void check_kernel_uses(const Manifest& manifest, const std::vector<KernelUse>& uses) {
  UseCheck check(manifest, uses);
  for (const Entry& entry : manifest.entries) check.run(entry);
}

void check_kernel_table(const Manifest& manifest, Bytes section) {
  const uint32_t version = manifest.format_version;
  if (manifest.kind() == TargetKind::kCpu || version > kFormatOfCpuTables)
    check_kernel_uses(manifest, read_kernel_uses(section, version));
}

}  // namespace tw::format
