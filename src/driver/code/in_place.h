// Groups that change a state where it is stored: their kernels write the state's own memory, and read it there.
#pragma once
#include <span>
#include <string>

#include "core/data_type.h"
#include "loop/loop.h"
#include "te/te.h"

namespace tw::driver {

/// How a group does that, seen from its te program.
struct InPlaceTe {
  std::string next;         // output: the state's next value
  std::string before = {};  // input: the state, read at the points that are written; empty: it is not read
  /// Of a slice the program computes the new rows alone. They go into dim `axis` of the state, which has `extent`
  /// elements there, from a row on that the run says: the element of the input `position`, or element i of it for those
  /// whose index in dim `batch` is i.
  std::string position = {};
  DataType position_type = DataType::i64();
  int64_t positions = 1;
  int axis = 0, batch = 0;  // of the storage
  int64_t extent = 0;
  bool is_slice() const { return !position.empty(); }
};

/// One line with all fields.
std::string text_of(const InPlaceTe& in_place);

/// Throws InternalError unless `program`, the group's own, reads the state at the points that it writes only: the rule
/// by which one buffer may be both.
void verify_in_place(const te::Program& program, const InPlaceTe& in_place);

/// The kernels of `program`, before they are lowered, as such of the states. A position is taken as the nearest at
/// which the rows lie inside of the state: pass check-indices reports others.
loop::Program put_in_place(const loop::Program& program, std::span<const InPlaceTe> states);

}  // namespace tw::driver
