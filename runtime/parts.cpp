#include "runtime/parts.h"

namespace tw::runtime {

PartOfTensors::PartOfTensors(const EntryShapes& shapes, size_t extent, const DLTensor* inputs, const DLTensor* outputs)
    : inputs_(side_of(shapes, TensorRole::kInput, extent, inputs)),
      outputs_(side_of(shapes, TensorRole::kOutput, extent, outputs)) {}

PartOfTensors::Side PartOfTensors::side_of(const EntryShapes& shapes, TensorRole role, size_t extent,
                                           const DLTensor* tensors) {
  const format::Entry& entry = shapes.entry();
  const size_t count = (role == TensorRole::kInput ? entry.inputs : entry.outputs).size();
  const format::Extent& along = entry.extents[extent];
  Side side;
  side.tensors.assign(tensors, tensors + count);
  side.row_bytes.resize(count);
  side.times.resize(count);
  for (size_t t = 0; t < count; ++t) {
    side.shapes.push_back(shapes.shape(role, t));
    side.begin.push_back(tensors[t].byte_offset);
    side.tensors[t].shape = side.shapes[t].data();
  }
  for (const format::ExtentDim& row : role == TensorRole::kInput ? along.inputs : along.outputs) {
    const auto t = static_cast<size_t>(row.tensor);
    side.times[t] = row.times;
    side.row_bytes[t] = shapes.bytes(role, t) / shapes.extents()[extent];
  }
  return side;
}

void PartOfTensors::take(Side& side, int64_t first, int64_t count) {
  for (size_t t = 0; t < side.tensors.size(); ++t) {
    if (side.times[t] == 0) continue;
    side.shapes[t][0] = count * side.times[t];
    side.tensors[t].byte_offset = side.begin[t] + static_cast<uint64_t>(first * side.row_bytes[t]);
  }
}

void PartOfTensors::take(int64_t first, int64_t count) {
  take(inputs_, first, count);
  take(outputs_, first, count);
}

}  // namespace tw::runtime
