// The head of every template's text: what the host program says of an instance. One line of numbers on descriptor 0
// asks for a problem, lines up to "end" answer. No driver and no GPU is needed: descriptions of tensors, which the
// driver would encode, are recorded instead, and a mark in the parameters shows where each belongs. Parameters are made
// twice, with different addresses: what differs must be an operand's address plus a constant, or the description of a
// tensor.
//
//   launch <grid: 3> <block: 3> <shared bytes> <workspace bytes>
//   params <hexadecimal bytes, 0 where one of the following lines says what belongs there>
//   relocation <offset> <operand> <addend>
//   map <offset> <operand> <type> <rank> <shape> <box> [<windows' extents> <steps> <elements before the tensor>]
//     outermost first; copies swizzle lines of 32 to 128 bytes
//   refused <reason>    instead of all these
//   end
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>

#include "cutlass/cutlass.h"

namespace tw {

/// What a line asks for. It names operands by numbers from 1 on, 0 where there is none; here these are addresses, as
/// aligned as those of buffers are, or 0.
struct Problem {
  static constexpr int kVectors = 4;
  long long sizes[24];  // of the family: see its text
  long long multiprocessors, swizzle;
  unsigned long long a, b, c, d, workspace, vectors[kVectors];
};

// Addresses that no operand has, of regions that no operand leaves, in two worlds.
constexpr unsigned long long kRegion = 1ull << 40, kWorlds[2] = {1ull << 44, 1ull << 45};

struct Place {
  unsigned long long operand, addend;
  std::string text() const { return std::to_string(operand) + " " + std::to_string(addend); }
};

inline int g_world = 0;
inline unsigned long long g_operands = 0;

// Where the address `word` of a world lies; an operand from g_operands on where it is none.
inline Place place_of(unsigned long long word, int world) {
  const unsigned long long far = word - kWorlds[world];
  return {far / kRegion, far % kRegion};
}

struct Map {
  unsigned long long mark[2];
  std::string text, reason;  // why artefacts do not have it; empty: they do
};

inline Map g_maps[16];
inline int g_map_count = 0;

// Writes the mark that stands for a description, and remembers what it describes.
inline CUresult record(CUtensorMap* map, std::string text, std::string reason = "") {
  if (g_map_count == 16) return CUDA_ERROR_OUT_OF_MEMORY;
  Map& kept = g_maps[g_map_count];
  kept.mark[0] = 0x7469'6c65'7772'0000ull + static_cast<unsigned>(g_map_count);
  kept.mark[1] = ~kept.mark[0];
  kept.text = std::move(text);
  kept.reason = std::move(reason);
  std::memset(static_cast<void*>(map), 0, sizeof(*map));
  std::memcpy(static_cast<void*>(map), kept.mark, sizeof(kept.mark));
  ++g_map_count;
  return CUDA_SUCCESS;
}

struct Answer {
  std::string reason;  // why the instance does not do this problem; empty: it does
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  size_t shared_bytes = 0, workspace_bytes = 0;
  std::string params;  // the bytes of the parameter block
};

inline Answer refused(const char* reason) {
  Answer answer;
  answer.reason = reason;
  return answer;
}

// The block that `make(place)` makes.
template <typename Params, typename Make>
std::string bytes_of_params(const Make& make) {
  alignas(128) static unsigned char place[sizeof(Params)];
  std::memset(place, 0, sizeof(place));
  make(place);
  return std::string(reinterpret_cast<char*>(place), sizeof(place));
}

__attribute__((noinline)) Answer instantiate(const Problem& problem);

__attribute__((noinline)) inline void paint_stack(int value) {
  volatile unsigned char place[1 << 16];
  for (auto& byte : place) byte = static_cast<unsigned char>(value);
}

// What the stack held lies in the padding of what is made there. Blocks differ in addresses only when padding is zero:
// what differs from stack to stack is padding.
inline Answer answer_to(const Problem& problem) {
  Answer answer;
  for (const int paint : {0x00, 0xff, 0x5a}) {
    g_map_count = 0;
    paint_stack(paint);
    Answer made = instantiate(problem);
    for (size_t i = 0; i < answer.params.size(); ++i)
      if (answer.params[i] != made.params[i]) made.params[i] = '\0';
    answer = std::move(made);
  }
  return answer;
}

inline bool read_problem(Problem (&worlds)[2]) {
  std::string line;
  char c = 0;
  while (read(0, &c, 1) == 1 && c != '\n') line += c;
  if (c != '\n') return false;
  constexpr int kNumbers = 26, kOperands = 5 + Problem::kVectors;
  unsigned long long numbers[kNumbers + kOperands] = {};
  const char* at = line.c_str();
  for (auto& number : numbers) {
    int used = 0;
    if (std::sscanf(at, "%llu%n", &number, &used) != 1) break;
    at += used;
  }
  for (int world = 0; world < 2; ++world) {
    unsigned long long words[kNumbers + kOperands];
    for (int i = 0; i < kNumbers + kOperands; ++i)
      words[i] = i < kNumbers || numbers[i] == 0 ? numbers[i] : kWorlds[world] + (numbers[i] - 1) * kRegion;
    std::memcpy(&worlds[world], words, sizeof(words));
  }
  return true;
}

// Takes the descriptions of tensors out of `params` and appends their lines; why there can be none, or nothing.
inline std::string take_maps(std::string& params, std::string& is_map, std::string& lines) {
  for (int i = 0; i < g_map_count; ++i) {
    const std::string mark(reinterpret_cast<char*>(g_maps[i].mark), sizeof(g_maps[i].mark));
    for (size_t at = params.find(mark); at != std::string::npos; at = params.find(mark, at + 1)) {
      if (!g_maps[i].reason.empty()) return g_maps[i].reason;
      lines += "map " + std::to_string(at) + g_maps[i].text + "\n";
      params.replace(at, sizeof(CUtensorMap), sizeof(CUtensorMap), '\0');
      is_map.replace(at, sizeof(CUtensorMap), sizeof(CUtensorMap), '\1');
    }
  }
  return "";
}

// The lines of an answer, but for the last one.
inline std::string lines_of(const Problem (&worlds)[2]) {
  Answer answers[2];
  std::string maps[2], is_map;
  g_operands = place_of(worlds[0].workspace, 0).operand + 1;
  for (g_world = 0; g_world < 2; ++g_world) {
    Answer& answer = answers[g_world];
    answer = answer_to(worlds[g_world]);
    is_map.assign(answer.params.size(), '\0');
    if (answer.reason.empty()) answer.reason = take_maps(answer.params, is_map, maps[g_world]);
    if (!answer.reason.empty()) return "refused " + answer.reason + "\n";
  }
  Answer& first = answers[0];
  if (maps[0] != maps[1] || first.params.size() != answers[1].params.size())
    return "refused its descriptions of tensors depend on addresses\n";
  std::string relocations;
  for (size_t at = 0; at + 8 <= first.params.size(); at += 8) {
    unsigned long long words[2];
    for (int w = 0; w < 2; ++w) std::memcpy(&words[w], answers[w].params.data() + at, 8);
    if (is_map[at] || is_map[at + 7] || words[0] == words[1]) continue;
    const Place here = place_of(words[0], 0);
    if (here.operand >= g_operands || here.text() != place_of(words[1], 1).text())
      return "refused parameter " + std::to_string(at) + " depends on addresses, but is none\n";
    relocations += "relocation " + std::to_string(at) + " " + here.text() + "\n";
    first.params.replace(at, 8, 8, '\0');
  }
  std::string text = "launch";
  for (const auto& extents : {first.grid, first.block}) {
    for (int d = 0; d < 3; ++d) text += " " + std::to_string(extents[d]);
  }
  text += " " + std::to_string(first.shared_bytes) + " " + std::to_string(first.workspace_bytes) + "\nparams ";
  static const char kDigits[] = "0123456789abcdef";
  for (const char c : first.params) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text + "\n" + relocations + maps[0];
}

}  // namespace tw

namespace tw {

// What both calls of the driver say, extents innermost first.
struct Described {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t *shape, *strides;
  const cuuint32_t* box;
  bool is_plain;  // without interleaving, with zeros outside
  CUtensorMapSwizzle swizzle;
};

// Swizzles that are not those of the box's lines, strides other than of a compact tensor and other modes are not for
// artefacts.
inline CUresult record(CUtensorMap* map, const Described& t, const std::string& windows) {
  const bool half = t.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || t.type == CU_TENSOR_MAP_DATA_TYPE_UINT16;
  const bool bf16 = t.type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  // Words of f32 are copied as they are: it is matrix instructions that read fewer of their bits.
  const bool f32 = t.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 || t.type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 ||
                   t.type == CU_TENSOR_MAP_DATA_TYPE_UINT32;
  if (!half && !bf16 && !f32)
    return record(map, "", "a tensor of type " + std::to_string(t.type));
  unsigned long long compact = half || bf16 ? 2 : 4;
  const unsigned long long line = t.box[0] * compact;
  const bool lines = line >= 32 && line <= 128 && (line & (line - 1)) == 0;
  if (!t.is_plain || !lines || static_cast<int>(t.swizzle) != (line == 128 ? 3 : line == 64 ? 2 : 1))
    return record(map, "", "a description of a tensor that artefacts do not have");
  for (cuuint32_t d = 0; d + 1 < t.rank; ++d) {
    compact *= t.shape[d];
    if (t.strides[d] != compact && t.shape[d + 1] > 1) return record(map, "", "a tensor that is not compact");
  }
  const Place place = place_of(reinterpret_cast<uint64_t>(t.address), g_world);
  if (place.operand >= g_operands) return record(map, "", "a tensor that is no operand");
  if (place.addend != 0) return record(map, "", "a tensor that begins inside of a buffer");
  std::string text = " " + std::to_string(place.operand) + (half ? " f16 " : bf16 ? " bf16 " : " f32 ");
  text += std::to_string(t.rank);
  for (cuuint32_t d = t.rank; d-- > 0;) text += " " + std::to_string(t.shape[d]);
  for (cuuint32_t d = t.rank; d-- > 0;) text += " " + std::to_string(t.box[d]);
  return record(map, text + windows);
}

}  // namespace tw

// In place of the driver's.
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                           const cuuint64_t* shape, const cuuint64_t* strides, const cuuint32_t* box,
                                           const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                           CUtensorMapFloatOOBfill fill) {
  bool plain = interleave == 0 && fill == 0;
  for (cuuint32_t d = 0; d < rank; ++d) plain = plain && steps[d] == 1;
  return tw::record(map, {type, rank, address, shape, strides, box, plain, swizzle}, "");
}

// Windows begin at each `steps` of a dim from its corner `from` on, up to `to` from its end.
extern "C" CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                            const cuuint64_t* shape, const cuuint64_t* strides, const int* from,
                                            const int* to, cuuint32_t channels, cuuint32_t pixels,
                                            const cuuint32_t* steps, CUtensorMapInterleave interleave,
                                            CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                            CUtensorMapFloatOOBfill fill) {
  cuuint32_t box[5] = {channels, 1, 1, 1, 1};
  if (rank < 3 || rank > 5) return tw::record(map, "", "windows of other than one to three dims");
  box[rank - 1] = pixels;
  std::string lists[3];  // extents, steps, elements before the tensor; outermost first
  for (cuuint32_t d = rank - 2; d-- > 0;) {
    const long long step = steps[d + 1], last = static_cast<long long>(shape[d + 1]) + to[d] - from[d] - 1;
    const long long numbers[3] = {last / step + 1, step, -from[d]};
    for (int i = 0; i < 3; ++i) lists[i] += " " + std::to_string(numbers[i]);
  }
  const bool plain = interleave == 0 && fill == 0 && steps[0] == 1 && steps[rank - 1] == 1;
  return tw::record(map, {type, rank, address, shape, strides, box, plain, swizzle}, lists[0] + lists[1] + lists[2]);
}

int main() {
  tw::Problem worlds[2];
  while (tw::read_problem(worlds)) {
    const std::string text = tw::lines_of(worlds) + "end\n";
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = write(0, text.data() + done, text.size() - done);
      if (written <= 0) return 1;
      done += static_cast<size_t>(written);
    }
  }
  return 0;
}
