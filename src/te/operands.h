// Operands of sums of products, each a tensor of its own.
#pragma once
#include <vector>

#include "te/te.h"

namespace tw::te {

/// A program of which several inputs may stand for one value.
struct SeparateOperands {
  Program program;
  std::vector<size_t> sources;  // of each input: the input of the original program whose value it takes
};

/// The same program with an input for each operand of a sum of products, where one input was several operands, or an
/// operand and read otherwise, too: the x of x * x, x and the x behind a transpose, keys that are values as well.
/// Schedules store, copy and fetch a tensor, and every operand in its own way. An operand is a factor that does not
/// move with every axis of its sum: what is read once is worth no such thing, and has rows in common with what is read
/// beside it. What only rearranges an operand before the product is repeated for each of them. Inputs keep their
/// order; new ones follow the one whose value they share.
SeparateOperands separate_operands(const Program& program);

}  // namespace tw::te
