// Runs a program on the interpreter and as machine code, and compares every parameter bit for bit.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/llvm/jit.h"
#include "codegen/llvm/object.h"
#include "tests/harness/loop_interpreter.h"

namespace tw::codegen::cpu::testing {

/// Where the elements of a parameter lie while machine code runs.
enum class Placement : uint8_t {
  kAligned,    // at a multiple of 64 bytes, as code generation may assume
  kAtPageEnd,  // the last element ends a page, and the next page faults; no alignment is assumed
};

/// Memory of `bytes` bytes, placed as asked; the pages around it fault.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, Placement placement);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
};

/// Machine code of a blob, mapped readable and executable.
class MappedCode {
 public:
  explicit MappedCode(const MachineCode& code);
  KernelFunction function(const KernelEntry& kernel) const;

 private:
  GuardedMemory memory_;
};

std::vector<std::byte> pack(const loop::HostBuffer& buffer);
void unpack(std::span<const std::byte> bytes, loop::HostBuffer& buffer);

/// A buffer of `type` and `shape` with seeded values: small numbers mixed with every special value of the type.
loop::HostBuffer random_buffer(DataType type, Shape shape, uint32_t seed);
/// The same with small whole numbers 0..9 only, or those of [low, high].
loop::HostBuffer small_ints(DataType type, Shape shape, uint32_t seed, int low = 0, int high = 9);

/// Runs all kernels of `program` on `memory` as machine code for `level`.
void run_compiled(const loop::Program& program, const CpuLevel& level, Placement placement, loop::Memory& memory);

/// Adds a failure for the first element of each parameter in which the two differ; NaNs equal NaNs, -0 equals 0.
void expect_same(const loop::Memory& expected, const loop::Memory& actual, const std::string& what);

/// Interpreter against machine code of `levels` (those that this machine runs); of the last one at both placements.
void check_program(const loop::Program& program, const loop::Memory& inputs, std::span<const std::string> levels);
void check_program(const loop::Program& program, const loop::Memory& inputs);  // v3, v4 and host

/// The same for a program as text, where `$L` stands for `lanes` and `$T` for `type`; parameters that are not in
/// `inputs` get random values.
void check_text(std::string text, int lanes = 1, DataType type = DataType::f32(), loop::Memory inputs = {});
loop::Program parse(std::string text, int lanes = 1, DataType type = DataType::f32());

/// Params in the order given; `written` by name.
loop::Kernel make_kernel(std::string name, std::vector<loop::Buffer> params, std::vector<std::string> written,
                         std::vector<loop::Stmt> body);
loop::Buffer param(std::string name, DataType type, Shape shape);
loop::Buffer local(std::string name, DataType type, Shape shape, loop::Scope scope);

}  // namespace tw::codegen::cpu::testing
