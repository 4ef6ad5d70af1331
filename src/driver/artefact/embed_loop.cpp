#include "driver/artefact/embed_loop.h"

#include "support/error.h"
#include "support/join.h"

namespace tw::driver {
namespace {

using format::Buffer;
using format::Move;
using format::Place;

class Embedder {
 public:
  Embedder(const format::Entry& body, const LoopPorts& ports, format::Entry& entry)
      : body_(body), ports_(ports), entry_(entry), repeat_(std::ssize(entry.repeats)) {}

  EmbeddedLoop run() {
    first_step_ = std::ssize(entry_.cpu_steps) + std::ssize(entry_.cuda_steps);
    const int64_t steps = std::ssize(body_.cpu_steps) + std::ssize(body_.cuda_steps);
    entry_.repeats.push_back({first_step_, steps, ports_.repeat.turns});
    for (format::Repeat inner : body_.repeats) {
      inner.first += first_step_;
      entry_.repeats.push_back(inner);
    }
    if (body_.arena_bytes > 0) out_.arena = add({Place::kArena, 0, 0, body_.arena_bytes, ""});
    for (const Buffer& buffer : body_.buffers) buffers_.push_back(add_buffer(buffer));
    for (size_t b = 0; b < buffers_.size(); ++b) {
      for (const int64_t first : body_.buffers[b].initial) at(buffers_[b]).initial = {of(first)};
    }
    for (format::Zeros zeros : body_.zeros) {
      zeros.buffer = of(zeros.buffer);
      entry_.zeros.push_back(zeros);
    }
    for (const format::CpuStep& step : body_.cpu_steps) add_step(step);
    for (const format::CudaStep& step : body_.cuda_steps) add_step(step);
    return std::move(out_);
  }

 private:
  Buffer& at(int64_t buffer) { return entry_.buffers[static_cast<size_t>(buffer)]; }
  int64_t of(int64_t buffer_of_body) const { return buffers_.at(static_cast<size_t>(buffer_of_body)); }

  int64_t add(Buffer buffer) {
    entry_.buffers.push_back(std::move(buffer));
    return std::ssize(entry_.buffers) - 1;
  }

  int64_t add_buffer(const Buffer& inside) {
    const auto index = static_cast<size_t>(inside.index);
    if (inside.place == Place::kInput) return add_input(index, inside);
    if (inside.place == Place::kOutput) return add_part(ports_.outputs[index], inside, output_move(index));
    Buffer own = inside;
    own.moves = moves_of(inside);
    own.initial.clear();
    const int64_t added = add(std::move(own));
    if (inside.place == Place::kArena && body_.arena_bytes > 0) out_.within[added] = {out_.arena, inside.offset};
    return added;
  }

  int64_t add_input(size_t index, const Buffer& inside) {
    const graph::Repeat& repeat = ports_.repeat;
    const bool is_same = index >= repeat.carried + repeat.scanned;  // in every turn
    if (is_same && inside.moves.empty()) return ports_.inputs[index];
    if (is_same) return add_part(ports_.inputs[index], inside, std::nullopt);
    if (index >= repeat.carried) return add_part(ports_.inputs[index], inside, input_move(index));
    TW_CHECK(inside.moves.empty(), "a loop reads '{}', which the loop around it carries", inside.name);
    const int64_t added = add_part(ports_.outputs[index], inside, carried_move(index));
    at(added).initial = {ports_.inputs[index]};
    return added;
  }

  // `inside` as a part of `whole`, whose name it has: a buffer that moves does so in the storage of that value.
  int64_t add_part(int64_t whole, const Buffer& inside, const std::optional<Move>& move) {
    Buffer own = at(whole);
    own.bytes = inside.bytes;
    own.offset += inside.offset;
    if (move) own.moves.push_back(*move);
    append(own.moves, moves_of(inside));
    const bool in_arena = own.place == Place::kArena;
    const int64_t added = add(std::move(own));
    if (in_arena) out_.within[added] = {whole, inside.offset};
    return added;
  }

  // With loops inside of the body.
  std::vector<Move> moves_of(const Buffer& inside) const {
    std::vector<Move> moves = inside.moves;
    for (Move& move : moves) move.repeat += repeat_ + 1;
    return moves;
  }

  // Around buffer `stack`, which holds so many rows, from row `start` of the first turn on.
  Move row_move(int64_t stack, int64_t start, int64_t backwards, int64_t rows) {
    return {repeat_, at(stack).bytes / rows, start, backwards != 0 ? rows - 1 : 1, rows};
  }
  Move input_move(size_t index) {
    const graph::Repeat& repeat = ports_.repeat;
    const size_t scanned = index - repeat.carried;
    return row_move(ports_.inputs[index], repeat.input_row(scanned, 0), repeat.inputs_backwards[scanned], repeat.turns);
  }
  Move output_move(size_t index) {
    const graph::Repeat& repeat = ports_.repeat;
    return row_move(ports_.outputs[index], repeat.output_row(index, 0), repeat.outputs_backwards[index],
                    repeat.rows[index]);
  }
  // Where the turn before wrote.
  Move carried_move(size_t index) {
    Move move = output_move(index);
    move.start = (move.start + move.period - move.step % move.period) % move.period;
    return move;
  }

  void add_step(format::CpuStep step) {
    step.args = mapped(step.args, [&](int64_t b) { return of(b); });
    step.after = !entry_.cpu_steps.empty();
    out_.step_args.push_back(step.args);
    entry_.cpu_steps.push_back(std::move(step));
  }

  void add_step(format::CudaStep step) {
    std::vector<int64_t> args;
    const auto take = [&](int64_t& buffer) { args.push_back(buffer = of(buffer)); };
    for (format::Relocation& relocation : step.relocations) take(relocation.buffer);
    for (format::TensorMap& map : step.tensor_maps) take(map.buffer);
    for (int64_t& operand : step.operands) take(operand);
    step.after.clear();
    if (!entry_.cuda_steps.empty()) step.after = {std::ssize(entry_.cuda_steps) - 1};
    out_.step_args.push_back(std::move(args));
    entry_.cuda_steps.push_back(std::move(step));
  }

  const format::Entry& body_;
  const LoopPorts& ports_;
  format::Entry& entry_;
  const int64_t repeat_;  // of Entry::repeats: the loop itself, those of the body follow
  int64_t first_step_ = 0;
  std::vector<int64_t> buffers_;  // of each buffer of the body
  EmbeddedLoop out_;
};

}  // namespace

EmbeddedLoop embed_loop(const format::Entry& body, const LoopPorts& ports, format::Entry& entry) {
  return Embedder(body, ports, entry).run();
}

}  // namespace tw::driver
