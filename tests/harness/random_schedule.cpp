#include "tests/harness/random_schedule.h"

#include <algorithm>
#include <random>

#include "schedule/stage.h"
#include "support/error.h"

namespace tw::testing {
namespace {

using schedule::Loop;
using schedule::Primitive;
using schedule::PrimitiveKind;
using schedule::Stage;
using schedule::State;

constexpr int64_t kMaxCopies = 256;  // of a statement, by unrolling and vectors together

class Proposer {
 public:
  Proposer(const State& state, std::mt19937_64& random) : state_(state), random_(random) {}

  Primitive propose() {
    const Stage& stage = state_.stages[pick(0, static_cast<int64_t>(state_.stages.size()) - 1)];
    switch (pick(0, 13)) {
      case 0:
      case 1:
      case 2:
        return {PrimitiveKind::kSplit, stage.name(), {any_loop(stage)}, split_factors(), ""};
      case 3:
      case 4:
        return {PrimitiveKind::kReorder, stage.name(), some_loops(stage), {}, ""};
      case 5:
        return {PrimitiveKind::kFuse, stage.name(), adjacent_loops(stage), {}, ""};
      case 6:
        return {PrimitiveKind::kVectorize, stage.name(), {any_loop(stage)}, {}, ""};
      case 7:
        return {PrimitiveKind::kUnroll, stage.name(), {any_loop(stage)}, {}, ""};
      case 8:
        return {PrimitiveKind::kParallel, stage.name(), leading_loops(stage), {}, ""};
      case 9:
        return {PrimitiveKind::kInline, stage.name(), {}, {}, ""};
      case 10:
        return compute_at(stage);
      case 11:
        return cache_read();
      case 12:
        return layout_of(stage);
      case 13:
        return {PrimitiveKind::kCacheWrite, stage.name(), {}, {}, ""};
      default:
        return {PrimitiveKind::kRfactor, stage.name(), {any_loop(stage)}, {pick(1, 6)}, ""};
    }
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }

  std::string any_loop(const Stage& stage) {
    if (stage.loops.empty()) return "none";
    return stage.loops[pick(0, static_cast<int64_t>(stage.loops.size()) - 1)].name;
  }

  std::vector<int64_t> split_factors() {
    std::vector<int64_t> factors{pick(1, 8)};
    if (pick(0, 3) == 0) factors.push_back(pick(1, 4));
    return factors;
  }

  std::vector<std::string> some_loops(const Stage& stage) {
    std::vector<std::string> names;
    for (const Loop& l : stage.loops) {
      if (pick(0, 2) != 0) names.push_back(l.name);
    }
    std::shuffle(names.begin(), names.end(), random_);
    return names;
  }

  std::vector<std::string> adjacent_loops(const Stage& stage) {
    if (stage.loops.size() < 2) return {any_loop(stage)};
    const auto first = pick(0, static_cast<int64_t>(stage.loops.size()) - 2);
    return {stage.loops[first].name, stage.loops[first + 1].name};
  }

  std::vector<std::string> leading_loops(const Stage& stage) {
    std::vector<std::string> names;
    const auto count = std::min<int64_t>(pick(1, 3), static_cast<int64_t>(stage.loops.size()));
    for (int64_t i = 0; i < count; ++i) names.push_back(stage.loops[i].name);
    return names;
  }

  Primitive compute_at(const Stage& stage) {
    const std::vector<const Stage*> readers = state_.readers(stage);
    const Stage& consumer = readers.empty() ? stage : *readers[pick(0, static_cast<int64_t>(readers.size()) - 1)];
    const loop::Scope scope = pick(0, 1) == 0 ? loop::Scope::kStack : loop::Scope::kScratch;
    return {PrimitiveKind::kComputeAt,
            stage.name(),
            {consumer.name(), any_loop(consumer)},
            {},
            std::string(loop::scope_name(scope))};
  }

  Primitive cache_read() {
    std::vector<std::string> tensors;
    for (const te::Tensor& t : state_.program.inputs) tensors.push_back(t.name);
    for (const Stage& s : state_.stages) tensors.push_back(s.name());
    const std::string& name = tensors[pick(0, static_cast<int64_t>(tensors.size()) - 1)];
    if (pick(0, 2) > 0) return {PrimitiveKind::kCacheRead, name, {}, {}, ""};
    const Stage& reader = state_.stages[pick(0, static_cast<int64_t>(state_.stages.size()) - 1)];
    return {PrimitiveKind::kCacheRead, name, {reader.name()}, {pick(1, 2)}, ""};
  }

  // Some dimensions exchanged, one padded.
  Primitive layout_of(const Stage& stage) {
    const size_t rank = stage.compute.axes.size();
    std::vector<int64_t> order(rank);
    for (size_t d = 0; d < rank; ++d) order[d] = static_cast<int64_t>(d);
    std::shuffle(order.begin(), order.end(), random_);
    Layout layout = Layout().reorder(order);
    if (pick(0, 1) == 0) layout = layout.pad(static_cast<int>(pick(0, static_cast<int64_t>(rank) - 1)), 0, pick(1, 3));
    return {PrimitiveKind::kLayout, stage.name(), {}, {}, to_string(layout)};
  }

  const State& state_;
  std::mt19937_64& random_;
};

int64_t copies(const State& state) {
  int64_t count = 1;
  for (const Stage& stage : state.stages) {
    for (const Loop& l : stage.loops) {
      if (l.kind != loop::ForKind::kSerial) count *= l.extent;
    }
  }
  return count;
}

State replay(const te::Program& program, const schedule::Schedule& schedule) {
  State state = schedule::make_state(program);
  schedule::apply_primitives(state, schedule.primitives());
  return state;
}

// Register buffers are indexed by constants: the schedule with the buffer of attachment `at` in registers, all loops
// that index it unrolled; the schedule itself when that makes too many copies or other stages read the buffer too.
schedule::Schedule with_registers(const te::Program& program, const schedule::Schedule& schedule, size_t at) {
  const Primitive& attachment = schedule.primitives()[at];
  const State state = replay(program, schedule);
  const Stage* found = state.producer(attachment.stage);
  if (found == nullptr || state.readers(*found).size() != 1) return schedule;  // inlined later, or read by several
  const Stage& producer = *found;
  const Stage& consumer = *state.producer(producer.consumer);
  schedule::Schedule out;
  for (size_t i = 0; i < schedule.primitives().size(); ++i) {
    Primitive p = schedule.primitives()[i];
    if (i == at) p.option = "register";
    out.add(p);
  }
  const auto unroll = [&](const Stage& stage, size_t first) {
    for (size_t i = first; i < stage.loops.size(); ++i) {
      if (stage.loops[i].kind == loop::ForKind::kSerial) out.unroll(stage.name(), stage.loops[i].name);
    }
  };
  unroll(producer, 0);
  unroll(consumer, consumer.loop_index(producer.at_loop) + 1);
  return copies(replay(program, out)) > kMaxCopies ? schedule : out;
}

}  // namespace

schedule::Schedule random_schedule(const te::Program& program, uint64_t seed, int length) {
  std::mt19937_64 random(seed);
  schedule::Schedule accepted;
  State state = schedule::make_state(program);
  for (int i = 0; i < length; ++i) {
    const Primitive proposal = Proposer(state, random).propose();
    State next = state;
    try {
      schedule::apply_primitives(next, {&proposal, 1});
    } catch (const UserError&) {
      continue;
    }
    if (copies(next) > kMaxCopies) continue;
    accepted.add(proposal);
    state = std::move(next);
  }
  for (size_t i = 0; i < accepted.primitives().size(); ++i) {
    const bool attaches = accepted.primitives()[i].kind == PrimitiveKind::kComputeAt;
    if (attaches && seed % 2 == 0) accepted = with_registers(program, accepted, i);
  }
  return accepted;
}

}  // namespace tw::testing
