#include <algorithm>
#include <cctype>
#include <limits>

#include "expr/scalar.h"
#include "support/error.h"
#include "te/te.h"

namespace tw::te {
namespace {

// Of CombinerKind, in its order.
constexpr Op kOps[] = {Op::kAdd, Op::kMul, Op::kMin, Op::kMax, Op::kAnd, Op::kOr};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Smallest (or largest) value of a type; 64 unsigned bits are all ones, kept in the immediate's two's complement.
Expr end_of(DataType type, bool largest) {
  if (type.is_float()) return float_imm(largest ? kInfinity : -kInfinity, type);
  if (type.is_bool()) return int_imm(largest ? 1 : 0, type);
  return int_imm(saturate_to(type.scalar(), largest ? kInfinity : -kInfinity), type);
}

// Names appear in the text form and in generated code: letters, digits and underscores only.
std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out.front()))) out.insert(out.begin(), '_');
  return out;
}

}  // namespace

std::optional<CombinerKind> combiner_of(Op op) {
  const auto* found = std::ranges::find(kOps, op);
  if (found == std::end(kOps)) return std::nullopt;
  return static_cast<CombinerKind>(found - kOps);
}

Op op_of(CombinerKind kind) {
  TW_CHECK(kind != CombinerKind::kTuple, "a tuple combiner combines through its result expressions");
  return kOps[static_cast<size_t>(kind)];
}

Expr identity_of(CombinerKind kind, DataType type) {
  switch (kind) {
    case CombinerKind::kSum:
      return imm(type, 0);
    case CombinerKind::kProd:
      return imm(type, 1);
    case CombinerKind::kMin:
      return end_of(type, true);
    case CombinerKind::kMax:
      return end_of(type, false);
    case CombinerKind::kOr:
      return int_imm(0, type);
    case CombinerKind::kAnd:
      return type.is_bool() || type.is_unsigned_int() ? end_of(type, true) : int_imm(-1, type);
    case CombinerKind::kTuple:
      break;
  }
  throw InternalError("a tuple combiner states its own identity");
}

Expr Combiner::combine(const Expr& a, const Expr& b) const { return binary(op_of(kind), a, b); }

const Compute* Program::find_compute(const std::string& tensor) const {
  const auto found = std::ranges::find_if(computes, [&](const Compute& compute) {
    return std::ranges::find(compute.outputs, tensor, &Tensor::name) != compute.outputs.end();
  });
  return found == computes.end() ? nullptr : &*found;
}

const Tensor& Program::tensor(const std::string& name) const {
  if (const auto t = std::ranges::find(inputs, name, &Tensor::name); t != inputs.end()) return *t;
  if (const Compute* compute = find_compute(name)) return *std::ranges::find(compute->outputs, name, &Tensor::name);
  throw InternalError("te program '{}' has no tensor '{}'", this->name, name);
}

bool Program::is_output(const std::string& tensor) const { return std::ranges::find(outputs, tensor) != outputs.end(); }

std::string Builder::unique(const std::string& name) {
  const std::string base = identifier(name);
  std::string candidate = base;
  for (int n = 1; std::ranges::find(names_, candidate) != names_.end(); ++n) {
    candidate = fmt::format("{}_{}", base, n);
  }
  names_.push_back(candidate);
  return candidate;
}

Tensor Builder::placeholder(const std::string& name, DataType type, const Shape& shape) {
  program_.inputs.push_back({unique(name), type, shape});
  return program_.inputs.back();
}

Tensor Builder::compute(const std::string& name, const Shape& shape, const Body& body) {
  const auto bodies = [&](const std::vector<Expr>& i, const std::vector<Expr>&) { return std::vector<Expr>{body(i)}; };
  return reduce_tuple({name}, shape, {}, {}, bodies)[0];
}

Tensor Builder::reduce(const std::string& name, const Shape& shape, const Shape& reduce_shape, CombinerKind kind,
                       const ReduceBody& body) {
  TW_CHECK(kind != CombinerKind::kTuple, "a tuple reduction is built by reduce_tuple");
  Combiner combiner;
  combiner.kind = kind;
  const auto bodies = [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
    const Expr term = body(i, r);
    combiner.identity = {identity_of(kind, term.type())};  // the type of a term is known when it is made
    return std::vector<Expr>{term};
  };
  return reduce_tuple({name}, shape, reduce_shape, combiner, bodies)[0];
}

std::vector<Tensor> Builder::reduce_tuple(const std::vector<std::string>& names, const Shape& shape,
                                          const Shape& reduce_shape, const Combiner& combiner, const TupleBody& body) {
  Compute compute;
  compute.axes = make_axes('i', shape);
  compute.reduce_axes = make_axes('r', reduce_shape);
  compute.body = body(variables(compute.axes), variables(compute.reduce_axes));
  compute.combiner = combiner;
  TW_CHECK(compute.body.size() == names.size(), "tuple reduction of {} bodies and {} names", compute.body.size(),
           names.size());
  for (size_t k = 0; k < names.size(); ++k) {
    compute.outputs.push_back({unique(names[k]), compute.body[k].type(), shape});
  }
  program_.computes.push_back(compute);
  return compute.outputs;
}

Program Builder::finish(std::string name, const std::vector<Tensor>& outputs) {
  Program program = program_;
  program.name = identifier(name);
  for (const Tensor& output : outputs) program.outputs.push_back(output.name);
  verify(program);
  return program;
}

}  // namespace tw::te
