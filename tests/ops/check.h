// Runs one operator both ways: its te program through the te evaluator and its f64 reference, on seeded random inputs.
#pragma once
#include <string>
#include <vector>

#include "graph/op.h"

namespace tw::ops::test {

using graph::Attr;
using graph::Attrs;
using graph::RefTensor;
using Ints = std::vector<int64_t>;

TensorType f32(Shape shape);
TensorType f16(Shape shape);
TensorType i32(Shape shape);
TensorType i64(Shape shape);
TensorType u8(Shape shape);
TensorType i8(Shape shape);
TensorType boolean(Shape shape);

/// Values of random inputs.
struct Range {
  double low = -2, high = 2;  // floats uniform; integers too, rounded
};

struct Case {
  std::string op;
  std::vector<TensorType> inputs;  // an input of no shape and type bool named absent() is left out
  Attrs attrs = {};
  std::vector<Range> ranges = {};  // by input; the last one (or the default) for the rest
  double tolerance = 2e-6;         // relative and absolute; immediates of te are f32
};

/// Marks an optional input that is not given.
TensorType absent();

/// The graph of the single node of `c`, verified; UserError when the types do not fit.
graph::Graph single(const Case& c);
/// Runs `c` on random inputs both ways, compares every output and the text round trip, and the same with one value as
/// each two inputs of one type and range; failures are GoogleTest failures.
void check(const Case& c);
/// The reference's outputs for the given inputs, after the same comparison.
std::vector<RefTensor> run(const Case& c, const std::vector<RefTensor>& inputs);

/// Tensors of given elements.
RefTensor floats(Shape shape, std::vector<double> values);
RefTensor ints(DataType type, Shape shape, std::vector<int64_t> values);

}  // namespace tw::ops::test
