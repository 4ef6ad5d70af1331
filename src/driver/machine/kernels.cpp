#include "driver/machine/kernels.h"

#include "support/error.h"

namespace tw::driver::machine {
namespace {

using loop::ForKind;
using loop::Stmt;

constexpr int64_t kBodyLines = 16;  // lines that one loop iteration moves: hides loop control, fits the uop cache
constexpr int kSums = 4;            // independent sums of a read: vector additions take a cycle, loads come in pairs
constexpr int64_t kManyElements = int64_t{1} << 40;  // a caller's buffers are as large as the tiles it asks for

Expr lanes_from(const Expr& index, int lanes) { return ramp(index, int_imm(1), lanes); }
Expr lanes_at(int64_t index, int lanes) { return lanes_from(int_imm(index), lanes); }

loop::Buffer param(const char* name, DataType type, int64_t elements) { return {name, type, {elements}}; }

int64_t elements_of(int64_t lines) { return lines * kLineBytes / DataType::i32().bytes(); }

// Reads `lines` lines from element `base` on into the sums.
std::vector<Stmt> read_lines(const Expr& base, int64_t lines, int lanes) {
  std::vector<Stmt> body;
  for (int64_t v = 0; v < elements_of(lines) / lanes; ++v) {
    const Expr sum = lanes_at(v % kSums * lanes, lanes);
    const Expr data = load("data", DataType::i32(), {lanes_from(base + int_imm(v * lanes), lanes)});
    body.push_back(loop::make_store("sum", {sum}, load("sum", DataType::i32(), {sum}) + data));
  }
  return body;
}

// let NAME = first element of chunk `chunk` of the tile, in body
Stmt with_chunk(const std::string& name, const Expr& chunk, std::vector<Stmt> body) {
  const Expr line = cast(DataType::i64(), load("places", DataType::i32(), {chunk}));
  return loop::make_let(name, line * int_imm(elements_of(1)), std::move(body));
}

// Chunks no longer than a loop body: several of them are unrolled into one.
std::vector<Stmt> read_short_chunks(const Expr& first, int64_t chunk_lines, int lanes) {
  const int64_t chunks = kBodyLines / chunk_lines;
  std::vector<Stmt> body;
  for (int64_t c = 0; c < chunks; ++c) {
    const std::string name = "base" + std::to_string(c);
    const Expr chunk = first + var("i") * int_imm(chunks) + int_imm(c);
    body.push_back(with_chunk(name, chunk, read_lines(var(name), chunk_lines, lanes)));
  }
  return {loop::make_for("i", kReadLines / kBodyLines, ForKind::kSerial, std::move(body))};
}

std::vector<Stmt> read_long_chunks(const Expr& first, int64_t chunk_lines, int lanes) {
  const Expr base = var("base") + var("j") * int_imm(elements_of(kBodyLines));
  Stmt lines = loop::make_for("j", chunk_lines / kBodyLines, ForKind::kSerial, read_lines(base, kBodyLines, lanes));
  Stmt chunk = with_chunk("base", first + var("i"), {std::move(lines)});
  return {loop::make_for("i", kReadLines / chunk_lines, ForKind::kSerial, {std::move(chunk)})};
}

// One loop over the lines of tile t; element(v) makes the statement for the vector at element `v`.
template <typename Element>
std::vector<Stmt> over_tile(int lanes, const Element& element) {
  const Expr base = var("t") * int_imm(elements_of(kMoveLines)) + var("i") * int_imm(elements_of(kBodyLines));
  std::vector<Stmt> body;
  for (int64_t v = 0; v < elements_of(kBodyLines) / lanes; ++v)
    body.push_back(element(lanes_from(base + int_imm(v * lanes), lanes)));
  return {loop::make_for("i", kMoveLines / kBodyLines, ForKind::kSerial, std::move(body))};
}

// Writes its last parameter.
loop::Kernel kernel_of(const std::string& name, std::vector<loop::Buffer> params, std::vector<Stmt> body) {
  loop::Kernel kernel;
  kernel.name = name;
  kernel.params = std::move(params);
  kernel.written = {kernel.params.back().name};
  kernel.body = std::move(body);
  return kernel;
}

loop::Kernel tiled(const std::string& name, std::vector<loop::Buffer> params, std::vector<Stmt> body) {
  loop::Kernel kernel = kernel_of(name, std::move(params), std::move(body));
  kernel.tile_var = "t";
  kernel.tiles = kManyElements / elements_of(kReadLines);
  return kernel;
}

// A register that starts as state[0], is set to step(register) `steps` times, and is stored in state[0] again.
template <typename Step>
std::vector<Stmt> repeat_on_state(int64_t steps, const Step& step) {
  constexpr int64_t kUnrolled = 16;
  const DataType i64 = DataType::i64();
  const Expr at = load("at", i64, {int_imm(0)});
  std::vector<Stmt> body;
  for (int64_t u = 0; u < kUnrolled; ++u) body.push_back(loop::make_store("at", {int_imm(0)}, step(at)));
  const loop::Buffer reg{"at", i64, {1}, loop::Scope::kRegister};
  return {loop::make_allocate(reg, {loop::make_store("at", {int_imm(0)}, load("state", i64, {int_imm(0)})),
                                    loop::make_for("k", steps / kUnrolled, ForKind::kSerial, std::move(body)),
                                    loop::make_store("state", {int_imm(0)}, at)})};
}

}  // namespace

loop::Kernel fma_kernel(const std::string& name, int chains, int lanes, MultiplyAdd kind) {
  const auto step_of = [kind](const Expr& sum, const Expr& x, const Expr& y) {
    return kind == MultiplyAdd::kFused ? fma(sum, x, y) : sum * x + y;
  };
  const DataType f32 = DataType::f32();
  const auto acc = [&](int c) { return load("acc", f32, {lanes_at(int64_t{c} * lanes, lanes)}); };
  std::vector<Stmt> body, step, finish;
  for (int c = 0; c < chains; ++c) {
    const Expr at = lanes_at(int64_t{c} * lanes, lanes);
    body.push_back(loop::make_store("acc", {at}, load("in", f32, {lanes_at(0, lanes)})));
    step.push_back(loop::make_store("acc", {at},
                                    step_of(acc(c), var("x", f32.with_lanes(lanes)), var("y", f32.with_lanes(lanes)))));
    finish.push_back(loop::make_store("out", {at}, acc(c)));
  }
  body.push_back(loop::make_for("k", kFmaSteps, ForKind::kSerial, step));
  body.insert(body.end(), finish.begin(), finish.end());
  const loop::Buffer registers{"acc", f32, {int64_t{chains} * lanes}, loop::Scope::kRegister};
  const Expr x = load("in", f32, {lanes_at(0, lanes)});
  const Expr y = load("in", f32, {lanes_at(lanes, lanes)});
  return kernel_of(
      name, {param("in", f32, int64_t{2} * lanes), param("out", f32, int64_t{chains} * lanes)},
      {loop::make_let("x", x, {loop::make_let("y", y, {loop::make_allocate(registers, std::move(body))})})});
}

loop::Kernel read_kernel(const std::string& name, int64_t chunk_lines, int lanes) {
  TW_CHECK(kReadLines % chunk_lines == 0, "chunks of {} lines", chunk_lines);
  const DataType i32 = DataType::i32();
  const auto sum = [&](int s) { return load("sum", i32, {lanes_at(int64_t{s} * lanes, lanes)}); };
  const Expr first = var("t") * int_imm(kReadLines / chunk_lines);
  std::vector<Stmt> body;
  for (int s = 0; s < kSums; ++s)
    body.push_back(loop::make_store("sum", {lanes_at(int64_t{s} * lanes, lanes)}, broadcast(int_imm(0, i32), lanes)));
  for (Stmt& stmt : chunk_lines <= kBodyLines ? read_short_chunks(first, chunk_lines, lanes)
                                              : read_long_chunks(first, chunk_lines, lanes))
    body.push_back(std::move(stmt));
  const Expr total = sum(0) + sum(1) + (sum(2) + sum(3));
  body.push_back(loop::make_store("out", {lanes_from(var("t") * int_imm(lanes), lanes)}, total));
  const loop::Buffer sums{"sum", i32, {int64_t{kSums} * lanes}, loop::Scope::kRegister};
  return tiled(
      name, {param("data", i32, kManyElements), param("places", i32, kManyElements), param("out", i32, kManyElements)},
      {loop::make_allocate(sums, std::move(body))});
}

loop::Kernel write_kernel(const std::string& name, int lanes) {
  const DataType i32 = DataType::i32();
  const Expr value = var("value", i32.with_lanes(lanes));
  std::vector<Stmt> body = over_tile(lanes, [&](const Expr& at) { return loop::make_store("data", {at}, value); });
  return tiled(name, {param("source", i32, lanes), param("data", i32, kManyElements)},
               {loop::make_let("value", load("source", i32, {lanes_at(0, lanes)}), std::move(body))});
}

loop::Kernel copy_kernel(const std::string& name, int lanes) {
  const DataType i32 = DataType::i32();
  return tiled(name, {param("from", i32, kManyElements), param("to", i32, kManyElements)},
               over_tile(lanes, [&](const Expr& at) { return loop::make_store("to", {at}, load("from", i32, {at})); }));
}

loop::Kernel chase_kernel(const std::string& name) {
  const DataType i64 = DataType::i64();
  return kernel_of(name, {param("next", i64, kManyElements), param("state", i64, 1)},
                   repeat_on_state(kChaseSteps, [&](const Expr& at) { return load("next", i64, {at}); }));
}

loop::Kernel clock_kernel(const std::string& name) {
  const DataType i64 = DataType::i64();
  std::vector<Stmt> body =
      repeat_on_state(kClockSteps, [](const Expr& at) { return binary(Op::kXor, at + var("x"), var("y")); });
  Stmt with_y = loop::make_let("y", load("in", i64, {int_imm(1)}), std::move(body));
  return kernel_of(name, {param("in", i64, 2), param("state", i64, 1)},
                   {loop::make_let("x", load("in", i64, {int_imm(0)}), {std::move(with_y)})});
}

}  // namespace tw::driver::machine
