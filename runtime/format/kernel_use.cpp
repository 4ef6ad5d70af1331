#include "runtime/format/kernel_use.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "runtime/format/error.h"
#include "runtime/format/turns.h"

namespace tw::format {
namespace {

template <typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(ErrorCode::kDamaged, parts...);
}

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
constexpr size_t kUseBytes = 5 * sizeof(int64_t), kArgumentBytes = 3 * sizeof(int64_t);

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
  }

  void add(const CpuStep& step, const KernelUse& use) {
    for (size_t a = 0; a < step.args.size(); ++a) {
      if (!use.arguments[a].is_written) read(step, static_cast<size_t>(step.args[a]));
    }
    for (size_t a = 0; a < step.args.size(); ++a) {
      if (use.arguments[a].is_written) write(static_cast<size_t>(step.args[a]));
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

  void read(const CpuStep& step, size_t b) const {
    const Buffer& buffer = entry_.buffers[b];
    if (!buffer.initial.empty())
      return read(step, static_cast<size_t>(buffer.initial.front()));  // later turns wrote it
    require(buffer.place != Place::kArena || buffer.bytes == 0 || live_.contains(value_of(b)), "step '", step.name,
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

class UseCheck {
 public:
  UseCheck(const Manifest& manifest, const std::vector<KernelUse>& uses) : manifest_(manifest) {
    for (const KernelUse& use : uses) uses_.emplace(use.offset, &use);
  }

  void run(const Entry& entry) {
    int64_t scratch = 0;
    std::vector<const KernelUse*> called;
    ValueFlow flow(entry);
    for (size_t s = 0; s < entry.cpu_steps.size(); ++s) {
      const CpuStep& step = entry.cpu_steps[s];
      called.push_back(find(entry, step));
      scratch = std::max(scratch, called.back()->scratch_bytes);
      check_wait(entry, s, called);
      flow.add(step, *called.back());
    }
    flow.finish();
    require(scratch == entry.scratch_bytes_per_thread, "entry '", entry.name, "' has scratch memory of ",
            entry.scratch_bytes_per_thread, " bytes, its kernels use ", scratch);
  }

 private:
  const KernelUse* find(const Entry& entry, const CpuStep& step) const {
    const Kernel& kernel = manifest_.kernels[static_cast<size_t>(step.kernel)];
    const auto [begin, end] = uses_.equal_range(kernel.offset);
    require(begin != end, "step '", step.name, "': no kernel begins where '", kernel.name, "' should");
    for (auto use = begin; use != end; ++use) {
      if (fits(entry, step, kernel, *use->second)) return use->second;
    }
    fail(ErrorCode::kDamaged, "step '", step.name,
         "' calls its kernel with other tiles or buffers than it is made for");
  }

  static bool fits(const Entry& entry, const CpuStep& step, const Kernel& kernel, const KernelUse& use) {
    if (kernel.bytes != use.bytes || step.tiles != use.tiles || step.args.size() != use.arguments.size()) return false;
    for (size_t a = 0; a < step.args.size(); ++a) {
      const Buffer& buffer = entry.buffers[static_cast<size_t>(step.args[a])];
      const KernelArgument& argument = use.arguments[a];
      if (argument.bytes > buffer.bytes) return false;
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

  /// A step that waits for nobody touches nothing that one of those beside it writes, and writes nothing they touch.
  static void check_wait(const Entry& entry, size_t s, const std::vector<const KernelUse*>& called) {
    for (size_t other = s; other > 0 && !entry.cpu_steps[other].after; --other) {
      require(!conflict(entry, s, other - 1, called), "step '", entry.cpu_steps[s].name, "' does not wait for step '",
              entry.cpu_steps[other - 1].name, "', which it needs");
    }
  }

  static bool conflict(const Entry& entry, size_t s, size_t t, const std::vector<const KernelUse*>& called) {
    const auto &args = entry.cpu_steps[s].args, &others = entry.cpu_steps[t].args;
    for (size_t a = 0; a < args.size(); ++a) {
      for (size_t b = 0; b < others.size(); ++b) {
        const bool writes = called[s]->arguments[a].is_written || called[t]->arguments[b].is_written;
        if (writes && may_overlap(entry, args[a], others[b])) return true;
      }
    }
    return false;
  }

  const Manifest& manifest_;
  std::multimap<int64_t, const KernelUse*> uses_;  // by the kernel's offset
};

}  // namespace

std::vector<uint8_t> to_bytes(const std::vector<KernelUse>& uses) {
  std::vector<uint8_t> bytes;
  const auto add = [&](int64_t number) {
    const auto* first = reinterpret_cast<const uint8_t*>(&number);
    bytes.insert(bytes.end(), first, first + sizeof number);
  };
  add(static_cast<int64_t>(uses.size()));
  for (const KernelUse& use : uses) {
    for (const int64_t number : {use.offset, use.bytes, use.tiles, use.scratch_bytes}) add(number);
    add(static_cast<int64_t>(use.arguments.size()));
    for (const KernelArgument& argument : use.arguments) {
      add(static_cast<int64_t>(argument.dtype));
      add(argument.bytes);
      add(argument.is_written ? 1 : 0);
    }
  }
  return bytes;
}

std::vector<KernelUse> read_kernel_uses(Bytes section) {
  Reader reader(section);
  std::vector<KernelUse> uses(reader.count(kUseBytes));
  for (KernelUse& use : uses) {
    for (int64_t* number : {&use.offset, &use.bytes, &use.tiles, &use.scratch_bytes}) *number = reader.number(kAny);
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

}  // namespace tw::format
