// What a manifest says of memory: that its buffers are whole tensors, and that no two values that live at the same time
// lie in the same bytes of the arena.
#include <algorithm>
#include <map>

#include "runtime/format/error.h"
#include "runtime/format/turns.h"
#include "runtime/format/validate_parts.h"

namespace tw::format {
namespace {

constexpr int64_t kArenaSlack = 4096;  // bytes that an arena may have behind its last buffer: up to a page

constexpr Require require{"manifest: "};

void check_tensors(const Entry& entry) {
  for (const Buffer& buffer : entry.buffers) {
    const bool is_input = buffer.place == Place::kInput;
    if ((!is_input && buffer.place != Place::kOutput) || !buffer.moves.empty()) continue;
    const TensorSpec& spec = (is_input ? entry.inputs : entry.outputs)[static_cast<size_t>(buffer.index)];
    require(buffer.offset == 0 && buffer.bytes == tensor_bytes(spec), "entry '", entry.name,
            "' has a buffer that is a part of tensor '", spec.name, "'");
  }
}

void check_arena_size(const Entry& entry) {
  int64_t end = 0;
  for (const Buffer& buffer : entry.buffers) {
    if (buffer.place == Place::kArena) end = std::max(end, buffer.offset + extent(buffer));
  }
  require(entry.arena_bytes - end < kArenaSlack, "entry '", entry.name, "' has an arena of ", entry.arena_bytes,
          " bytes, its buffers need ", end);
}

/// From the first step that takes a buffer to the last one: all of a repeat where it outlives a turn.
struct Lifetime {
  int64_t buffer = 0, first = 0, last = 0;
};

/// Steps that take the buffer itself, or another one that begins there.
std::vector<Lifetime> uses_of(const Entry& entry) {
  std::map<int64_t, Lifetime> found;
  const auto use = [&](int64_t buffer, int64_t step) {
    const auto [place, fresh] = found.try_emplace(buffer, Lifetime{buffer, step, step});
    place->second.first = std::min(place->second.first, step);
    place->second.last = std::max(place->second.last, step);
  };
  int64_t number = 0;
  const auto add = [&](const auto& step) {
    for (const int64_t arg : buffers_of(step)) {
      use(arg, number);
      for (const int64_t begin : entry.buffers[static_cast<size_t>(arg)].initial) use(begin, number);
    }
    ++number;
  };
  std::ranges::for_each(entry.cpu_steps, add);
  std::ranges::for_each(entry.cuda_steps, add);
  std::vector<Lifetime> all;
  for (const auto& [buffer, lifetime] : found) all.push_back(lifetime);
  return all;
}

/// A value of a turn alone is written anew in each; one that moves or that comes from outside stays to the end of the
/// repeat.
void stay_in_repeats(const Entry& entry, Lifetime& lifetime) {
  const Buffer& buffer = entry.buffers[static_cast<size_t>(lifetime.buffer)];
  for (size_t r = 0; r < entry.repeats.size(); ++r) {
    const Repeat& repeat = entry.repeats[r];
    const int64_t end = repeat.first + repeat.count - 1;
    if (lifetime.last < repeat.first || lifetime.first > end) continue;
    const bool is_inside = lifetime.first >= repeat.first && lifetime.last <= end;
    const bool moves = std::ranges::find(buffer.moves, static_cast<int64_t>(r), &Move::repeat) != buffer.moves.end();
    if (is_inside && !moves) continue;
    lifetime.first = std::min(lifetime.first, repeat.first);
    lifetime.last = std::max(lifetime.last, end);
  }
}

std::vector<Lifetime> lifetimes(const Entry& entry) {
  std::vector<Lifetime> all;
  for (Lifetime lifetime : uses_of(entry)) {
    const Buffer& buffer = entry.buffers[static_cast<size_t>(lifetime.buffer)];
    if (buffer.place != Place::kArena || buffer.bytes == 0) continue;
    stay_in_repeats(entry, lifetime);
    all.push_back(lifetime);
  }
  std::ranges::sort(all, {}, &Lifetime::first);
  return all;
}

/// Buffers in use, by where they begin: apart from each other, but for rows of one value.
class InUse {
 public:
  explicit InUse(const Entry& entry) : entry_(entry) {}

  void add(const Lifetime& added) {
    std::erase_if(now_, [&](const Lifetime& l) { return l.last < added.first; });
    for (const Lifetime& other : now_) {
      const Buffer &a = of(added), &b = of(other);
      const bool is_apart = a.offset + extent(a) <= b.offset || b.offset + extent(b) <= a.offset;
      const bool is_same = (!a.moves.empty() || !b.moves.empty()) && !a.name.empty() && a.name == b.name;
      require(is_apart || is_same, "entry '", entry_.name, "' has two values in the same bytes at the same time: '",
              a.name, "' and '", b.name, "'");
    }
    now_.push_back(added);
  }

 private:
  const Buffer& of(const Lifetime& l) const { return entry_.buffers[static_cast<size_t>(l.buffer)]; }

  const Entry& entry_;
  std::vector<Lifetime> now_;
};

}  // namespace

void check_memory(const Entry& entry) {
  if (entry.cuda_steps.empty()) check_tensors(entry);
  check_arena_size(entry);
  InUse in_use(entry);
  for (const Lifetime& lifetime : lifetimes(entry)) in_use.add(lifetime);
}

}  // namespace tw::format
