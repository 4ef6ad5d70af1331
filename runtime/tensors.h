// Checks of the caller's DLPack tensors against a model's entries, with messages that say what to change.
#pragma once
#include <dlpack/dlpack.h>

#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/extents.h"
#include "runtime/format/error.h"
#include "runtime/format/manifest.h"

namespace tw::runtime {

/// The DLPack type of an element type; bool is kDLBool with 8 bits.
DLDataType to_dlpack(format::DataType type);

/// Entries of one function, at least one.
using Entries = std::span<const format::Entry>;

/// Number of the first of `entries` that takes the shapes of `inputs` at once, or in parts where none does. Throws
/// Error(kInvalidArgument) for a wrong number, dtype or rank, Error(kNoSuchShape) naming the compiled shapes when no
/// entry matches.
int find_entry(Entries entries, const DLTensor* inputs, int input_count);

/// Throws Error(kInvalidArgument) if `count` is not the number of outputs.
void check_output_count(Entries entries, int count);

/// Checks that the values of the state `spec` can be copied to or from `tensor`. Throws Error(kInvalidArgument).
void check_state(const format::TensorSpec& spec, const DeviceModel& device, const DLTensor& tensor);

/// Where the elements of a tensor begin.
void* address_of(const DLTensor& tensor);

/// Checks everything about the tensors that the kernels rely on: dtype, rank, shape, compact row-major strides, data,
/// device, alignment to the element, and that no output overlaps another tensor. Throws Error(kInvalidArgument).
/// Returns the entry's shapes at the extents that the inputs say.
EntryShapes check_tensors(const format::Entry& entry, const DeviceModel& device, const DLTensor* inputs,
                          const DLTensor* outputs);

/// What the inputs say of an entry's shapes. Throws Error(kInvalidArgument) for inputs that are none of the entry's.
EntryShapes read_shapes(const format::Entry& entry, const DLTensor* inputs);

/// Number `index` of what a model has of `kind`. Throws Error(kInvalidArgument) where it has no such one.
template <typename T>
const T& numbered(const std::vector<T>& list, int index, const char* kind) {
  if (index < 0 || static_cast<size_t>(index) >= list.size()) {
    format::fail(format::ErrorCode::kInvalidArgument, "there is no ", kind, " ", index, "; the model has ",
                 list.size());
  }
  return list[static_cast<size_t>(index)];
}

}  // namespace tw::runtime
