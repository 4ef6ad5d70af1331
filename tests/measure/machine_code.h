// x86-64 kernels as bytes, well-behaved and not: each has the interface of runtime/device/cpu/code_map.h
// (rdi: buffers, rsi: scratch, rdx: first tile, rcx: end of tiles).
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "measure/measurer.h"

namespace tw::measure::testing {

inline std::vector<std::byte> code_of(std::initializer_list<int> bytes) {
  std::vector<std::byte> code;
  for (const int b : bytes) code.push_back(static_cast<std::byte>(b));
  return code;
}

/// buffers[0][tile] = 1.0f for every tile.
inline std::vector<std::byte> store_ones() {
  return code_of({0x48, 0x8b, 0x07, 0x48, 0x39, 0xca, 0x7d, 0x0c, 0xc7, 0x04, 0x90,
                  0x00, 0x00, 0x80, 0x3f, 0x48, 0xff, 0xc2, 0xeb, 0xef, 0xc3});
}
/// buffers[0][tile] = buffers[1][tile].
inline std::vector<std::byte> copy_words() {
  return code_of({0x48, 0x8b, 0x07, 0x4c, 0x8b, 0x47, 0x08, 0x48, 0x39, 0xca, 0x7d, 0x0d, 0x45,
                  0x8b, 0x0c, 0x90, 0x44, 0x89, 0x0c, 0x90, 0x48, 0xff, 0xc2, 0xeb, 0xee, 0xc3});
}
/// Counts `steps` down and does nothing else.
inline std::vector<std::byte> count_down(uint32_t steps) {
  std::vector<std::byte> code = code_of({0xb8, 0, 0, 0, 0, 0xff, 0xc8, 0x75, 0xfc, 0xc3});
  for (int b = 0; b < 4; ++b) code[1 + b] = static_cast<std::byte>(steps >> (8 * b));
  return code;
}
/// As count_down(steps), but twenty times as long on its first two runs after buffers[0] was filled with set bits.
inline std::vector<std::byte> slow_at_first(uint32_t steps) {
  std::vector<std::byte> code = code_of({0x48, 0x8b, 0x07, 0xff, 0x00, 0x8b, 0x08, 0x83, 0xf9, 0x02, 0xb8, 0,    0,   0,
                                         0,    0x72, 0x05, 0xb8, 0,    0,    0,    0,    0xff, 0xc8, 0x75, 0xfc, 0xc3});
  for (int b = 0; b < 4; ++b) code[11 + b] = static_cast<std::byte>(20 * steps >> (8 * b));
  for (int b = 0; b < 4; ++b) code[18 + b] = static_cast<std::byte>(steps >> (8 * b));
  return code;
}
/// An illegal instruction.
inline std::vector<std::byte> crash() { return code_of({0x0f, 0x0b}); }
/// A jump to itself.
inline std::vector<std::byte> hang() { return code_of({0xeb, 0xfe}); }
/// write(0, its own code, 64): nonsense on the socket between worker and compiler.
inline std::vector<std::byte> print_garbage() {
  return code_of({0xb8, 0x01, 0x00, 0x00, 0x00, 0x31, 0xff, 0x48, 0x8d, 0x35, 0xf2,
                  0xff, 0xff, 0xff, 0xba, 0x40, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xc3});
}
/// exit_group(3).
inline std::vector<std::byte> leave() {
  return code_of({0xb8, 0xe7, 0x00, 0x00, 0x00, 0xbf, 0x03, 0x00, 0x00, 0x00, 0x0f, 0x05});
}
/// Stores 4 bytes just before buffers[0].
inline std::vector<std::byte> write_outside() {
  return code_of({0x48, 0x8b, 0x07, 0xc7, 0x40, 0xfc, 0x01, 0x00, 0x00, 0x00, 0xc3});
}
/// Stores into buffers[1], which it may only read.
inline std::vector<std::byte> write_input() {
  return code_of({0x48, 0x8b, 0x47, 0x08, 0xc7, 0x00, 0x01, 0x00, 0x00, 0x00, 0xc3});
}

/// One step over `elements` tiles: buffer 0 is written, buffer 1 an f32 input; all of buffer 0 is wanted.
inline Workload workload(std::vector<std::byte> code, int64_t elements = 8) {
  Workload w;
  w.code = std::move(code);
  BufferSpec out, in;
  out.type = in.type = {DataType::f32(), {elements}};
  in.fill = Fill::kSigned;
  in.seed = 7;
  w.buffers = {out, in};
  w.steps = {{0, 0, elements, {0, 1}}};
  w.wanted = {{0, {}}};
  return w;
}

}  // namespace tw::measure::testing
