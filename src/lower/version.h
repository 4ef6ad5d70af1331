// Version of what happens to a te program and its schedule before code generation.
#pragma once

namespace tw::lower {

/// Counts up when equal te programs, layouts and schedules may give other loops than before: a change of te rewriting,
/// of a primitive, of a loop pass. Times that were measured under another number are measured anew, so it stays where
/// no generated code changes. tests/versions says when it must change.
inline constexpr int kLoweringVersion = 9;

}  // namespace tw::lower
