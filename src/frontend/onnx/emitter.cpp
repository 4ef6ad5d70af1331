#include "frontend/onnx/emitter.h"

#include <algorithm>

#include "frontend/onnx/file/tensor_data.h"
#include "graph/stacked_rows.h"
#include "support/error.h"

namespace tw::frontend {

using Id = Emitter::Id;

Emitter::Ids Emitter::apply(std::string_view op, Ids inputs, graph::Attrs attrs) {
  graph::Node node{.op = std::string(op), .name = name_, .attrs = std::move(attrs), .inputs = std::move(inputs)};
  return builder_.append(std::move(node), fmt::format("{}/{}", name_, op));
}

Id Emitter::op(std::string_view op, Ids inputs, graph::Attrs attrs) {
  return apply(op, std::move(inputs), std::move(attrs)).at(0);
}

Id Emitter::constant(const graph::RefTensor& tensor) { return builder_.add_constant(name_ + "/constant", tensor); }

Id Emitter::scalar(double value, DataType type) {
  graph::RefTensor tensor = graph::RefTensor::zeros({type, {}});
  if (tensor.is_float()) {
    tensor.floats[0] = value;
  } else {
    tensor.ints[0] = saturate_to(type.scalar(), value);  // 2^63 is what the largest i64 is as a double
  }
  tensor.round_to_type();
  return constant(tensor);
}

Id Emitter::int_list(const std::vector<int64_t>& values) {
  graph::RefTensor list = graph::RefTensor::zeros({DataType::i64(), {static_cast<int64_t>(values.size())}});
  list.ints = values;
  return constant(list);
}

Id Emitter::filled(double value, TensorType type) { return expand(scalar(value, type.type), type.shape); }

Id Emitter::cast(Id x, DataType type) {
  if (data_type(x) == type) return x;
  return op("cast", {x}, {{"to", to_string(type)}});
}

Id Emitter::copy(Id x) { return op("identity", {x}); }

Id Emitter::reshape(Id x, const Shape& target) {
  if (shape(x) == target) return x;
  check_extents(target, "the new shape");
  return op("reshape", {x}, {{"shape", target}});
}

Id Emitter::unsqueeze(Id x, int64_t axis) {
  Shape target = shape(x);
  target.insert(target.begin() + axis, 1);
  return reshape(x, target);
}

Id Emitter::transpose(Id x, const std::vector<int64_t>& perm) {
  if (std::ranges::is_sorted(perm)) return x;
  return op("transpose", {x}, {{"perm", perm}});
}

Id Emitter::expand(Id x, const Shape& target) {
  if (shape(x) == target) return x;
  check_extents(target, "the new shape");
  return op("expand", {x}, {{"shape", target}});
}

Id Emitter::concat(const Ids& parts, int64_t axis) { return graph::StackedRows(*this).concat(parts, axis); }

Id Emitter::slice(Id x, const std::vector<Range>& ranges) {
  const size_t rank = shape(x).size();
  std::vector<int64_t> starts(rank, 0), steps(rank, 1);
  std::vector<int64_t> extents = shape(x);
  bool whole = true;
  for (const Range& r : ranges) {
    whole = whole && r.step == 1 && r.start == 0 && r.extent == extents[r.axis];
    starts[r.axis] = r.start;
    steps[r.axis] = r.step;
    extents[r.axis] = r.extent;
  }
  if (whole) return x;
  return op("slice", {x}, {{"starts", starts}, {"steps", steps}, {"extents", extents}});
}

Emitter::Ids Emitter::rows(Id x, int64_t axis) { return graph::StackedRows(*this).rows(x, axis); }

Id Emitter::pad(Id x, const std::vector<int64_t>& pads, const std::string& mode, graph::Attr value) {
  if (std::ranges::all_of(pads, [](int64_t p) { return p == 0; })) return x;
  return op("pad", {x}, {{"pads", pads}, {"mode", mode}, {"value", std::move(value)}});
}

Id Emitter::gather(Id data, Id indices, int64_t axis) { return op("gather", {data, indices}, {{"axis", axis}}); }

Id Emitter::reduce(std::string_view name, Id x, const std::vector<int64_t>& axes, KeepDims keep) {
  return op(name, {x}, {{"axes", axes}, {"keepdims", int64_t{keep == KeepDims::kYes}}});
}

Id Emitter::softmax(Id x, int64_t axis) { return op("softmax", {x}, {{"axis", axis}}); }

}  // namespace tw::frontend
