#include "graph/gradient.h"

#include <algorithm>

#include "support/error.h"
#include "support/join.h"

namespace tw::graph {

TensorType Term::type() const { return builder_->value(id_).type; }

Term Term::number(double value) const {
  RefTensor one = RefTensor::zeros({element(), {}});
  if (one.is_float()) {
    one.floats[0] = value;
  } else {
    one.ints[0] = static_cast<int64_t>(value);
  }
  return builder_->constant(one);
}

Terms GradientBuilder::emit(std::string_view op, const Terms& inputs, Attrs attrs) {
  Node node{.op = std::string(op), .name = name_ + ".grad", .attrs = std::move(attrs)};
  node.inputs = mapped(inputs, &Term::id);
  return mapped(append_node(graph_, ops_, std::move(node), &names_), [&](ValueId id) { return term(id); });
}

Term GradientBuilder::constant(const RefTensor& elements) {
  return term(graph_.add_constant(name_ + ".grad", elements.type, share(elements.to_bytes()), &names_));
}

Term GradientBuilder::integers(const std::vector<int64_t>& elements) {
  return constant({{DataType::i64(), {std::ssize(elements)}}, {}, elements});
}

Term GradientBuilder::filled(double number, TensorType type) {
  return expand(constant({{type.type, {}}, {number}, {}}), type.shape);
}

Term emit(std::string_view op, const Terms& inputs, Attrs attrs) {
  const auto first = std::ranges::find_if(inputs, [](const Term& x) { return static_cast<bool>(x); });
  TW_CHECK(first != inputs.end(), "a term '{}' of nothing", op);
  return first->builder().emit(op, inputs, std::move(attrs))[0];
}

Term operator+(const Term& a, const Term& b) { return emit("add", {a, b}); }
Term operator-(const Term& a, const Term& b) { return emit("sub", {a, b}); }
Term operator*(const Term& a, const Term& b) { return emit("mul", {a, b}); }
Term operator/(const Term& a, const Term& b) { return emit("div", {a, b}); }
Term operator+(const Term& a, double b) { return a + a.number(b); }
Term operator-(const Term& a, double b) { return a - a.number(b); }
Term operator*(const Term& a, double b) { return a * a.number(b); }
Term operator/(const Term& a, double b) { return a / a.number(b); }
Term operator-(double a, const Term& b) { return b.number(a) - b; }
Term operator-(const Term& a) { return emit("neg", {a}); }

Term sum_of(const Term& a, const Term& b) { return !a ? b : !b ? a : a + b; }

Term where(const Term& condition, const Term& a, const Term& b) { return emit("where", {condition, a, b}); }
Term where(const Term& condition, const Term& a, double b) { return where(condition, a, a.number(b)); }
Term where(const Term& condition, double a, const Term& b) { return where(condition, b.number(a), b); }
Term compare(std::string_view op, const Term& a, double b) { return emit(op, {a, a.number(b)}); }

Term cast(const Term& x, DataType type) {
  return x.element() == type ? x : emit("cast", {x}, {{"to", to_string(type)}});
}

Term widened(const Term& x) {
  const bool narrow = x.element() == DataType::f16() || x.element() == DataType::bf16();
  return narrow ? cast(x, DataType::f32()) : x;
}

Term reshape(const Term& x, const Shape& shape) {
  return x.shape() == shape ? x : emit("reshape", {x}, {{"shape", shape}});
}

Term transpose(const Term& x, const std::vector<int64_t>& perm) { return emit("transpose", {x}, {{"perm", perm}}); }

Term expand(const Term& x, const Shape& shape) {
  return x.shape() == shape ? x : emit("expand", {x}, {{"shape", shape}});
}

Term pad(const Term& x, const std::vector<int64_t>& pads) {
  return all_are(pads, 0) ? x : emit("pad", {x}, {{"pads", pads}});
}

Term part(const Term& x, int64_t axis, int64_t start, int64_t extent) {
  Shape starts(x.rank(), 0), extents = x.shape();
  if (start == 0 && extents[axis] == extent) return x;
  starts[axis] = start;
  extents[axis] = extent;
  return emit("slice", {x}, {{"starts", starts}, {"steps", Shape(x.rank(), 1)}, {"extents", extents}});
}

namespace {

Term reduced(std::string_view op, const Term& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : emit(op, {x}, {{"axes", axes}, {"keepdims", int64_t{1}}});
}

}  // namespace

Term sum(const Term& x, const std::vector<int64_t>& axes) { return reduced("reduce_sum", x, axes); }
Term mean(const Term& x, const std::vector<int64_t>& axes) { return reduced("reduce_mean", x, axes); }

Term sum_to(const Term& x, const Shape& shape) {
  const Shape from = x.shape();
  TW_CHECK(from.size() >= shape.size(), "a gradient of shape {} for {}", tw::to_string(from), tw::to_string(shape));
  const size_t more = from.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t d = 0; d < from.size(); ++d) {
    if (d < more ? from[d] != 1 : shape[d - more] == 1 && from[d] != 1) axes.push_back(static_cast<int64_t>(d));
  }
  return reshape(sum(x, axes), shape);
}

Term along(const Term& x, int64_t axis, size_t rank) {
  Shape shape(rank, 1);
  shape[axis] = x.type().elements();
  return reshape(x, shape);
}

}  // namespace tw::graph
