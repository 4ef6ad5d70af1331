// Repeats and the buffers that move with them.
#include "runtime/format/error.h"
#include "runtime/format/turns.h"
#include "runtime/format/validate_parts.h"

namespace tw::format {
namespace {

template <typename... Parts>
void require(bool condition, const Entry& entry, const Parts&... parts) {
  if (!condition) fail(ErrorCode::kDamaged, "manifest: entry '", entry.name, "' ", parts...);
}

int64_t end_of(const Repeat& repeat) { return repeat.first + repeat.count; }
bool holds(const Repeat& outer, const Repeat& inner) {
  return inner.first >= outer.first && end_of(inner) <= end_of(outer);
}

const Repeat& repeat_of(const Entry& entry, const Move& move) {
  return entry.repeats[static_cast<size_t>(move.repeat)];
}

void check_nesting(const Entry& entry, int64_t steps) {
  std::vector<const Repeat*> around;  // the last one, the outermost first
  for (const Repeat& repeat : entry.repeats) {
    require(repeat.first >= 0 && repeat.count >= 1 && repeat.first <= steps && repeat.count <= steps - repeat.first,
            entry, "repeats steps that it does not have");
    require(repeat.turns >= 1, entry, "has a repeat without a turn");
    while (!around.empty() && end_of(*around.back()) <= repeat.first) around.pop_back();
    require(around.empty() || holds(*around.back(), repeat), entry, "has repeats that cross or are out of order");
    around.push_back(&repeat);
    require(around.size() <= kMaxNested, entry, "has a step in more than ", kMaxNested, " repeats");
  }
}

/// In its first turn the last repeat with which the buffer moves finds it elsewhere.
void check_initial(const Entry& entry, const Buffer& buffer) {
  if (buffer.initial.empty()) return;
  require(buffer.initial.size() == 1 && is_index(buffer.initial.front(), entry.buffers.size()), entry,
          "has a buffer that begins in no other one");
  require(!buffer.moves.empty(), entry, "has a buffer that begins elsewhere and does not move");
  const Buffer& begin = entry.buffers[static_cast<size_t>(buffer.initial.front())];
  require(begin.bytes == buffer.bytes && begin.initial.empty() && begin.place != Place::kError, entry,
          "has a buffer that begins where it cannot");
  const Move& last = buffer.moves.back();
  for (const Move& move : begin.moves) {
    require(move.repeat < last.repeat && holds(repeat_of(entry, move), repeat_of(entry, last)), entry,
            "has a buffer that begins in one that moves with it");
  }
}

template <typename Step>
void check_uses(const Entry& entry, const std::vector<Step>& steps) {
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const int64_t buffer : buffers_of(steps[s])) {
      for (const Move& move : entry.buffers[static_cast<size_t>(buffer)].moves) {
        require(format::holds(repeat_of(entry, move), static_cast<int64_t>(s)), entry, "has step '", steps[s].name,
                "' outside of a repeat with which a buffer of it moves");
      }
    }
  }
}

void check_chain(const Entry& entry) {
  for (size_t s = 0; s < entry.cuda_steps.size(); ++s) {
    const std::vector<int64_t>& after = entry.cuda_steps[s].after;
    const bool in_order = s == 0 ? after.empty() : after == std::vector{static_cast<int64_t>(s) - 1};
    require(in_order, entry, "has repeats and step '", entry.cuda_steps[s].name, "', which does not wait for the one ",
            "before it");
  }
}

void check_zeros(const Entry& entry) {
  for (const Zeros& zeros : entry.zeros) {
    for (const Buffer& buffer : entry.buffers) {
      require(buffer.initial.empty() || buffer.initial.front() != zeros.buffer, entry,
              "has a buffer that begins in one of zeros");
    }
    require(entry.buffers[static_cast<size_t>(zeros.buffer)].moves.empty(), entry, "has zeros of a buffer that moves");
  }
}

}  // namespace

void check_moves(const Entry& entry, const Buffer& buffer, int64_t room) {
  int64_t last = -1;
  require(buffer.moves.empty() || buffer.place != Place::kError, entry, "has an error word that moves");
  for (const Move& move : buffer.moves) {
    require(is_index(move.repeat, entry.repeats.size()), entry, "has a buffer that moves with no repeat");
    require(move.repeat > last, entry, "has a buffer that moves with an inner repeat before an outer one");
    require(move.period >= 1 && move.period <= kMaxStepsRun && move.start >= 0 && move.start < move.period &&
                move.step >= 0 && move.step <= move.period,
            entry, "has a buffer that moves beyond its period");
    const bool stays = move.bytes >= 0 && (move.period == 1 || move.bytes <= room / (move.period - 1));
    require(stays, entry, "has a buffer that moves out of its place");
    room -= move.bytes * (move.period - 1);
    last = move.repeat;
  }
}

void check_repeats(const Entry& entry) {
  const size_t steps = entry.cpu_steps.size() + entry.cuda_steps.size();
  check_nesting(entry, static_cast<int64_t>(steps));
  require(steps_run(entry, steps) <= static_cast<size_t>(kMaxStepsRun), entry, "runs too many steps");
  for (const Buffer& buffer : entry.buffers) check_initial(entry, buffer);
  check_uses(entry, entry.cpu_steps);
  check_uses(entry, entry.cuda_steps);
  check_zeros(entry);
  if (!entry.repeats.empty()) check_chain(entry);
}

}  // namespace tw::format
