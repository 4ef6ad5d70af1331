#include "transform/rewrite/row_masks.h"

#include <cmath>

#include "support/error.h"
#include "transform/editor.h"

namespace tw::transform {

void RowMasks::append(Node node, const RowsOfNode& rows) {
  for (const RowsOfNode::Fill& fill : rows.fills)
    node.inputs[fill.input] = filled(node.inputs[fill.input], fill.rows, fill.number);
  if (rows.last) node = at_last(std::move(node), *rows.last);
  if (!rows.mean_of.empty()) return append_mean(std::move(node), rows.mean_of);
  out_.nodes.push_back(std::move(node));
}

ValueId RowMasks::emit(const std::string& name, const std::string& op, std::vector<ValueId> inputs,
                       graph::Attrs attrs) {
  return graph::append_node(out_, ops_,
                            {.op = op, .name = name, .attrs = std::move(attrs), .inputs = std::move(inputs)})[0];
}

ValueId RowMasks::constant(const std::string& name, const graph::RefTensor& elements) {
  return out_.add_constant(name, elements.type, bytes_of(elements));
}

// `id` with `number` in the rows that hold nothing.
ValueId RowMasks::filled(ValueId id, const LiveRows& rows, double number) {
  const graph::Value& value = out_.value(id);
  const std::string name = value.name + " (rows)";
  graph::RefTensor other = graph::RefTensor::zeros({value.type.type, {}});
  if (!other.is_float() && !std::isfinite(number))
    throw Unsupported("'{}', of which rows hold nothing, is {}", value.name, to_string(value.type));
  if (other.is_float()) other.floats[0] = number;
  if (!other.is_float()) other.ints[0] = static_cast<int64_t>(number);
  const ValueId live = is_live(rows, Shape(value.type.shape));
  return emit(name, "where", {live, id, constant(name, other)});
}

// Whether the row is less than the length, beside a value of `shape`. Numbers of 32 bits are compared several at a
// time.
ValueId RowMasks::is_live(const LiveRows& rows, const Shape& shape) {
  const DataType type = shape[rows.dim] <= INT32_MAX ? DataType::i32() : DataType::i64();
  graph::RefTensor places = graph::RefTensor::zeros({type, Shape(shape.size() - rows.dim, 1)});
  places.type.shape[0] = shape[rows.dim];
  places.ints.resize(static_cast<size_t>(shape[rows.dim]));
  for (size_t i = 0; i < places.ints.size(); ++i) places.ints[i] = static_cast<int64_t>(i) / rows.inner % rows.extent;
  ValueId length = length_(rows.length);
  if (type != DataType::i64()) length = emit("length", "cast", {length}, {{"to", to_string(type)}});
  return emit("live", "less", {constant("places", places), length});
}

// By what a mean over all rows is less than that over those that hold something, where the others are zeros.
ValueId RowMasks::share_of(const RowsOfValue& rows, DataType type) {
  graph::RefTensor all = graph::RefTensor::zeros({DataType::i64(), {}});
  all.ints[0] = 1;
  ValueId live = kAbsent;
  for (const LiveRows& r : rows) {
    all.ints[0] *= r.extent;
    const ValueId length = length_(r.length);
    live = live == kAbsent ? length : emit("rows", "mul", {live, length});
  }
  const auto in_type = [&](ValueId id) { return emit("rows", "cast", {id}, {{"to", to_string(type)}}); };
  const ValueId share = emit("rows", "div", {in_type(constant("all rows", all)), in_type(live)});
  return emit("rows", "reshape", {share}, {{"shape", Shape()}});
}

// A slice or a gather of one row, which becomes the last one that holds something.
Node RowMasks::at_last(Node node, const LiveRows& rows) {
  graph::RefTensor one = graph::RefTensor::zeros({DataType::i64(), {1}});
  one.ints[0] = 1;
  const ValueId index = emit("last", "sub", {length_(rows.length), constant("one", one)});
  if (node.op == "gather") {
    node.inputs[1] = emit("last", "reshape", {index}, {{"shape", Shape(out_.value(node.inputs[1]).type.shape)}});
    return node;
  }
  Ints starts = node.ints_attr("starts");
  starts[rows.dim] = 0;
  node.attrs["starts"] = starts;
  node.inputs[0] = emit("last row", "gather", {node.inputs[0], index}, {{"axis", static_cast<int64_t>(rows.dim)}});
  return node;
}

void RowMasks::append_mean(Node node, const RowsOfValue& rows) {
  const ValueId mean = node.outputs[0];
  const ValueId share = share_of(rows, out_.value(mean).type.type);
  const std::string name = node.name;
  node.outputs.clear();
  const ValueId less = graph::append_node(out_, ops_, std::move(node))[0];
  out_.nodes.push_back({.op = "mul", .name = name, .inputs = {less, share}, .outputs = {mean}});
}

}  // namespace tw::transform
