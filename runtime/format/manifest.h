// The manifest of an artefact: what the runtime must know to check and run it. All counts, offsets and sizes are
// non-negative; offsets and sizes are in bytes. An index names a row of the vector that the comment gives.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/format/data_type.h"
#include "runtime/format/hash.h"

namespace tw::format {

/// Versions of the file format: the one that is written, and the oldest that is read, as docs/reference/file-format.md
/// promises.
inline constexpr uint32_t kFormatVersion = 15, kOldestFormat = 14;
/// Throws Error(kIncompatible), which names `what`, for another version than these.
void require_readable(std::string_view what, int64_t version);
/// Largest manifest, in bytes of JSON text.
inline constexpr size_t kMaxManifestBytes = size_t{16} << 20;

enum class TargetKind : uint8_t { kCpu, kCuda };

struct ManifestTarget {
  TargetKind kind = TargetKind::kCpu;
  std::string arch;                   ///< "x86-64-v4", "x86-64-v4+avx512vnni", "sm_90a"
  std::vector<std::string> features;  ///< CPU features by their LLVM names, each of which the machine must have
  friend bool operator==(const ManifestTarget&, const ManifestTarget&) = default;
};

/// Machine code of one kernel. CPU: a function at `offset` of section "code", position independent, that imports
/// nothing, with the signature `KernelFn` of runtime/device/cpu/code_map.h. CUDA: the function `name` of the cubin that
/// fills `section` ("cubin.0", "cubin.1", ...); offset is 0 and bytes is the section's size.
struct Kernel {
  std::string name;
  std::string section;
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

struct TensorSpec {
  std::string name;
  DataType dtype = DataType::kF32;
  std::vector<int64_t> shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// Where a buffer lies. kError is one int32, 0 before each run; a kernel that meets a wrong value (an index out of
/// range) stores a nonzero number there and the run fails with it. kState is a state as the run finds it, kNextState
/// the same memory as the run leaves it: steps that take the one come before all that take the other, and no step takes
/// both. kExtent is one int64, as large as an extent of the entry is in this run, which no step writes.
enum class Place : uint8_t { kArena, kWeights, kInput, kOutput, kError, kState, kNextState, kExtent };

/// Steps [first, first + count) of an entry, which run `turns` times, one turn after the other. Of two repeats one
/// holds the other or they have no step in common; an outer one comes before those within it, else they are in the
/// order of their steps.
struct Repeat {
  int64_t first = 0;
  int64_t count = 1;
  int64_t turns = 1;
  friend bool operator==(const Repeat&, const Repeat&) = default;
};

/// In turn t of `repeat` a buffer lies bytes * ((start + step * t) % period) behind its offset. Forwards through T
/// rows: start 0, step 1, period T; backwards: start T - 1, step T - 1, period T; the row that the turn before wrote,
/// of R rows: start R - 1, step 1, period R.
struct Move {
  int64_t repeat = 0;  ///< of Entry::repeats
  int64_t bytes = 0;
  int64_t start = 0;  ///< less than `period`
  int64_t step = 1;   ///< at most `period`
  int64_t period = 1;
  friend bool operator==(const Move&, const Move&) = default;
};

struct Buffer {
  Place place = Place::kArena;
  int64_t index = 0;   ///< of the input, output, extent or state (Manifest::states) for these places, else 0
  int64_t offset = 0;  ///< from the start of the arena, of section "weights", of the tensor or of the state
  int64_t bytes = 0;
  std::string name;  ///< the value it holds, for people and for `verify`; may be empty
  /// With repeats that hold all steps that take it, the outermost first; their displacements add up.
  std::vector<Move> moves = {};
  /// At most one, of Entry::buffers: where it lies instead in the first turn of the repeat of its last move, for a
  /// value that is carried from turn to turn begins there. That buffer has as many bytes and no `initial` of its own,
  /// and moves with outer repeats only.
  std::vector<int64_t> initial = {};
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// One kernel over tiles [0, tiles), which threads take in contiguous runs, in any order; neither tiles nor what a tile
/// computes depends on the number of threads.
struct CpuStep {
  int64_t kernel = 0;         ///< of Manifest::kernels
  std::vector<int64_t> args;  ///< of Entry::buffers, in the order the kernel expects
  int64_t tiles = 1;
  bool after = true;  ///< all tiles of earlier steps must be finished before any of this one starts
  std::string name;   ///< label for people: the ONNX nodes it computes
  friend bool operator==(const CpuStep&, const CpuStep&) = default;
};

/// The 8 bytes at `offset` of the parameters become the device address of `buffer` plus `addend`.
struct Relocation {
  int64_t offset = 0;
  int64_t buffer = 0;  ///< of Entry::buffers
  int64_t addend = 0;
  friend bool operator==(const Relocation&, const Relocation&) = default;
};

/// Where a convolution's windows lie in the spatial dims of a tensor [images, spatial.., channels]: position p of a
/// dim, one of `extents`, begins at p * step - before.
struct Windows {
  static constexpr int64_t kMaxStep = 8;
  static constexpr size_t kMinRank = 3;
  /// Corners of windows, and places in them, have 16, 8 or 5 bits in tensors of 3, 4 or 5 dims.
  static constexpr int64_t max_corner(size_t rank) { return rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4; }

  std::vector<int64_t> extents, steps, before;  ///< outermost first; empty: there are none
  bool empty() const { return extents.empty(); }
  /// Where the last window of dim `d` begins, from the end of that dim of `extent` elements on.
  int64_t last_corner(size_t d, int64_t extent) const { return (extents[d] - 1) * steps[d] + 1 - before[d] - extent; }
  friend bool operator==(const Windows&, const Windows&) = default;
};

/// The 128 bytes at `offset` of the parameters become the driver's description of the row-major tensor in `buffer` for
/// copies of a `box` of it to shared memory, where its lines, 32, 64 or 128 bytes long, are swizzled (CUDA driver API
/// reference manual, cuTensorMapEncodeTiled). With windows a copy brings the channels of box[0] positions in a row,
/// each at one place in its window (cuTensorMapEncodeIm2col); other extents of the box are 1.
struct TensorMap {
  static constexpr int64_t kBytes = 128, kMaxBox = 256, kMaxRank = 5;
  int64_t offset = 0;
  int64_t buffer = 0;  ///< of Entry::buffers
  DataType dtype = DataType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> box;  ///< extents in each dim, outermost first as in `shape`
  Windows windows = {};
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// A kernel's launch, or the call of a library: then only the last four members are used.
struct CudaStep {
  int64_t kernel = 0;  ///< of Manifest::kernels
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;     ///< dynamic shared memory
  std::vector<uint8_t> params;  ///< the kernel's parameters, one behind the other, before relocation
  /// Where each of them begins. The driver knows where the kernel wants it: cubins align some to absolute addresses.
  std::vector<int64_t> arguments;
  std::vector<Relocation> relocations;
  std::vector<TensorMap> tensor_maps;
  bool overlaps =
      false;  ///< its blocks may start while the last step of `after` runs: they wait for its end themselves
  std::string name;
  std::string call = {};               ///< a LibraryCall (problem.h) as text; empty: a kernel's launch
  std::vector<int64_t> operands = {};  ///< of Entry::buffers, in the order of ProblemDescriptor::operands()
  /// Smaller numbers of steps, in order, that end before this one starts; so have those for which they waited.
  std::vector<int64_t> after = {};
  friend bool operator==(const CudaStep&, const CudaStep&) = default;
};

/// Bytes of a buffer in the arena that are 0 before the first step; no other buffer lies there. Steps that use them
/// leave them 0.
struct Zeros {
  int64_t buffer = 0;  ///< of Entry::buffers
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const Zeros&, const Zeros&) = default;
};

/// Dim `dim` of an input or output has `times` elements for each of an extent.
struct ExtentDim {
  int64_t tensor = 0;  ///< of Entry::inputs or Entry::outputs
  int64_t dim = 0;
  int64_t times = 1;
  friend bool operator==(const ExtentDim&, const ExtentDim&) = default;
};

/// An extent that the inputs of a run say: the shapes of an entry have its bound, and one as small as `least` will do.
/// What the tensors lack then are rows of the runtime's own, which an entry lets reach no others.
struct Extent {
  static constexpr size_t kMost = 8;  ///< of an entry
  std::string name;
  int64_t least = 1;
  int64_t bound = 1;              ///< more than `least`
  std::vector<ExtentDim> inputs;  ///< at least one
  std::vector<ExtentDim> outputs;
  /// Whether each row of the outputs follows from its own of the inputs alone, so that more rows than the bound may run
  /// part by part. All dims are the first ones then.
  bool in_parts = false;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// The program for one target, one function and one combination of input shapes. Exactly one of the step lists is used:
/// the target's.
struct Entry {
  std::string name;
  std::string function;  ///< empty where the model has but one
  int64_t target = 0;    ///< of Manifest::targets
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<Extent> extents;
  int64_t arena_bytes = 0;
  int64_t scratch_bytes_per_thread = 0;
  int64_t flop = 0;  ///< of the sums of products: 2 for each multiply and add
  std::vector<Buffer> buffers;
  std::vector<CpuStep> cpu_steps;
  std::vector<CudaStep> cuda_steps;
  std::vector<Repeat> repeats;  ///< of CUDA steps only if each waits for the one before it
  std::vector<Zeros> zeros;     ///< of CUDA steps; their buffers do not move
  friend bool operator==(const Entry&, const Entry&) = default;
};

/// A tensor that callers see in a state: the elements that lie behind those of the parts before it.
struct StatePart {
  TensorSpec tensor;
  std::vector<int64_t> order = {};  ///< as State::order
  friend bool operator==(const StatePart&, const StatePart&) = default;
};

/// A tensor that is kept from one run to the next. All states lie in one block of memory; section "states",
/// if there is one, is that block before the first run, else it is zero.
struct State {
  static constexpr int64_t kAlignment = 256;  ///< of `offset`
  TensorSpec tensor;                          ///< named as the model's input whose place it takes
  std::string next;                           ///< the model's output that it becomes
  int64_t offset = 0;                         ///< in the block
  /// Its dims from the outermost to the innermost, as it is stored; empty: row-major. Who copies it out or in sees
  /// rows.
  std::vector<int64_t> order = {};
  /// What callers see instead of the state, if there are some: together all of its elements.
  std::vector<StatePart> parts = {};
  friend bool operator==(const State&, const State&) = default;
};

struct Manifest {
  uint32_t format_version = kFormatVersion;  ///< of the file
  std::string producer;                      ///< name and version of the compiler
  /// Whom the artefact is for, the preferred one first: several levels of one CPU architecture, or one GPU
  /// architecture.
  std::vector<ManifestTarget> targets;
  DataType dtype = DataType::kF32;  ///< f32, f16 or bf16: of what the model has in f32, where that keeps its meaning
  bool flushes_subnormals = false;  ///< results below the smallest normal number are zero (CPU)
  std::string graph_hash;           ///< hex, or empty
  std::string plan_hash;            ///< hex, or empty
  std::vector<std::string> notes;
  std::vector<State> states;  ///< of all entries
  std::vector<Kernel> kernels;
  /// Of the first target, then the same functions and combinations of shapes in the same order of the next one, and so
  /// on. Those of a function follow each other.
  std::vector<Entry> entries;

  TargetKind kind() const { return targets.front().kind; }
  /// Entries of each target, of all functions.
  size_t combinations() const { return entries.size() / targets.size(); }
  /// Of the block of states.
  int64_t state_bytes() const;
  /// What callers see: the states, and of those that have parts these as if they were some.
  std::vector<State> seen_states() const;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// What a model does, of different inputs and outputs on the same states and weights: the entries [first, first +
/// count) of a target.
struct Function {
  std::string name;
  size_t first = 0, count = 0;
};
/// At least one, in the order of the entries.
std::vector<Function> functions_of(const Manifest& manifest);

/// What a step takes, of Entry::buffers; some of it perhaps twice.
std::vector<int64_t> buffers_of(const CudaStep& step);
inline const std::vector<int64_t>& buffers_of(const CpuStep& step) { return step.args; }

/// The canonical JSON text: keys sorted, no white space; equal manifests give equal bytes.
std::string to_json(const Manifest& manifest);
/// The same of a step alone.
std::string to_json(const CudaStep& step);
/// Inverse of to_json. Throws Error(kDamaged) for anything else than canonical text of a version that is read: unknown
/// or missing keys, wrong types, negative numbers, duplicate keys, white space.
Manifest manifest_from_json(std::string_view text);

/// Bytes of a compact tensor; throws Error(kDamaged) beyond 2^47.
int64_t tensor_bytes(const TensorSpec& spec);
/// "[1,3,224,224]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace tw::format
