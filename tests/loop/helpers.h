// Shared by the tests of loop: programs from text, memory, and the text of an error.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "loop/loop.h"
#include "support/error.h"
#include "tests/harness/loop_interpreter.h"

namespace tw::loop::test {

inline HostBuffer floats(Shape shape, std::vector<double> values, DataType type = DataType::f32()) {
  return {type, std::move(shape), std::move(values), {}};
}
inline HostBuffer ints(Shape shape, std::vector<int64_t> values, DataType type = DataType::i64()) {
  return {type, std::move(shape), {}, std::move(values)};
}

/// Parses, verifies and runs.
inline void run(const std::string& text, Memory& memory) { interpret(parse_program(text), memory); }

/// The message of the InternalError that `action` throws; fails the test when there is none.
template <typename Action>
std::string internal_error(Action&& action) {
  try {
    action();
  } catch (const InternalError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no InternalError";
  return {};
}

/// The same for UserError.
template <typename Action>
std::string user_error(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no UserError";
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define EXPECT_CONTAINS(text, part) \
  EXPECT_TRUE(::tw::loop::test::contains(text, part)) << "'" << (part) << "' is not in: " << (text)

}  // namespace tw::loop::test
