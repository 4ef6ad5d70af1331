#include "tests/codegen/llvm/harness.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "expr/scalar.h"
#include "support/error.h"
#include "support/math.h"

namespace tw::codegen::cpu::testing {

using loop::HostBuffer;
using loop::Memory;

// ---- Memory.

GuardedMemory::GuardedMemory(size_t bytes, Placement placement) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto used =
      static_cast<size_t>(round_up(static_cast<int64_t>(std::max<size_t>(bytes, 1)), static_cast<int64_t>(page)));
  mapped_ = used + 2 * page;
  void* mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TW_CHECK(mapping != MAP_FAILED);
  mapping_ = static_cast<std::byte*>(mapping);
  TW_CHECK(mprotect(mapping_ + page, used, PROT_READ | PROT_WRITE) == 0);
  data_ = mapping_ + page + (placement == Placement::kAtPageEnd ? used - bytes : 0);
}

GuardedMemory::~GuardedMemory() { munmap(mapping_, mapped_); }

MappedCode::MappedCode(const MachineCode& code) : memory_(code.code.size(), Placement::kAligned) {
  std::memcpy(memory_.data(), code.code.data(), code.code.size());
  TW_CHECK(mprotect(memory_.data(), code.code.size(), PROT_READ | PROT_EXEC) == 0);
}

KernelFunction MappedCode::function(const KernelEntry& kernel) const {
  return reinterpret_cast<KernelFunction>(memory_.data() + kernel.offset);
}

// ---- Elements.

namespace {

size_t count(const HostBuffer& buffer) { return buffer.type.is_float() ? buffer.floats.size() : buffer.ints.size(); }

uint64_t bits_of(const HostBuffer& buffer, size_t i) {
  switch (buffer.type.scalar()) {
    case ScalarType::kF16:
      return f16_bits(buffer.floats[i]);
    case ScalarType::kBF16:
      return bf16_bits(buffer.floats[i]);
    case ScalarType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(buffer.floats[i]));
    case ScalarType::kF64:
      return std::bit_cast<uint64_t>(buffer.floats[i]);
    default:
      return static_cast<uint64_t>(buffer.ints[i]);
  }
}

double float_of(DataType type, uint64_t bits) {
  switch (type.scalar()) {
    case ScalarType::kF16:
      return f16_value(static_cast<uint16_t>(bits));
    case ScalarType::kBF16:
      return bf16_value(static_cast<uint16_t>(bits));
    case ScalarType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

HostBuffer empty_buffer(DataType type, Shape shape) {
  HostBuffer buffer{type, std::move(shape), {}, {}};
  const auto elements = static_cast<size_t>(num_elements(buffer.shape));
  type.is_float() ? buffer.floats.resize(elements) : buffer.ints.resize(elements);
  return buffer;
}

void set(HostBuffer& buffer, size_t i, double value) {
  if (buffer.type.is_float()) {
    buffer.floats[i] = round_to(buffer.type.scalar(), value);
  } else {
    buffer.ints[i] = wrap_to(buffer.type.scalar(), static_cast<int64_t>(value));
  }
}

std::vector<double> special_floats() {
  return {0.0,          -0.0,          1,
          -1,           0.5,           -0.5,
          1.5,          2.5,           -2.5,
          3.5,          0.49999997,    INFINITY,
          -INFINITY,    NAN,           65504,
          65519,        65520,         65536,
          1e-8,         5.96e-8,       6.1e-5,
          1e-40,        1e-45,         3.4e38,
          -3.4e38,      1e300,         2147483647,
          2147483648.0, -2147483648.0, -2147483904.0,
          4294967295.0, 4294967296.0,  9.2233720368547758e18,
          -9.3e18,      1.9e19,        127,
          128,          -129,          255,
          256,          32768,         -32769,
          65535,        1.00048828125, 1.0009765625,
          1.00390625,   1.01171875};
}

std::vector<int64_t> special_ints() {
  return {0,
          1,
          -1,
          2,
          -2,
          7,
          -7,
          127,
          128,
          -128,
          -129,
          255,
          256,
          32767,
          32768,
          -32768,
          65504,
          65519,
          65520,
          65535,
          INT32_MAX,
          INT32_MIN,
          int64_t{1} << 31,
          (int64_t{1} << 32) - 1,
          int64_t{1} << 53,
          (int64_t{1} << 53) + 1,
          (int64_t{1} << 24) + 1,
          INT64_MAX,
          INT64_MIN,
          (int64_t{1} << 62) + (int64_t{1} << 54) + 1,
          -((int64_t{1} << 62) + (int64_t{1} << 54) + 1)};
}

}  // namespace

std::vector<std::byte> pack(const HostBuffer& buffer) {
  const auto width = static_cast<size_t>(buffer.type.bytes());
  std::vector<std::byte> bytes(count(buffer) * width);
  for (size_t i = 0; i < count(buffer); ++i) {
    const uint64_t bits = bits_of(buffer, i);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

void unpack(std::span<const std::byte> bytes, HostBuffer& buffer) {
  const auto width = static_cast<size_t>(buffer.type.bytes());
  for (size_t i = 0; i < count(buffer); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * width, width);
    if (buffer.type.is_float()) {
      buffer.floats[i] = float_of(buffer.type, bits);
    } else if (buffer.type.is_bool()) {
      buffer.ints[i] = static_cast<int64_t>(bits);  // as it is: anything but 0 and 1 is an error that must show
    } else {
      buffer.ints[i] = wrap_to(buffer.type.scalar(), static_cast<int64_t>(bits));
    }
  }
}

HostBuffer random_buffer(DataType type, Shape shape, uint32_t seed) {
  HostBuffer buffer = empty_buffer(type, std::move(shape));
  std::mt19937 random(seed);
  const std::vector<double> floats = special_floats();
  const std::vector<int64_t> ints = special_ints();
  for (size_t i = 0; i < count(buffer); ++i) {
    const bool special = random() % 2 == 0;
    if (!type.is_float()) {
      const int64_t value =
          special ? ints[random() % ints.size()] : static_cast<int64_t>((uint64_t{random()} << 32) | random());
      buffer.ints[i] = wrap_to(type.scalar(), type.is_bool() ? static_cast<int64_t>(random() % 2) : value);
    } else {
      set(buffer, i,
          special ? floats[random() % floats.size()]
                  : std::ldexp(static_cast<double>(static_cast<int32_t>(random())), -29));
    }
  }
  return buffer;
}

HostBuffer small_ints(DataType type, Shape shape, uint32_t seed, int low, int high) {
  HostBuffer buffer = empty_buffer(type, std::move(shape));
  std::mt19937 random(seed);
  for (size_t i = 0; i < count(buffer); ++i)
    set(buffer, i, low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  return buffer;
}

// ---- Running.

void run_compiled(const loop::Program& program, const CpuLevel& level, Placement placement, Memory& memory) {
  const EmitOptions options{.param_alignment = placement == Placement::kAligned ? 64 : 1};
  const JitModule jit(program, level, options);
  for (const loop::Kernel& kernel : program.kernels) {
    std::vector<std::unique_ptr<GuardedMemory>> placed;
    std::vector<void*> table;
    for (const loop::Buffer& buffer : kernel.params) {
      const std::vector<std::byte> bytes = pack(memory.at(buffer.name));
      placed.push_back(std::make_unique<GuardedMemory>(bytes.size(), placement));
      std::memcpy(placed.back()->data(), bytes.data(), bytes.size());
      table.push_back(placed.back()->data());
    }
    const GuardedMemory scratch(static_cast<size_t>(jit.kernel(kernel.name).scratch_bytes), Placement::kAligned);
    // Two calls, so that a kernel which ignores its tile range is found out.
    const int64_t middle = kernel.tiles / 2;
    jit.function(kernel.name)(table.data(), scratch.data(), middle, kernel.tiles);
    jit.function(kernel.name)(table.data(), scratch.data(), 0, middle);
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      HostBuffer& buffer = memory.at(kernel.params[i].name);
      unpack({placed[i]->data(), count(buffer) * static_cast<size_t>(buffer.type.bytes())}, buffer);
    }
  }
}

void expect_same(const Memory& expected, const Memory& actual, const std::string& what) {
  for (const auto& [name, buffer] : expected) {
    const HostBuffer& other = actual.at(name);
    for (size_t i = 0; i < count(buffer); ++i) {
      const bool is_float = buffer.type.is_float();
      const double a = is_float ? buffer.floats[i] : 0;
      const double b = is_float ? other.floats[i] : 0;
      const bool same = is_float ? a == b || (std::isnan(a) && std::isnan(b)) : buffer.ints[i] == other.ints[i];
      if (same) continue;
      ADD_FAILURE() << what << ": " << name << "[" << i << "] (" << to_string(buffer.type) << ") is "
                    << (is_float ? std::to_string(b) : std::to_string(other.ints[i])) << ", not "
                    << (is_float ? std::to_string(a) : std::to_string(buffer.ints[i]));
      break;
    }
  }
}

void check_program(const loop::Program& program, const Memory& inputs, std::span<const std::string> levels) {
  Memory expected = inputs;
  loop::interpret(program, expected);
  for (const std::string& name : levels) {
    const std::optional<CpuLevel> level = find_level(name);
    ASSERT_TRUE(level) << name;
    if (!runs_on_host(*level)) continue;
    const bool both = &name == &levels.back();
    for (const Placement placement : {Placement::kAligned, Placement::kAtPageEnd}) {
      if (placement == Placement::kAtPageEnd && !both) continue;
      Memory actual = inputs;
      run_compiled(program, *level, placement, actual);
      const char* where = placement == Placement::kAligned ? "" : ", at the end of a page";
      expect_same(expected, actual, fmt::format("{} at {}{}", program.name, name, where));
    }
  }
}

void check_program(const loop::Program& program, const Memory& inputs) {
  const std::string levels[] = {"x86-64-v3", "x86-64-v4", "host"};
  check_program(program, inputs, levels);
}

loop::Program parse(std::string text, int lanes, DataType type) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from)) text.replace(at, from.size(), to);
  };
  replace("$L", std::to_string(lanes));
  replace("$T", to_string(type));
  return loop::parse_program(text);
}

void check_text(std::string text, int lanes, DataType type, Memory inputs) {
  SCOPED_TRACE(to_string(type.with_lanes(lanes)));
  const loop::Program program = parse(std::move(text), lanes, type);
  uint32_t seed = 0;
  for (const loop::Kernel& kernel : program.kernels) {
    for (const loop::Buffer& buffer : kernel.params) {
      inputs.try_emplace(buffer.name, random_buffer(buffer.type, buffer.shape, ++seed));
    }
  }
  check_program(program, inputs);
}

loop::Kernel make_kernel(std::string name, std::vector<loop::Buffer> params, std::vector<std::string> written,
                         std::vector<loop::Stmt> body) {
  loop::Kernel kernel;
  kernel.name = std::move(name);
  kernel.params = std::move(params);
  kernel.written = std::move(written);
  kernel.body = std::move(body);
  return kernel;
}

loop::Buffer param(std::string name, DataType type, Shape shape) {
  return {std::move(name), type, std::move(shape), loop::Scope::kParam};
}
loop::Buffer local(std::string name, DataType type, Shape shape, loop::Scope scope) {
  return {std::move(name), type, std::move(shape), scope};
}

}  // namespace tw::codegen::cpu::testing
