#include "runtime/device/cuda/context.h"

#include <algorithm>
#include <cstring>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {
namespace {

using format::Buffer;
using format::Place;
using format::TensorSpec;

bool is_tensor(const Buffer& buffer) { return buffer.place == Place::kInput || buffer.place == Place::kOutput; }

bool on_device(const DLTensor& tensor) {
  return tensor.device.device_type == kDLCUDA || tensor.device.device_type == kDLCUDAManaged;
}

uint8_t* host_address(const DLTensor& tensor) { return static_cast<uint8_t*>(tensor.data) + tensor.byte_offset; }

/// The largest size over all entries of each tensor that `list` selects.
std::vector<size_t> largest(const format::Manifest& manifest, std::vector<TensorSpec> format::Entry::*list) {
  std::vector<size_t> sizes((manifest.entries.front().*list).size(), 0);
  for (const format::Entry& entry : manifest.entries) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = std::max(sizes[i], static_cast<size_t>(format::tensor_bytes((entry.*list)[i])));
    }
  }
  return sizes;
}

void patch(std::vector<uint8_t>& params, const format::Relocation& relocation, DevicePtr base) {
  const DevicePtr value = base + static_cast<DevicePtr>(relocation.addend);
  std::memcpy(params.data() + relocation.offset, &value, sizeof(value));
}

}  // namespace

CudaContext::CudaContext(const Loaded& loaded, const Options& options)
    : loaded_(loaded), driver_(loaded.gpu.driver), profile_(options.profile != 0) {
  const Current current(loaded.gpu);
  driver_.check(driver_.stream_create(&stream_, kStreamDefault), "create a stream");
  try {
    allocate();
  } catch (...) {
    release();  // the destructor does not run
    throw;
  }
}

void CudaContext::release() {
  for (const EventHandle event : events_) driver_.event_destroy(event);
  driver_.stream_destroy(stream_);
}

CudaContext::~CudaContext() {
  if (driver_.context_push(loaded_.gpu.context()) != kSuccess) return;
  release();
  ContextHandle popped = nullptr;
  driver_.context_pop(&popped);
}

void CudaContext::allocate() {
  const format::Manifest& manifest = loaded_.manifest;
  size_t arena_bytes = 0, steps = 0;
  for (const format::Entry& entry : manifest.entries) {
    arena_bytes = std::max(arena_bytes, static_cast<size_t>(entry.arena_bytes));
    steps = std::max(steps, entry.cuda_steps.size());
  }
  arena_ = DeviceMemory(loaded_.gpu, arena_bytes, "allocate the arena");
  if (arena_bytes != 0) driver_.check(driver_.memset(arena_.address(), 0, arena_bytes), "clear the arena");
  error_ = DeviceMemory(loaded_.gpu, sizeof(int32_t), "allocate the error word");
  for (const size_t bytes : largest(manifest, &format::Entry::inputs)) {
    input_staging_.emplace_back(loaded_.gpu, bytes, "allocate inputs");
  }
  for (const size_t bytes : largest(manifest, &format::Entry::outputs)) {
    output_staging_.emplace_back(loaded_.gpu, bytes, "allocate outputs");
  }
  inputs_.resize(input_staging_.size());
  outputs_.resize(output_staging_.size());
  programs_.reserve(manifest.entries.size());
  for (const format::Entry& entry : manifest.entries) make_program(entry);
  if (!profile_) return;
  times_.reserve(steps);
  for (size_t i = 0; i <= steps; ++i) {
    EventHandle event = nullptr;
    driver_.check(driver_.event_create(&event, kEventDefault), "create an event");
    events_.push_back(event);
  }
}

void CudaContext::make_program(const format::Entry& entry) {
  Program program;
  for (const format::CudaStep& step : entry.cuda_steps) {
    std::vector<uint8_t> params = step.params;
    for (const format::Relocation& relocation : step.relocations) {
      const Buffer& buffer = entry.buffers[static_cast<size_t>(relocation.buffer)];
      program.may_fail |= buffer.place == Place::kError;
      if (!is_tensor(buffer)) patch(params, relocation, address(buffer));
    }
    program.params.push_back(std::move(params));
  }
  programs_.push_back(std::move(program));
}

DevicePtr CudaContext::address(const Buffer& buffer) const {
  const auto offset = static_cast<DevicePtr>(buffer.offset);
  switch (buffer.place) {
    case Place::kArena:
      return arena_.address() + offset;
    case Place::kWeights:
      return loaded_.weights + offset;
    case Place::kInput:
      return inputs_[static_cast<size_t>(buffer.index)] + offset;
    case Place::kOutput:
      return outputs_[static_cast<size_t>(buffer.index)] + offset;
    case Place::kError:
      break;
  }
  return error_.address();
}

void CudaContext::place_inputs(const format::Entry& entry, const DLTensor* inputs) {
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    if (on_device(inputs[i])) {
      inputs_[i] = reinterpret_cast<uintptr_t>(inputs[i].data) + inputs[i].byte_offset;
      continue;
    }
    inputs_[i] = input_staging_[i].address();
    const auto bytes = static_cast<size_t>(format::tensor_bytes(entry.inputs[i]));
    if (bytes == 0) continue;
    driver_.check(driver_.copy_to_device(inputs_[i], host_address(inputs[i]), bytes, stream_), "copy an input");
  }
}

void CudaContext::place_outputs(const format::Entry& entry, const DLTensor* outputs) {
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    outputs_[i] = on_device(outputs[i]) ? reinterpret_cast<uintptr_t>(outputs[i].data) + outputs[i].byte_offset
                                        : output_staging_[i].address();
  }
}

void CudaContext::run(int index, const DLTensor* inputs, const DLTensor* outputs) {
  const format::Entry& entry = loaded_.manifest.entries[static_cast<size_t>(index)];
  Program& program = programs_[static_cast<size_t>(index)];
  const Current current(loaded_.gpu);
  place_inputs(entry, inputs);
  place_outputs(entry, outputs);
  int32_t error = 0;
  if (program.may_fail) {
    driver_.check(driver_.copy_to_device(error_.address(), &error, sizeof(error), stream_), "clear the error word");
  }
  launch(entry, program);
  fetch_outputs(entry, outputs);
  if (program.may_fail) {
    driver_.check(driver_.copy_to_host(&error, error_.address(), sizeof(error), stream_), "read the error word");
  }
  synchronize("run the model on the GPU");
  fetch_times(entry);
  if (error != 0)
    format::fail(format::ErrorCode::kInputValue, value_error_message(format::join("entry '", entry.name, "'"), error));
}

void CudaContext::launch(const format::Entry& entry, Program& program) {
  const auto mark = [&](size_t event) {
    if (profile_) driver_.check(driver_.event_record(events_[event], stream_), "time a step");
  };
  for (size_t s = 0; s < entry.cuda_steps.size(); ++s) {
    const format::CudaStep& step = entry.cuda_steps[s];
    for (const format::Relocation& relocation : step.relocations) {
      const Buffer& buffer = entry.buffers[static_cast<size_t>(relocation.buffer)];
      if (is_tensor(buffer)) patch(program.params[s], relocation, address(buffer));
    }
    mark(s);
    launch_step(step, program.params[s]);
  }
  mark(entry.cuda_steps.size());
}

void CudaContext::launch_step(const format::CudaStep& step, std::vector<uint8_t>& params) {
  const auto number = [](int64_t value) { return static_cast<unsigned>(value); };
  size_t bytes = params.size();
  void* extra[] = {reinterpret_cast<void*>(kParamBufferPointer), params.data(),
                   reinterpret_cast<void*>(kParamBufferSize), &bytes, reinterpret_cast<void*>(kParamEnd)};
  const Result result =
      driver_.launch(loaded_.functions[static_cast<size_t>(step.kernel)], number(step.grid[0]), number(step.grid[1]),
                     number(step.grid[2]), number(step.block[0]), number(step.block[1]), number(step.block[2]),
                     number(step.shared_bytes), stream_, nullptr, extra);
  if (result != kSuccess) driver_.check(result, format::join("launch step '", step.name, "'").c_str());
}

void CudaContext::fetch_outputs(const format::Entry& entry, const DLTensor* outputs) {
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    const auto bytes = static_cast<size_t>(format::tensor_bytes(entry.outputs[i]));
    if (bytes == 0 || on_device(outputs[i])) continue;
    driver_.check(driver_.copy_to_host(host_address(outputs[i]), outputs_[i], bytes, stream_), "copy an output");
  }
}

void CudaContext::fetch_times(const format::Entry& entry) {
  if (!profile_) return;
  times_.clear();
  for (size_t i = 0; i < entry.cuda_steps.size(); ++i) {
    float ms = 0;
    driver_.check(driver_.event_elapsed_ms(&ms, events_[i], events_[i + 1]), "read a step's time");
    times_.push_back(static_cast<uint64_t>(static_cast<double>(ms) * 1e6));
  }
}

void CudaContext::synchronize(const char* doing) { driver_.check(driver_.stream_synchronize(stream_), doing); }

void CudaContext::read_buffer(int entry, int buffer, void* destination) {
  const Buffer& place = loaded_.manifest.entries[static_cast<size_t>(entry)].buffers[static_cast<size_t>(buffer)];
  if (place.bytes == 0) return;
  const Current current(loaded_.gpu);
  const auto bytes = static_cast<size_t>(place.bytes);
  driver_.check(driver_.copy_to_host(destination, address(place), bytes, stream_), "read a buffer");
  synchronize("read a buffer");
}

}  // namespace tw::runtime::cuda
