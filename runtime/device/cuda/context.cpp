#include "runtime/device/cuda/context.h"

#include <algorithm>
#include <cstring>
#include <nvtx3/nvtx3.hpp>

#include "runtime/device/cuda/state.h"
#include "runtime/format/error.h"
#include "runtime/format/turns.h"
#include "runtime/sub_tensor.h"

namespace tw::runtime::cuda {
namespace {

using format::Buffer;
using format::Place;
using format::TensorSpec;

constexpr size_t kFewLaunches = 8;  // in a graph that may end before the host has submitted the next one

bool is_tensor(const Buffer& buffer) { return buffer.place == Place::kInput || buffer.place == Place::kOutput; }

bool on_device(const DLTensor& tensor) { return is_on_gpu(tensor.device); }

DevicePtr device_address(const DLTensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
}

/// Kernels move whole vectors: a tensor in this GPU's memory is used where it is if it begins at a multiple of those.
bool in_place(const DLTensor& tensor) {
  constexpr DevicePtr kVectorBytes = 16;
  return on_device(tensor) && device_address(tensor) % kVectorBytes == 0;
}

uint8_t* host_address(const DLTensor& tensor) { return static_cast<uint8_t*>(tensor.data) + tensor.byte_offset; }

/// The largest size over all entries of each tensor that `list` selects, by its number.
std::vector<size_t> largest(const format::Manifest& manifest, std::vector<TensorSpec> format::Entry::*list) {
  std::vector<size_t> sizes;
  for (const format::Entry& entry : manifest.entries) {
    sizes.resize(std::max(sizes.size(), (entry.*list).size()), 0);
    for (size_t i = 0; i < (entry.*list).size(); ++i) {
      sizes[i] = std::max(sizes[i], static_cast<size_t>(format::tensor_bytes((entry.*list)[i])));
    }
  }
  return sizes;
}

/// Whether the word of `params` changed.
bool patch(std::vector<uint8_t>& params, const format::Relocation& relocation, DevicePtr base) {
  const DevicePtr value = base + static_cast<DevicePtr>(relocation.addend);
  uint8_t* word = params.data() + relocation.offset;
  if (std::memcmp(word, &value, sizeof(value)) == 0) return false;
  std::memcpy(word, &value, sizeof(value));
  return true;
}

bool checks(const format::Entry& entry, const format::CudaStep& step) {
  return std::ranges::any_of(format::buffers_of(step), [&](int64_t buffer) {
    return entry.buffers[static_cast<size_t>(buffer)].place == Place::kError;
  });
}

/// Steps that may store an error word, each in all its turns.
size_t count_checks(const format::Entry& entry) {
  size_t count = 0;
  format::for_each_step(entry, entry.cuda_steps.size(),
                        [&](size_t step, auto, bool) { count += checks(entry, entry.cuda_steps[step]) ? 1 : 0; });
  return count;
}

}  // namespace

CudaContext::CudaContext(const Loaded& loaded, const Options& options, DevicePtr state)
    : loaded_(loaded),
      state_(state),
      driver_(loaded.gpu.driver),
      profile_(options.profile != 0),
      stream_(loaded.gpu),
      used_(stream_.handle()),
      marks_(loaded.gpu),
      calls_(loaded.gpu),
      step_events_(loaded.gpu),
      run_events_(loaded.gpu) {
  const Current current(loaded.gpu);
  allocate();
  prepare_calls();
  entries_.reserve(loaded.manifest.entries.size());
  for (const format::Entry& entry : loaded.manifest.entries) entries_.push_back(prepare_entry(entry));
}

/// What is under way uses this context's memory.
CudaContext::~CudaContext() {
  if (!is_pending_) return;
  release_on(loaded_.gpu, [this] {
    if (marks_.follow(kEnd, stream_.handle()) == kSuccess) driver_.stream_synchronize(stream_.handle());
  });
}

void CudaContext::allocate() {
  const format::Manifest& manifest = loaded_.manifest;
  size_t arena_bytes = 0;
  for (const format::Entry& entry : manifest.entries)
    arena_bytes = std::max(arena_bytes, static_cast<size_t>(entry.arena_bytes));
  arena_ = DeviceMemory(loaded_.gpu, arena_bytes, "the arena");
  if (arena_bytes != 0) driver_.check(driver_.memset(arena_.address(), 0, arena_bytes), "clear the arena");
  size_t words = 0;
  for (const format::Entry& entry : manifest.entries) words = std::max(words, count_checks(entry));
  error_ = DeviceMemory(loaded_.gpu, words * sizeof(int32_t), "the error words");
  const bool has_extents =
      std::ranges::any_of(manifest.entries, [](const format::Entry& e) { return !e.extents.empty(); });
  if (has_extents) extents_of_run_ = DeviceMemory(loaded_.gpu, sizeof extents_, "the extents of a run");
  const auto stage = [&](std::vector<TensorSpec> format::Entry::*list, const char* what,
                         std::vector<DeviceMemory>& staging, std::vector<DevicePtr>& addresses) {
    for (const size_t bytes : largest(manifest, list)) {
      staging.emplace_back(loaded_.gpu, bytes, what);
      addresses.push_back(staging.back().address());
    }
  };
  stage(&format::Entry::inputs, "an input", input_staging_, inputs_);
  stage(&format::Entry::outputs, "an output", output_staging_, outputs_);
}

void CudaContext::prepare_calls() {
  for (const format::Entry& entry : loaded_.manifest.entries) {
    for (const format::CudaStep& step : entry.cuda_steps) {
      if (!step.call.empty()) calls_.add(step.call);
    }
  }
  workspace_ = DeviceMemory(loaded_.gpu, calls_.workspace_bytes(), "the libraries");
}

Launch CudaContext::make_launch(const format::Entry& entry, const format::CudaStep& step,
                                std::span<const int64_t> turns, size_t error_word) {
  Launch launch{&step, step.after};
  launch.error_word = error_word;
  if (step.call.empty()) {
    launch.function = loaded_.functions[static_cast<size_t>(step.kernel)];
    launch.params = step.params;
  } else {
    launch.call = &calls_.at(step.call);
    launch.workspace = workspace_.address();
  }
  relocate(entry, turns, launch);
  return launch;
}

/// For tensors at the staging addresses: those of callers with host tensors.
CudaContext::PreparedEntry CudaContext::prepare_entry(const format::Entry& entry) {
  PreparedEntry prepared;
  size_t seen = 0;  // steps, which come in their order where they come first
  format::for_each_step(entry, entry.cuda_steps.size(), [&](size_t number, std::span<const int64_t> turns, bool) {
    const format::CudaStep& step = entry.cuda_steps[number];
    const bool is_first = number == seen;
    seen += is_first ? 1 : 0;
    Launch launch = make_launch(entry, step, turns, prepared.checks.size());
    if (!entry.repeats.empty() && !prepared.launches.empty()) launch.after = {std::ssize(prepared.launches) - 1};
    // A library loads its kernels when they are first launched, which cannot be captured into a graph.
    if (launch.call != nullptr && is_first) launch_alone(driver_, launch, stream_.handle());
    bool touches_tensors = false;
    for (const int64_t index : format::buffers_of(step))
      touches_tensors |= is_tensor(format::located(entry, index, turns));
    if (checks(entry, step)) prepared.checks.push_back(&step);
    if (touches_tensors) {
      prepared.touching_tensors.push_back(prepared.launches.size());
      launch.turns.assign(turns.begin(), turns.end());
    }
    prepared.launches.push_back(std::move(launch));
  });
  add_clearings(entry, prepared);
  if (!profile_) prepared.graph = std::make_unique<LaunchGraph>(loaded_.gpu, prepared.launches, prepared.clearings);
  return prepared;
}

void CudaContext::add_clearings(const format::Entry& entry, PreparedEntry& prepared) const {
  for (const format::Zeros& zeros : entry.zeros) {
    const auto uses = [&](const Launch& launch) {
      const std::vector<format::Relocation>& all = launch.step->relocations;
      return std::ranges::find(all, zeros.buffer, &format::Relocation::buffer) != all.end();
    };
    const auto first = std::ranges::find_if(prepared.launches, uses);
    if (zeros.bytes == 0 || first == prepared.launches.end()) continue;
    const DevicePtr buffer = address(entry.buffers[static_cast<size_t>(zeros.buffer)]);
    prepared.clearings.push_back({buffer + static_cast<DevicePtr>(zeros.offset), static_cast<size_t>(zeros.bytes),
                                  static_cast<size_t>(first - prepared.launches.begin())});
  }
}

/// Whether a parameter changed.
bool CudaContext::relocate(const format::Entry& entry, std::span<const int64_t> turns, Launch& launch) {
  const auto address_of = [&](int64_t buffer) {
    return address(format::located(entry, buffer, turns), launch.error_word);
  };
  bool changed = false;
  for (const format::Relocation& relocation : launch.step->relocations)
    changed |= patch(launch.params, relocation, address_of(relocation.buffer));
  for (const format::TensorMap& map : launch.step->tensor_maps)
    changed |= encode_map(driver_, map, address_of(map.buffer), launch.params);
  std::vector<DevicePtr> operands;
  for (const int64_t operand : launch.step->operands) operands.push_back(address_of(operand));
  changed |= operands != launch.operands;
  launch.operands = std::move(operands);
  return changed;
}

DevicePtr CudaContext::address(const Buffer& buffer, size_t error_word) const {
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
    case Place::kState:
    case Place::kNextState:
      return state_ + offset +
             static_cast<DevicePtr>(loaded_.manifest.states[static_cast<size_t>(buffer.index)].offset);
    case Place::kExtent:
      return extents_of_run_.address() + static_cast<DevicePtr>(buffer.index) * sizeof(int64_t);
    case Place::kError:
      break;
  }
  return error_.address() + error_word * sizeof(int32_t);
}

void CudaContext::copy_in(DevicePtr to, const DLTensor& tensor, int64_t from, int64_t bytes) {
  const auto count = static_cast<size_t>(bytes);
  driver_.check(on_device(tensor)
                    ? driver_.copy_on_device(to, device_address(tensor) + static_cast<DevicePtr>(from), count, used_)
                    : driver_.copy_to_device(to, host_address(tensor) + from, count, used_),
                "copy an input");
}

void CudaContext::place_inputs(const format::Entry& entry, const DLTensor* inputs) {
  const EntryShapes shapes(entry, extents_);
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const DLTensor& tensor = inputs[i];
    const bool is_smaller = shapes.is_smaller(TensorRole::kInput, i);
    const DevicePtr whole = input_staging_[i].address();
    inputs_[i] = in_place(tensor) && !is_smaller ? device_address(tensor) : whole;
    if (inputs_[i] != whole || format::tensor_bytes(entry.inputs[i]) == 0) continue;
    const auto at = [&](int64_t offset) { return whole + static_cast<DevicePtr>(offset); };
    SubTensor(shapes, TensorRole::kInput, i)
        .spread([&](int64_t to, int64_t from, int64_t bytes) { copy_in(at(to), tensor, from, bytes); },
                [&](int64_t to, int64_t from, int64_t bytes) {
                  driver_.check(driver_.copy_on_device(at(to), at(from), static_cast<size_t>(bytes), used_),
                                "fill an input up");
                });
  }
  if (entry.extents.empty()) return;
  driver_.check(driver_.copy_to_device(extents_of_run_.address(), extents_.data(), sizeof extents_, used_),
                "copy the extents");
}

void CudaContext::place_outputs(const format::Entry& entry, const DLTensor* outputs) {
  const EntryShapes shapes(entry, extents_);
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    const bool is_own = in_place(outputs[i]) && !shapes.is_smaller(TensorRole::kOutput, i);
    outputs_[i] = is_own ? device_address(outputs[i]) : output_staging_[i].address();
  }
}

/// What runs have put on other streams ends before what is put on this one.
void CudaContext::use_stream(StreamHandle stream) {
  if (is_pending_ && stream != used_) driver_.check(marks_.follow(kEnd, stream), "wait for the run before");
  used_ = stream;
}

bool CudaContext::has_to_wait(const format::Entry& entry, const PreparedEntry& prepared, const DLTensor* inputs,
                              const DLTensor* outputs) const {
  const auto on_host = [](const DLTensor& tensor) { return !on_device(tensor); };
  return profile_ || !prepared.checks.empty() || !loaded_.manifest.states.empty() ||
         std::any_of(inputs, inputs + entry.inputs.size(), on_host) ||
         std::any_of(outputs, outputs + entry.outputs.size(), on_host);
}

void CudaContext::run_async(int index, const DLTensor* inputs, const DLTensor* outputs, void* stream) {
  const format::Entry& entry = loaded_.manifest.entries[static_cast<size_t>(index)];
  PreparedEntry& prepared = entries_[static_cast<size_t>(index)];
  auto* const given = static_cast<StreamHandle>(stream);
  const Current current(loaded_.gpu);
  if (has_to_wait(entry, prepared, inputs, outputs)) {
    marks_.record(kGivenWork, given);
    driver_.check(marks_.follow(kGivenWork, stream_.handle()), "wait for the stream");
    return run(index, inputs, outputs);
  }
  const nvtx3::scoped_range range(entry.name);
  use_stream(given);
  try {
    place_inputs(entry, inputs);
    place_outputs(entry, outputs);
    bind_tensors(entry, prepared);
    submit(prepared);
    fetch_outputs(entry, outputs);
    marks_.record(kEnd, given);
    is_pending_ = true;
  } catch (...) {
    driver_.stream_synchronize(given);  // what is under way uses the caller's memory
    throw;
  }
}

/// One run, and one more for each of `times_ns`.
void CudaContext::measure(int index, const DLTensor* inputs, const DLTensor* outputs, std::span<uint64_t> times_ns) {
  const format::Entry& entry = loaded_.manifest.entries[static_cast<size_t>(index)];
  PreparedEntry& prepared = entries_[static_cast<size_t>(index)];
  const nvtx3::scoped_range range(entry.name);
  const Current current(loaded_.gpu);
  std::vector<int32_t> errors(prepared.checks.size(), 0);  // a turn's word stays as it is when the next one comes
  const size_t error_bytes = errors.size() * sizeof(int32_t);
  Gate gate;
  use_stream(stream_.handle());
  try {
    place_inputs(entry, inputs);
    place_outputs(entry, outputs);
    bind_tensors(entry, prepared);
    if (!prepared.checks.empty()) {
      driver_.check(driver_.copy_to_device(error_.address(), errors.data(), error_bytes, used_),
                    "clear the error words");
    }
    const bool short_runs = !times_ns.empty() && prepared.launches.size() < kFewLaunches;
    if (profile_ || short_runs) gate.hold(loaded_.gpu, used_);
    submit(prepared);
    if (!times_ns.empty()) submit_timed(prepared, times_ns.size());
    gate.open();
    fetch_outputs(entry, outputs);
    if (!prepared.checks.empty()) {
      driver_.check(driver_.copy_to_host(errors.data(), error_.address(), error_bytes, used_), "read the error words");
    }
  } catch (...) {
    driver_.stream_synchronize(used_);  // what is under way uses the caller's memory
    throw;
  }
  synchronize("run the model on the GPU");
  is_pending_ = false;
  run_events_.read(times_ns);
  if (profile_) read_step_times(entry, prepared);
  const auto error = std::ranges::find_if(errors, [](int32_t word) { return word != 0; });
  if (error == errors.end()) return;
  const std::string& name = prepared.checks[static_cast<size_t>(error - errors.begin())]->name;
  format::fail(format::ErrorCode::kInputValue, value_error_message(format::join("step '", name, "'"), *error));
}

void CudaContext::bind_tensors(const format::Entry& entry, PreparedEntry& prepared) {
  for (const size_t index : prepared.touching_tensors) {
    Launch& launch = prepared.launches[index];
    if (relocate(entry, launch.turns, launch)) launch.in_graph = false;
    if (launch.in_graph || prepared.graph == nullptr) continue;
    prepared.graph->update(index, launch);
    launch.in_graph = true;  // not before: an update that failed is tried again
  }
}

void CudaContext::submit(PreparedEntry& prepared) {
  if (prepared.graph != nullptr) return prepared.graph->submit(used_);
  // On the default stream, which this one waits for.
  for (const Clearing& c : prepared.clearings) driver_.check(driver_.memset(c.address, 0, c.bytes), "clear memory");
  size_t step = 0;
  step_events_.record(step, used_);
  for (Launch& launch : prepared.launches) {
    launch_alone(driver_, launch, used_);
    step_events_.record(++step, used_);
  }
}

void CudaContext::submit_timed(PreparedEntry& prepared, size_t times) {
  run_events_.record(0, used_);
  for (size_t i = 1; i <= times; ++i) {
    submit(prepared);
    run_events_.record(i, used_);
  }
}

void CudaContext::read_step_times(const format::Entry& entry, const PreparedEntry& prepared) {
  launch_times_.resize(prepared.launches.size());
  step_events_.read(launch_times_);
  step_times_.assign(entry.cuda_steps.size(), 0);
  for (size_t i = 0; i < launch_times_.size(); ++i)
    step_times_[static_cast<size_t>(prepared.launches[i].step - entry.cuda_steps.data())] += launch_times_[i];
}

void CudaContext::fetch_outputs(const format::Entry& entry, const DLTensor* outputs) {
  const EntryShapes shapes(entry, extents_);
  for (size_t i = 0; i < entry.outputs.size(); ++i) {
    const DLTensor& tensor = outputs[i];
    if (outputs_[i] != output_staging_[i].address() || format::tensor_bytes(entry.outputs[i]) == 0) continue;
    SubTensor(shapes, TensorRole::kOutput, i).gather([&](int64_t to, int64_t from, int64_t bytes) {
      const DevicePtr whole = outputs_[i] + static_cast<DevicePtr>(from);
      const auto count = static_cast<size_t>(bytes);
      driver_.check(on_device(tensor) ? driver_.copy_on_device(device_address(tensor) + static_cast<DevicePtr>(to),
                                                               whole, count, used_)
                                      : driver_.copy_to_host(host_address(tensor) + to, whole, count, used_),
                    "copy an output");
    });
  }
}

void CudaContext::synchronize(const char* doing) { driver_.check(driver_.stream_synchronize(stream_.handle()), doing); }

void CudaContext::read_buffer(int entry, int buffer, void* destination) {
  const Buffer& place = loaded_.manifest.entries[static_cast<size_t>(entry)].buffers[static_cast<size_t>(buffer)];
  if (place.bytes == 0) return;
  const Current current(loaded_.gpu);
  const auto bytes = static_cast<size_t>(place.bytes);
  use_stream(stream_.handle());
  driver_.check(driver_.copy_to_host(destination, address(place), bytes, stream_.handle()), "read a buffer");
  synchronize("read a buffer");
}

}  // namespace tw::runtime::cuda
