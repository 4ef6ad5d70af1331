#include "tests/runtime/test_model.h"

#include <algorithm>
#include <cstring>

// The kernels are data, as in an artefact: assembled into a read-only section and never run from there.
asm(R"(
  .intel_syntax noprefix
  .pushsection .rodata
  .globl tw_test_code, tw_test_add, tw_test_reverse, tw_test_gather, tw_test_code_end
tw_test_code:
tw_test_add:
  mov r8, [rdi]
  mov r9, [rdi + 8]
  mov r10, [rdi + 16]
1:
  cmp rdx, rcx
  jge 2f
  movss xmm0, dword ptr [r8 + rdx * 4]
  addss xmm0, dword ptr [r9 + rdx * 4]
  movss dword ptr [r10 + rdx * 4], xmm0
  inc rdx
  jmp 1b
2:
  ret
tw_test_reverse:
  mov r8, [rdi]
  mov r9, [rdi + 8]
  mov r10, [rdi + 16]
  mov r10, [r10]
  dec r10
1:
  cmp rdx, rcx
  jge 2f
  mov r11, r10
  sub r11, rdx
  movss xmm0, dword ptr [r8 + r11 * 4]
  movss dword ptr [rsi], xmm0
  mov eax, [rsi]
  mov [r9 + rdx * 4], eax
  inc rdx
  jmp 1b
2:
  ret
tw_test_gather:
  mov r8, [rdi]
  mov r9, [rdi + 8]
  mov r10, [rdi + 16]
  mov r11, [rdi + 24]
  mov rsi, [rdi + 32]
  mov rsi, [rsi]
1:
  cmp rdx, rcx
  jge 2f
  mov rax, [r9 + rdx * 8]
  cmp rax, rsi
  jb 3f
  mov dword ptr [r11], 1
  xor eax, eax
3:
  movss xmm0, dword ptr [r8 + rax * 4]
  movss dword ptr [r10 + rdx * 4], xmm0
  inc rdx
  jmp 1b
2:
  ret
tw_test_code_end:
  .popsection
  .att_syntax prefix
)");

extern "C" {
extern const uint8_t tw_test_code[], tw_test_add[], tw_test_reverse[], tw_test_gather[], tw_test_code_end[];
}

namespace tw::test {
namespace {

using format::DataType;
using format::Place;

void append_bytes(std::vector<uint8_t>& out, int64_t value) {
  const size_t at = out.size();
  out.resize(at + sizeof(value));
  std::memcpy(out.data() + at, &value, sizeof(value));
}

TestArtefact empty_model() {
  const Code code = test_code();
  TestArtefact artefact;
  artefact.code.assign(code.bytes.begin(), code.bytes.end());
  const std::string plan = "plan of a test";
  artefact.plan.assign(plan.begin(), plan.end());
  const auto size = static_cast<int64_t>(code.bytes.size());
  artefact.manifest.producer = "test";
  artefact.manifest.targets = {{format::TargetKind::kCpu, "x86-64", {"sse2"}}};
  artefact.manifest.notes = {"by hand"};
  artefact.manifest.kernels = {{"add", "code", code.add, code.reverse - code.add},
                               {"reverse", "code", code.reverse, code.gather - code.reverse},
                               {"gather", "code", code.gather, size - code.gather}};
  return artefact;
}

}  // namespace

Code test_code() {
  return {format::Bytes(tw_test_code, static_cast<size_t>(tw_test_code_end - tw_test_code)), tw_test_add - tw_test_code,
          tw_test_reverse - tw_test_code, tw_test_gather - tw_test_code};
}

namespace {

// Of the kernels above.
bool is_written(int64_t kernel, size_t a) {
  const Code code = test_code();
  if (kernel == code.add) return a == 2;
  return kernel == code.reverse ? a == 1 : a == 2 || a == 3;
}

format::DataType dtype_of(const format::Entry& entry, const format::Buffer& buffer) {
  if (buffer.place == format::Place::kExtent) return format::DataType::kI64;
  const bool is_input = buffer.place == format::Place::kInput, is_output = buffer.place == format::Place::kOutput;
  const auto& specs = is_input ? entry.inputs : entry.outputs;
  const bool has_spec = (is_input || is_output) && buffer.index < std::ssize(specs);
  return has_spec ? specs[static_cast<size_t>(buffer.index)].dtype : format::DataType::kF32;
}

format::KernelArgument argument(const format::Entry& entry, const format::CpuStep& step, int64_t kernel, size_t a) {
  if (step.args[a] < 0 || step.args[a] >= std::ssize(entry.buffers)) return {};
  const format::Buffer& buffer = entry.buffers[static_cast<size_t>(step.args[a])];
  return {dtype_of(entry, buffer), buffer.bytes, is_written(kernel, a)};
}

// Of a launch of a fake kernel (fake_cuda.h), which writes one of its arguments.
format::KernelUse use_of(const format::Manifest& manifest, const format::Entry& entry, const format::CudaStep& step) {
  const format::Kernel& kernel = manifest.kernels[static_cast<size_t>(step.kernel)];
  format::KernelUse use{
      format::cubin_number(kernel.section), kernel.bytes, 1, 0, format::launch_key(kernel.name, step), {}};
  for (const int64_t b : format::buffers_of(step)) {
    if (b < 0 || b >= std::ssize(entry.buffers)) return use;
    const format::Buffer& buffer = entry.buffers[static_cast<size_t>(b)];
    const bool has_two =
        kernel.name == "copy" || kernel.name == "negate" || kernel.name == "outside" || kernel.name == "fault";
    const size_t written = kernel.name == "fail" ? 0 : has_two ? 1 : 2;
    use.arguments.push_back({dtype_of(entry, buffer), buffer.bytes, use.arguments.size() == written});
  }
  for (const format::Zeros& zeros : entry.zeros) {
    if (std::ranges::count(format::buffers_of(step), zeros.buffer) > 0) use.scratch_bytes += zeros.bytes;
  }
  return use;
}

// As the steps call them.
std::vector<format::KernelUse> uses_of(const format::Manifest& manifest) {
  std::vector<format::KernelUse> uses;
  for (const format::Entry& entry : manifest.entries) {
    for (const format::CudaStep& step : entry.cuda_steps) {
      if (!step.call.empty() || step.kernel < 0 || step.kernel >= std::ssize(manifest.kernels)) continue;
      uses.push_back(use_of(manifest, entry, step));
    }
    for (const format::CpuStep& step : entry.cpu_steps) {
      if (step.kernel < 0 || step.kernel >= std::ssize(manifest.kernels)) continue;
      const format::Kernel& kernel = manifest.kernels[static_cast<size_t>(step.kernel)];
      format::KernelUse use{kernel.offset, kernel.bytes, step.tiles, entry.scratch_bytes_per_thread, 0, {}};
      for (size_t a = 0; a < step.args.size(); ++a) use.arguments.push_back(argument(entry, step, kernel.offset, a));
      if (std::ranges::find(uses, use) == uses.end()) uses.push_back(std::move(use));
    }
  }
  return uses;
}

}  // namespace

std::vector<format::Section> TestArtefact::sections() const {
  uses = format::to_bytes(uses_of(manifest));
  const bool is_cpu = manifest.kind() == format::TargetKind::kCpu;
  return {
      {"weights", weights}, {is_cpu ? "code" : "cubin.0", code}, {"kernels", uses}, {"plan", plan}, {"states", states}};
}

std::vector<uint8_t> TestArtefact::file() const { return format::serialize_artefact(manifest, sections()); }

TestArtefact sum_model(const std::vector<int64_t>& sizes) {
  TestArtefact artefact = empty_model();
  for (const int64_t n : sizes) {
    const auto at = static_cast<int64_t>(artefact.weights.size());
    append_bytes(artefact.weights, n);
    format::Entry entry;
    entry.name = "n" + std::to_string(n);
    entry.inputs = {{"a", DataType::kF32, {n}}, {"b", DataType::kF32, {n}}};
    entry.outputs = {{"y", DataType::kF32, {n}}};
    entry.arena_bytes = 64 + 4 * n;
    entry.scratch_bytes_per_thread = 64;
    entry.flop = 2;
    entry.buffers = {{Place::kInput, 0, 0, 4 * n, "a"},
                     {Place::kInput, 1, 0, 4 * n, "b"},
                     {Place::kArena, 0, 64, 4 * n, "sum"},
                     {Place::kOutput, 0, 0, 4 * n, "y"},
                     {Place::kWeights, 0, at, 8, "n"}};
    entry.cpu_steps = {{0, {0, 1, 2}, n, true, "sum"}, {1, {2, 3, 4}, n, true, "flip"}};
    artefact.manifest.entries.push_back(entry);
  }
  return artefact;
}

TestArtefact ranged_sums() {
  TestArtefact artefact = sum_model({7, 13});
  const int64_t least[] = {3, 8};
  for (size_t e = 0; e < 2; ++e) {
    format::Entry& entry = artefact.manifest.entries[e];
    entry.extents = {{"n", least[e], entry.inputs[0].shape[0], {{0, 0, 1}, {1, 0, 1}}, {{0, 0, 1}}}};
  }
  return artefact;
}

TestArtefact total_model(int64_t n) {
  TestArtefact artefact = empty_model();
  const auto state = [&](const char* name, int64_t extent, int64_t offset) {
    artefact.manifest.states.push_back({{name, DataType::kF32, {extent}}, std::string(name) + ".next", offset});
  };
  const int64_t end = 256 + (4 * n + 255) / 256 * 256;
  state("before", 1, 0);
  state("total", n, 256);
  state("behind", 1, end);
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"x", DataType::kF32, {n}}};
  entry.outputs = {{"y", DataType::kF32, {n}}};
  entry.buffers = {{Place::kInput, 0, 0, 4 * n, "x"},
                   {Place::kOutput, 0, 0, 4 * n, "y"},
                   {Place::kState, 1, 0, 4 * n, "total"},
                   {Place::kNextState, 1, 0, 4 * n, "total.next"}};
  entry.cpu_steps = {{0, {0, 2, 1}, n, true, "show"}, {0, {0, 3, 3}, n, true, "add"}};
  artefact.manifest.entries.push_back(entry);
  return artefact;
}

TestArtefact total_functions(int64_t n) {
  TestArtefact artefact = total_model(n);
  artefact.manifest.entries[0].name = artefact.manifest.entries[0].function = "step";
  format::Entry entry;
  entry.name = entry.function = "look";
  entry.outputs = {{"seen", DataType::kF32, {n}}};
  entry.buffers = {{Place::kOutput, 0, 0, 4 * n, "seen"}, {Place::kState, 1, 0, 4 * n, "total"}};
  entry.cpu_steps = {{0, {1, 1, 0}, n, true, "double"}};
  artefact.manifest.entries.push_back(entry);
  return artefact;
}

TestArtefact scan_model(int64_t batch, int64_t turns, int64_t n) {
  TestArtefact artefact = empty_model();
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"x", DataType::kF32, {batch, turns, n}}, {"h", DataType::kF32, {batch, n}}};
  entry.outputs = {{"y", DataType::kF32, {batch, turns, n}}, {"z", DataType::kF32, {batch, turns, n}}};
  const int64_t row = 4 * n, last = turns - 1;
  entry.arena_bytes = 64 + 2 * row;
  entry.repeats = {{0, 1, batch}, {0, 1, turns}, {1, 2, batch}, {1, 2, turns}};
  const format::Move forth = {0, row * turns, 0, 1, batch}, back = {2, row * turns, 0, 1, batch};
  entry.buffers = {{Place::kInput, 0, 0, row, "x", {forth, {1, row, 0, 1, turns}}},
                   {Place::kOutput, 0, 0, row, "y before", {forth, {1, row, last, 1, turns}}, {3}},
                   {Place::kOutput, 0, 0, row, "y", {forth, {1, row, 0, 1, turns}}},
                   {Place::kInput, 1, 0, row, "h", {{0, row, 0, 1, batch}}},
                   {Place::kInput, 0, 0, row, "x", {back, {3, row, last, last, turns}}},
                   {Place::kArena, 0, 64, row, "s", {{3, row, 1, 1, 2}}, {8}},
                   {Place::kArena, 0, 64, row, "s", {{3, row, 0, 1, 2}}},
                   {Place::kOutput, 1, 0, row, "z", {back, {3, row, last, last, turns}}},
                   {Place::kInput, 1, 0, row, "h", {{2, row, 0, 1, batch}}}};
  entry.cpu_steps = {
      {0, {0, 1, 2}, n, false, "forth"}, {0, {4, 5, 6}, n, true, "back"}, {0, {6, 4, 7}, n, true, "out"}};
  artefact.manifest.entries.push_back(entry);
  return artefact;
}

TestArtefact gather_model(int64_t n, int64_t m) {
  TestArtefact artefact = empty_model();
  append_bytes(artefact.weights, n);
  format::Entry entry;
  entry.name = "only";
  entry.inputs = {{"data", DataType::kF32, {n}}, {"index", DataType::kI64, {m}}};
  entry.outputs = {{"y", DataType::kF32, {m}}};
  entry.buffers = {{Place::kInput, 0, 0, 4 * n, "data"},
                   {Place::kInput, 1, 0, 8 * m, "index"},
                   {Place::kOutput, 0, 0, 4 * m, "y"},
                   {Place::kError, 0, 0, 4, ""},
                   {Place::kWeights, 0, 0, 8, "n"}};
  entry.cpu_steps = {{2, {0, 1, 2, 3, 4}, m, true, "pick"}};
  artefact.manifest.entries.push_back(entry);
  return artefact;
}

}  // namespace tw::test
