// cast(x) to the element type named by attribute `to` (string: "f32", "i64", "bool", ..): every pair of types.
// float -> integer truncates, saturates at the type's ends, NaN gives 0; integer -> integer wraps; anything -> bool is
// x != 0; to a float: nearest, ties to even (the reference rounds too: that is what this operator is for).
// bitcast(x) to a type of the same width: the same bits. A bool is a byte of 0 or 1, and any other byte is true.
#include "expr/scalar.h"
#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

DataType target_of(const OpCall& call) {
  const std::string& to = call.node.string_attr("to");
  const auto type = parse_data_type(to);
  require(call, type && !type->is_vector(), "'{}' is not an element type", to);
  return *type;
}

Types infer(const OpCall& call) { return {{target_of(call), call.inputs[0].shape}}; }

Types infer_bitcast(const OpCall& call) {
  const Types types = infer(call);
  const DataType from = call.inputs[0].type;
  require(call, types[0].type.bytes() == from.bytes(), "{} and {} have different widths", to_string(from),
          to_string(types[0].type));
  return types;
}

template <Expr (*convert)(DataType, Expr)>
Tensors te_convert(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const auto element = [&](const Exprs& i) { return convert(target_of(call), inputs[0](i)); };
  return {builder.compute(tensor_name(call), inputs[0].shape, element)};
}

void reference(const OpCall&, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const DataType type = y.type.type;
  for (int64_t i = 0; i < y.type.elements(); ++i) {
    if (y.is_float()) {
      y.floats[i] = x.at(i);
    } else {
      y.ints[i] = x.is_float() ? saturate_to(type.scalar(), x.floats[i]) : graph::wrap_int(x.ints[i], type);
    }
  }
  y.round_to_type();
}

std::vector<RefTensor> reference_bitcast(const OpCall& call, Refs inputs) {
  RefTensor y = RefTensor::from_bytes(infer_bitcast(call)[0], inputs[0].to_bytes());
  if (y.type.type.is_bool()) {
    for (int64_t& value : y.ints) value = value != 0;
  }
  return {std::move(y)};
}

}  // namespace

std::vector<OpDef> cast_ops() {
  return {{"cast", OpClass::kElementwise, infer, te_convert<cast>, filled<infer, reference>},
          {"bitcast", OpClass::kElementwise, infer_bitcast, te_convert<bitcast>, reference_bitcast}};
}

}  // namespace tw::ops
