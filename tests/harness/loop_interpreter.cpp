#include "tests/harness/loop_interpreter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "expr/elementary.h"
#include "loop/text.h"
#include "support/error.h"
#include "tests/harness/loop_interpreter_code.h"

namespace tw::loop {
namespace {

// The lanes of a vector that are wanted (null: all).
struct Mask {
  const uint8_t* active = nullptr;
  bool has(int lane) const { return !active || active[lane]; }
};
constexpr Mask kAllLanes;

class Machine {
 public:
  Machine(const Kernel& kernel, Memory& memory) : kernel_(kernel), code_(resolve(kernel, memory)) {}

  void run() {
    const int64_t blocks = kernel_.blocks();
    for (int64_t block = 0; block < blocks; ++block) {
      for (tile_ = block; tile_ < kernel_.tiles; tile_ += blocks) {
        if (code_->tile_var) assign(*code_->tile_var, int_word(tile_));
        run(code_->steps);
      }
    }
  }

 private:
  // ---- Statements.
  void run(std::vector<Step>& steps) {
    for (Step& step : steps) run(step);
  }

  void run(Step& step) {
    step_ = &step;
    statement_ = ++clock_;
    switch (step.stmt->kind) {
      case StmtKind::kFor:
        for (int64_t i = 0; i < step.stmt->extent; ++i) {
          assign(*step.var, int_word(i));
          run(step.body);
        }
        return;
      case StmtKind::kLet: {
        const Word* value = words(*step.value);
        std::copy_n(value, step.value->lanes, step.var->lanes.data());
        step.var->changed = ++clock_;
        return run(step.body);
      }
      case StmtKind::kIf:
        return run(scalar(*step.predicate).i ? step.body : step.otherwise);
      case StmtKind::kAllocate:
        std::ranges::fill(step.allocated->defined, 0);
        return run(step.body);
      default:
        return store(step);
    }
  }

  void assign(Var& var, Word value) {
    var.lanes[0] = value;
    var.changed = ++clock_;
  }

  // The value and the indices are evaluated for all lanes: only the write is predicated.
  void store(Step& step) {
    const int lanes = step.value->lanes;
    const Word* value = words(*step.value);
    evaluate_indices(step.access, kAllLanes);
    if (!narrow(step.predicate, kAllLanes, step.active)) return;
    fill_offsets(step.access, step.active);
    for (int lane = 0; lane < lanes; ++lane) {
      if (step.active[lane]) write(*step.access.slot, step.access.offsets[lane], value[lane]);
    }
  }

  // ---- Memory.
  Word read(BufferSlot& slot, int64_t offset) {
    if (slot.is_tracked) track_read(slot, offset);
    return slot.floats ? float_word(slot.floats[offset]) : int_word(slot.ints[offset]);
  }

  void write(BufferSlot& slot, int64_t offset, Word value) {
    if (slot.is_tracked) track_write(slot, offset);
    if (slot.floats) {
      slot.floats[offset] = value.f;
    } else {
      slot.ints[offset] = value.i;
    }
  }

  void track_read(BufferSlot& slot, int64_t offset) {
    if (!slot.defined.empty()) {
      if (!slot.defined[offset]) fail("{} is read before it is written", element(slot, offset));
      return;
    }
    const int64_t writer = slot.writer[offset];
    if (writer != kNoTile && writer != tile_) fail("{} is read, tile {} writes it", element(slot, offset), writer);
    int64_t& reader = slot.reader[offset];
    reader = reader == kNoTile || reader == tile_ ? tile_ : kSeveralTiles;
  }

  void track_write(BufferSlot& slot, int64_t offset) {
    if (!slot.defined.empty()) {
      slot.defined[offset] = 1;
      return;
    }
    int64_t& writer = slot.writer[offset];
    if (writer != kNoTile && writer != tile_)
      fail("{} is written, tile {} writes it too", element(slot, offset), writer);
    const int64_t reader = slot.reader[offset];
    if (reader != kNoTile && reader != tile_) fail("{} is written, another tile reads it", element(slot, offset));
    writer = tile_;
  }

  // "X[3, 17]"
  static std::string element(const BufferSlot& slot, int64_t offset) {
    Shape index;
    for (size_t d = 0; d < slot.strides.size(); ++d) {
      index.push_back(offset / slot.strides[d]);
      offset %= slot.strides[d];
    }
    return slot.declared->name + tw::to_string(index);
  }

  void evaluate_indices(Access& access, const Mask& mask) {
    for (size_t d : access.scalar_dims) access.scalars[d] = scalar(*access.indices[d]);
    for (size_t d : access.vector_dims) access.vectors[d] = vector(*access.indices[d], mask);
  }

  // Offsets of the active lanes (there are some) from evaluated indices; fails where one is outside the buffer.
  void fill_offsets(Access& access, const std::vector<uint8_t>& active) {
    const size_t first = std::ranges::find(active, 1) - active.begin();
    const Shape& shape = access.slot->declared->shape;
    int64_t base = 0;
    for (size_t d : access.scalar_dims) {
      const int64_t index = access.scalars[d].i;
      if (index < 0 || index >= shape[d]) fail_outside(access, first);
      base += index * access.slot->strides[d];
    }
    for (size_t lane = first; lane < active.size(); ++lane) {
      if (!active[lane]) continue;
      int64_t offset = base;
      for (size_t d : access.vector_dims) {
        const int64_t index = access.vectors[d][lane].i;
        if (index < 0 || index >= shape[d]) fail_outside(access, lane);
        offset += index * access.slot->strides[d];
      }
      access.offsets[lane] = offset;
    }
  }

  [[noreturn]] void fail_outside(const Access& access, size_t lane) {
    Shape index;
    for (size_t d = 0; d < access.indices.size(); ++d) {
      index.push_back(access.vectors[d] ? access.vectors[d][lane].i : access.scalars[d].i);
    }
    const Buffer& buffer = *access.slot->declared;
    fail("index {} is outside {}{}", tw::to_string(index), buffer.name, tw::to_string(buffer.shape));
  }

  // Lanes of `mask` where the predicate holds as well (null: all of them); whether there are any.
  bool narrow(Node* predicate, const Mask& mask, std::vector<uint8_t>& active) {
    const Word* holds = predicate ? words(*predicate, mask) : nullptr;
    const bool each = predicate && predicate->lanes > 1;
    bool any = false;
    for (size_t lane = 0; lane < active.size(); ++lane) {
      active[lane] = mask.has(static_cast<int>(lane)) && (!holds || holds[each ? lane : 0].i);
      any = any || active[lane];
    }
    return any;
  }

  // ---- Expressions.
  const Word* words(Node& node) { return words(node, kAllLanes); }
  const Word* words(Node& node, const Mask& mask) {
    if (node.lanes > 1) return vector(node, mask);
    node.value = scalar(node);
    return &node.value;
  }

  // Before that it had another value; never 0, which is the stamp of what was not evaluated yet.
  uint64_t holds_since(const Node& node) const {
    return node.innermost == nullptr ? statement_ : std::max<uint64_t>(1, node.innermost->changed);
  }

  Word scalar(Node& node) {
    if (node.op <= Op::kFloatImm) return node.value;
    if (node.op == Op::kVar) return *node.var;
    if (!node.shared) return compute(node);
    const uint64_t since = holds_since(node);
    if (node.stamp != since) {
      node.value = compute(node);
      node.stamp = since;
    }
    return node.value;
  }

  Word compute(Node& node) {
    switch (node.op) {
      case Op::kNeg:
      case Op::kAbs:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kRound:
      case Op::kTrunc:
      case Op::kNot:
        return apply_unary(node.op, node.type, scalar(*node.args[0]));
      case Op::kFma:
        return apply_fma(node.type, scalar(*node.args[0]), scalar(*node.args[1]), scalar(*node.args[2]));
      case Op::kSelect:
        return scalar(*node.args[scalar(*node.args[0]).i ? 1 : 2]);
      case Op::kCast:
        return apply_cast(node.type, node.from, scalar(*node.args[0]));
      case Op::kBitcast:
        return apply_bitcast(node.type, node.from, scalar(*node.args[0]));
      case Op::kCall: {
        Word args[kMostOperands];
        for (size_t k = 0; k < node.args.size(); ++k) args[k] = scalar(*node.args[k]);
        return apply_call(node.type, node.function, args, node.args.size());
      }
      case Op::kLoad:
        evaluate_indices(node.access, kAllLanes);
        if (!narrow(node.predicate, kAllLanes, node.active)) return zero(node.type);
        fill_offsets(node.access, node.active);
        return read(*node.access.slot, node.access.offsets[0]);
      case Op::kReduceAdd:
      case Op::kReduceMin:
      case Op::kReduceMax:
      case Op::kReduceMul:
      case Op::kReduceAnd:
      case Op::kReduceOr: {
        const Word* lanes = vector(*node.args[0], kAllLanes);
        scratch_.assign(lanes, lanes + node.args[0]->lanes);
        return apply_reduce(node.op, node.from, scratch_.data(), node.args[0]->lanes);
      }
      case Op::kExtract:
        return vector(*node.args[0], kAllLanes)[node.lane];
      default:
        return binary(node, scalar(*node.args[0]), scalar(*node.args[1]));
    }
  }

  Word binary(const Node& node, Word a, Word b) {
    if (node.from == ScalarType::kI64) {  // most of it is index arithmetic
      if (node.op == Op::kAdd) return int_word(wrapping_add(a.i, b.i));
      if (node.op == Op::kMul) return int_word(wrapping_mul(a.i, b.i));
    }
    if (const char* reason = undefined_reason(node.op, node.from, b)) fail("{}", reason);
    return apply_binary(node.op, node.from, a, b);
  }

  const Word* vector(Node& node, const Mask& mask) {
    if (node.op == Op::kVar) return node.var;
    if (!node.shared) {
      compute(node, mask);
    } else if (miss(node, mask)) {
      compute(node, Mask{node.missing.data()});
    }
    return node.out.data();
  }

  // Of the wanted lanes of a shared node, those not yet evaluated; whether there are any. They count as evaluated from
  // now on.
  bool miss(Node& node, const Mask& mask) {
    const uint64_t since = holds_since(node);
    if (node.stamp != since) std::ranges::fill(node.done, 0);
    node.stamp = since;
    bool any = false;
    for (int lane = 0; lane < node.lanes; ++lane) {
      node.missing[lane] = mask.has(lane) && !node.done[lane];
      node.done[lane] |= node.missing[lane];
      any = any || node.missing[lane];
    }
    return any;
  }

  // Lanes that the mask leaves out keep their values.
  void compute(Node& node, const Mask& mask) {
    switch (node.op) {
      case Op::kLoad:
        return vector_load(node, mask);
      case Op::kSelect:
        return vector_select(node, mask);
      case Op::kBroadcast:
        std::ranges::fill(node.out, scalar(*node.args[0]));
        return;
      case Op::kRamp:
        return ramp(node);
      default:
        return lanewise(node, mask);
    }
  }

  void lanewise(Node& node, const Mask& mask) {
    const Word* args[kMostOperands] = {};
    for (size_t i = 0; i < node.args.size(); ++i) args[i] = vector(*node.args[i], mask);
    for (int lane = 0; lane < node.lanes; ++lane) {
      if (mask.has(lane)) node.out[lane] = one_lane(node, args, lane);
    }
  }

  Word one_lane(const Node& node, const Word* const* args, int lane) {
    switch (node.op) {
      case Op::kNeg:
      case Op::kAbs:
      case Op::kFloor:
      case Op::kCeil:
      case Op::kRound:
      case Op::kTrunc:
      case Op::kNot:
        return apply_unary(node.op, node.type, args[0][lane]);
      case Op::kFma:
        return apply_fma(node.type, args[0][lane], args[1][lane], args[2][lane]);
      case Op::kCast:
        return apply_cast(node.type, node.from, args[0][lane]);
      case Op::kBitcast:
        return apply_bitcast(node.type, node.from, args[0][lane]);
      case Op::kCall: {
        Word values[kMostOperands];
        for (size_t k = 0; k < node.args.size(); ++k) values[k] = args[k][lane];
        return apply_call(node.type, node.function, values, node.args.size());
      }
      default:
        return binary(node, args[0][lane], args[1][lane]);
    }
  }

  void ramp(Node& node) {
    const int64_t base = scalar(*node.args[0]).i;
    const int64_t stride = scalar(*node.args[1]).i;
    for (int lane = 0; lane < node.lanes; ++lane) {
      node.out[lane] = int_word(wrap_to(node.type, wrapping_add(base, wrapping_mul(stride, lane))));
    }
  }

  void vector_load(Node& node, const Mask& mask) {
    evaluate_indices(node.access, mask);
    if (narrow(node.predicate, mask, node.active)) fill_offsets(node.access, node.active);
    for (int lane = 0; lane < node.lanes; ++lane) {
      if (!mask.has(lane)) continue;
      node.out[lane] = node.active[lane] ? read(*node.access.slot, node.access.offsets[lane]) : zero(node.type);
    }
  }

  // Each operand is evaluated under the mask of the lanes that pick it, and not at all when there are none.
  void vector_select(Node& node, const Mask& mask) {
    const Word* condition = words(*node.args[0], mask);
    const bool each = node.args[0]->lanes > 1;
    for (int lane = 0; lane < node.lanes; ++lane) {
      const bool wanted = mask.has(lane);
      const bool first = condition[each ? lane : 0].i;
      node.active[lane] = wanted && first;
      node.others[lane] = wanted && !first;
    }
    pick(node, *node.args[1], node.active);
    pick(node, *node.args[2], node.others);
  }

  void pick(Node& node, Node& operand, const std::vector<uint8_t>& active) {
    if (std::ranges::find(active, 1) == active.end()) return;
    const Word* value = vector(operand, Mask{active.data()});
    for (int lane = 0; lane < node.lanes; ++lane) {
      if (active[lane]) node.out[lane] = value[lane];
    }
  }

  static Word zero(ScalarType type) { return is_float(type) ? float_word(0) : int_word(0); }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    throw InternalError(fmt::format("kernel {}, tile {}: in '{}': {}", kernel_.name, tile_, short_text(*step_->stmt),
                                    fmt::format(format, std::forward<Args>(args)...)));
  }

  const Kernel& kernel_;
  std::unique_ptr<Code> code_;
  int64_t tile_ = 0;
  const Step* step_ = nullptr;
  uint64_t clock_ = 1;      // counts statements and values of variables
  uint64_t statement_ = 0;  // when the statement that runs began
  std::vector<Word> scratch_;
};

}  // namespace

void interpret(const Program& program, Memory& memory) {
  verify(program);
  for (const Kernel& kernel : program.kernels) Machine(kernel, memory).run();
}

}  // namespace tw::loop
