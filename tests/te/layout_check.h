// A program under layouts against the program itself.
#pragma once
#include <map>
#include <string>

#include "te/rewrite.h"
#include "tests/te/samples.h"

namespace tw::te::samples {

using Layouts = std::map<std::string, Layout>;

/// Rewrites `program` to `layouts` and compares its outputs with those of the original brought into their layouts,
/// padding included. False, and nothing compared, where a kUnfold is refused for the windows of a reader.
bool check(const Program& program, const Layouts& layouts, const PadFills& fills, Random& random);

/// Random layouts for most tensors; with padding, windows may be unfolded and inputs attached to others.
Layouts random_layouts(const Program& program, Random& random, Padding padding);

}  // namespace tw::te::samples
