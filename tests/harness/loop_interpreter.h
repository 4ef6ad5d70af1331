// The oracle: runs loop IR slowly and obviously, with every index checked.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace tw::loop {

/// The elements of one buffer: floats are kept exactly as their type would hold them, integers in `ints`.
struct HostBuffer {
  DataType type;
  Shape shape;
  std::vector<double> floats;
  std::vector<int64_t> ints;
};
using Memory = std::map<std::string, HostBuffer>;

/// Runs all kernels in order on `memory`, which holds every parameter by name. Each operation rounds to its type as the
/// target would. Throws InternalError naming kernel, statement and index on an access outside a buffer, on a read of
/// an element of scratch, stack or register scope that was never written, or when two tiles write one element.
void interpret(const Program& program, Memory& memory);

}  // namespace tw::loop
