// A loop inside of an entry: the steps of its body come once, and buffers say where they lie in each turn.
#pragma once
#include <map>
#include <vector>

#include "graph/repeat.h"
#include "runtime/format/manifest.h"

namespace tw::driver {

/// Where a buffer in the arena lies that has no place of its own: in another one, from `offset` on.
struct Within {
  int64_t whole = 0;  // of Entry::buffers
  int64_t offset = 0;
};

/// What an entry gives a loop: of its Entry::buffers those of the inputs and outputs of its node.
struct LoopPorts {
  graph::Repeat repeat;
  std::vector<int64_t> inputs, outputs;
};

struct EmbeddedLoop {
  int64_t arena = -1;                           // buffer that keeps the room of the body's arena; -1: it needs none
  std::vector<std::vector<int64_t>> step_args;  // of the body's steps, as buffers of the entry
  std::map<int64_t, Within> within;             // of the buffers that were added
};

/// Adds `body`, placed as an entry of its own, to `entry`: a repeat (and those of loops inside of the body), its
/// buffers with one for its arena, and its steps, each behind the one before. Pre: no loop inside of the body reads
/// what this one carries.
EmbeddedLoop embed_loop(const format::Entry& body, const LoopPorts& ports, format::Entry& entry);

}  // namespace tw::driver
