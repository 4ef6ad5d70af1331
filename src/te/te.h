// Tensor expressions: the maths of one fused group, without any order of execution.
//
// A Program has placeholders (inputs) and computes in topological order. A compute defines, for all indices of its
// axes,
//   out[axes] = body                                     without reduction axes
//   out[axes] = combine over reduce_axes of body         with them, starting from the identity
// A reduction over a tuple (argmax: value and index; Welford) has several bodies and writes several tensors. Members
// may have the first of the axes only: what they are does not depend on the others (the maximum and the sum of a row
// beside the row's weighted values).
// Tensors are named; names are unique in a program. An Expr reads a tensor with a kLoad of its name.
// A body may read its tensors only at indices inside their shape for every point of the axes, unless guarded by a
// select.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data_type.h"
#include "core/layout.h"
#include "core/shape.h"
#include "expr/expr.h"

namespace tw::te {

using tw::to_string;  // te's own overload would hide those of shapes and layouts

struct Tensor {
  std::string name;
  DataType type;
  Shape shape;

  /// Reads one element.
  Expr operator()(std::vector<Expr> indices) const { return load(name, type, std::move(indices)); }
};

struct Axis {
  std::string name;  // also the name of its variable; unique within the compute
  int64_t extent;
  Expr var() const { return tw::var(name); }
};

/// Axes of the extents of `shape`: i0, i1, .. with the prefix 'i'.
std::vector<Axis> make_axes(char prefix, const Shape& shape);
std::vector<Expr> variables(const std::vector<Axis>& axes);
std::vector<std::string> axis_names(const std::vector<Axis>& axes);
Shape shape_of(const std::vector<Axis>& axes);
/// The product of their extents.
int64_t num_points(const std::vector<Axis>& axes);

enum class CombinerKind : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kTuple };

/// Associative combination of two partial results. kTuple: `lhs`/`rhs` name the variables that `result` uses.
struct Combiner {
  CombinerKind kind = CombinerKind::kSum;
  std::vector<Expr> identity;         // one for each output
  std::vector<std::string> lhs, rhs;  // kTuple only
  std::vector<Expr> result;           // kTuple only
  /// The combination of two values of a combiner that is not kTuple.
  Expr combine(const Expr& a, const Expr& b) const;
};

struct Compute {
  std::vector<Tensor>
      outputs;  // of the extents of `axes`; members of a tuple behind the first: of the first ones of them
  std::vector<Axis> axes;
  std::vector<Axis> reduce_axes;
  std::vector<Expr> body;  // one for each output
  Combiner combiner;       // used when reduce_axes is not empty
  Expr needed;  // of a reduction: where this is false a point changes nothing, and may be left out; null: all
  const std::string& name() const { return outputs.front().name; }
  bool is_reduction() const { return !reduce_axes.empty(); }
};

struct Program {
  std::string name;
  std::vector<Tensor> inputs;
  std::vector<Compute> computes;     // producers before consumers
  std::vector<std::string> outputs;  // names of tensors that leave the group

  const Compute* find_compute(const std::string& tensor) const;
  const Tensor& tensor(const std::string& name) const;  // input or compute output; InternalError when unknown
  bool is_output(const std::string& tensor) const;
};

// ---- Building.
/// Collects the computes of a program; gives every tensor a unique name derived from the wanted one.
class Builder {
 public:
  Tensor placeholder(const std::string& name, DataType type, const Shape& shape);

  using Body = std::function<Expr(const std::vector<Expr>& i)>;
  /// out[i] = body(i).
  Tensor compute(const std::string& name, const Shape& shape, const Body& body);

  using ReduceBody = std::function<Expr(const std::vector<Expr>& i, const std::vector<Expr>& r)>;
  /// out[i] = combine over r in reduce_shape of body(i, r). Source of names: axes i0.., reduction axes r0...
  Tensor reduce(const std::string& name, const Shape& shape, const Shape& reduce_shape, CombinerKind kind,
                const ReduceBody& body);

  using TupleBody = std::function<std::vector<Expr>(const std::vector<Expr>& i, const std::vector<Expr>& r)>;
  /// A reduction over tuples; `combiner` states identity, variables and result.
  std::vector<Tensor> reduce_tuple(const std::vector<std::string>& names, const Shape& shape, const Shape& reduce_shape,
                                   const Combiner& combiner, const TupleBody& body);

  /// What has been computed so far.
  const std::vector<Compute>& computes() const { return program_.computes; }
  /// The program so far, with the given tensors as outputs.
  Program finish(std::string name, const std::vector<Tensor>& outputs);

 private:
  std::string unique(const std::string& name);
  std::vector<std::string> names_;
  Program program_;
};

/// The combiner of a commutative operation: kAdd, kMul, kMin, kMax, kAnd, kOr; nothing for any other.
std::optional<CombinerKind> combiner_of(Op op);
/// The inverse; InternalError for kTuple.
Op op_of(CombinerKind kind);
/// Neutral element of a combiner for a type (0, 1, +-inf or the integer ends).
Expr identity_of(CombinerKind kind, DataType type);

// ---- Checking and text.
/// Throws InternalError at the first broken rule: unknown tensors, types, ranks, order, duplicate names.
void verify(const Program& program);
std::string to_string(const Program& program);
/// Inverse of to_string. Throws UserError with line and column.
Program parse_program(std::string_view text);

}  // namespace tw::te
