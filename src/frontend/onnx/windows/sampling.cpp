#include "frontend/onnx/windows/sampling.h"

namespace tw::frontend {

ValueId weighted_pixels(Emitter& e, ValueId pixels, const Neighbour& at) {
  const Shape x = e.shape(pixels);
  const int64_t points = e.shape(at.index)[1];
  const ValueId where = e.expand(e.reshape(at.index, {x[0], 1, points}), {x[0], x[1], points});
  const ValueId value = e.op("gather_elements", {pixels, where}, {{"axis", int64_t{2}}});
  return e.mul(value, e.cast(e.reshape(at.weight, {x[0], 1, points}), e.data_type(value)));
}

Neighbour crossed(Emitter& e, const Neighbour& row, const Neighbour& column, int64_t columns) {
  const ValueId first = e.mul(row.index, e.number(row.index, static_cast<double>(columns)));
  return {e.add(first, column.index), e.mul(row.weight, column.weight)};
}

std::array<Neighbour, 2> linear_neighbours(Emitter& e, ValueId coordinate, int64_t extent) {
  const ValueId below = e.op("floor", {coordinate});
  const ValueId part = e.sub(coordinate, below);
  const ValueId low = e.cast(below, DataType::i64());
  const ValueId high = e.op("clip", {e.add(low, e.number(low, 1))}, {{"min", int64_t{0}}, {"max", extent - 1}});
  return {Neighbour{low, e.sub(e.number(part, 1), part)}, Neighbour{high, part}};
}

Neighbour zero_outside(Emitter& e, ValueId coordinate, ValueId weight, int64_t extent) {
  const double last = static_cast<double>(extent - 1);
  const ValueId inside = e.op("and", {e.op("greater_equal", {coordinate, e.number(coordinate, 0)}),
                                      e.op("less_equal", {coordinate, e.number(coordinate, last)})});
  const ValueId index = e.op("clip", {coordinate}, {{"min", 0.0}, {"max", last}});
  return {e.cast(index, DataType::i64()), e.where(inside, weight, e.number(weight, 0))};
}

}  // namespace tw::frontend
