// A kernel as the interpreter runs it: names resolved to slots, every node with room for its value. Private to the
// interpreter.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "loop/loop.h"
#include "tests/harness/lane_words.h"
#include "tests/harness/loop_interpreter.h"

namespace tw::loop {

constexpr int64_t kNoTile = -1;
constexpr int64_t kSeveralTiles = -2;

/// One buffer of the kernel and what is known about each of its elements.
struct BufferSlot {
  const Buffer* declared = nullptr;
  Shape strides;             // in elements
  double* floats = nullptr;  // the elements, one of the two: a parameter's memory, or `own`
  int64_t* ints = nullptr;
  HostBuffer own;
  bool is_tracked = false;       // whether any of the following is kept
  std::vector<uint8_t> defined;  // not kParam: whether the element was written since the allocation
  // Written parameters of kernels with several tiles: the tile that wrote or read the element (kNoTile, kSeveralTiles).
  std::vector<int64_t> writer;
  std::vector<int64_t> reader;

  void bind(HostBuffer& host) {
    if (declared->type.is_float()) {
      floats = host.floats.data();
    } else {
      ints = host.ints.data();
    }
  }
};

struct Node;

/// A loop's variable or a named value. Those of outer scopes change only before it does.
struct Var {
  std::vector<Word> lanes;
  size_t depth = 0;      // variables declared before it
  uint64_t changed = 0;  // when it got its value
};

/// buffer[indices] of a load or store.
struct Access {
  BufferSlot* slot = nullptr;
  std::vector<Node*> indices;
  std::vector<size_t> scalar_dims;   // dimensions whose index is one number
  std::vector<size_t> vector_dims;   // the others
  std::vector<Word> scalars;         // of each dimension: the index just evaluated
  std::vector<const Word*> vectors;  // of each dimension: the lanes of the index just evaluated; null for scalars
  std::vector<int64_t> offsets;      // of each lane, in elements
};

/// One operation. What reads no memory is evaluated once for each value of its innermost variable, a shared node, which
/// several operations of a statement use, once in each statement; a vector lane by lane, as far as lanes are wanted.
struct Node {
  Op op;
  ScalarType type;  // of a lane of the result
  ScalarType from;  // of a lane of the first operand
  int lanes = 1;
  bool shared = false;
  const Var* innermost = nullptr;               // of a node that reads no memory; null: it does
  uint64_t stamp = 0;                           // shared: since when `value`, or `out` as far as `done`, holds
  int64_t lane = 0;                             // kExtract
  Word value = {0};                             // scalars
  std::vector<Word> out;                        // vectors
  std::vector<Node*> args;                      // without the indices and predicate of a load
  const Word* var = nullptr;                    // kVar
  double (*function)(const double*) = nullptr;  // kCall
  Access access;                                // kLoad
  Node* predicate = nullptr;                    // kLoad
  std::vector<uint8_t> active;                  // vector kLoad, kSelect: lanes that are read or picked
  std::vector<uint8_t> done;                    // shared vectors: lanes evaluated
  std::vector<uint8_t> missing;                 // shared vectors: lanes being evaluated
  std::vector<uint8_t> others;                  // vector kSelect: lanes that pick the other operand
};

/// One statement; blocks are dissolved, prefetches dropped.
struct Step {
  const StmtNode* stmt = nullptr;
  Var* var = nullptr;  // kFor, kLet
  Node* value = nullptr;
  Node* predicate = nullptr;
  Access access;                    // kStore
  std::vector<uint8_t> active;      // kStore: lanes that are written
  BufferSlot* allocated = nullptr;  // kAllocate
  std::vector<Step> body;
  std::vector<Step> otherwise;
};

/// Owns all that its steps point to.
struct Code {
  std::deque<Node> nodes;
  std::deque<BufferSlot> buffers;
  std::deque<Var> vars;
  Var* tile_var = nullptr;
  std::vector<Step> steps;
};

/// Resolves the names of a verified kernel; parameters are bound to `memory`. Throws InternalError when a parameter is
/// missing there or has another type or number of elements.
std::unique_ptr<Code> resolve(const Kernel& kernel, Memory& memory);

}  // namespace tw::loop
