#include "runtime/state.h"

#include <algorithm>
#include <mutex>

#include "runtime/format/error.h"
#include "runtime/format/safetensors.h"
#include "runtime/memory.h"
#include "runtime/stored_order.h"
#include "runtime/tensors.h"

namespace tw::runtime {
namespace {

using format::ErrorCode;

constexpr DLDevice kHost = {kDLCPU, 0};

StateRange range_of(const format::State& state) { return {state.offset, format::tensor_bytes(state.tensor)}; }

}  // namespace

State::State(std::shared_ptr<const void> owner, const format::Artefact& artefact, const DeviceModel& device,
             const Options& options)
    : owner_(std::move(owner)),
      artefact_(artefact),
      seen_(artefact.manifest().seen_states()),
      model_(device),
      device_(device.create_state(options)) {
  reset();
}

const format::State& State::row(int index) const { return numbered(seen_, index, "state"); }

void State::get(int index, const DLTensor& to) {
  const format::State& state = row(index);
  check_state(state.tensor, model_, to);
  const std::unique_lock lock(mutex_);
  if (state.order.empty()) return device_->get(range_of(state), address_of(to), to.device);
  std::vector<uint8_t> stored(static_cast<size_t>(range_of(state).bytes));
  device_->get(range_of(state), stored.data(), kHost);
  const std::vector<uint8_t> rows = rows_of(state, stored);
  if (!rows.empty()) device_->from_host(address_of(to), to.device, rows.data(), rows.size());
}

void State::set(int index, const DLTensor& from) {
  const format::State& state = row(index);
  check_state(state.tensor, model_, from);
  const std::unique_lock lock(mutex_);
  if (state.order.empty()) return device_->set(range_of(state), address_of(from), from.device);
  std::vector<uint8_t> rows(static_cast<size_t>(range_of(state).bytes));
  if (!rows.empty()) device_->to_host(rows.data(), address_of(from), from.device, rows.size());
  device_->set(range_of(state), stored_of(state, rows).data(), kHost);
}

void State::reset() {
  const format::Bytes initial = artefact_.section("states");
  const std::unique_lock lock(mutex_);
  if (initial.empty()) return device_->clear();
  device_->set({0, static_cast<int64_t>(initial.size())}, initial.data(), kHost);
}

std::vector<uint8_t> State::read_all() {
  std::vector<uint8_t> block(static_cast<size_t>(artefact_.manifest().state_bytes()));
  const std::unique_lock lock(mutex_);
  device_->get({0, static_cast<int64_t>(block.size())}, block.data(), kHost);
  return block;
}

void State::save(const std::string& path) {
  const std::vector<uint8_t> block = read_all();
  std::vector<format::NamedTensor> tensors;
  std::vector<std::vector<uint8_t>> rows;  // of those that are stored otherwise
  for (const format::State& state : seen_) {
    const format::TensorSpec& spec = state.tensor;
    const auto bytes = static_cast<size_t>(format::tensor_bytes(spec));
    format::Bytes values = format::Bytes(block).subspan(static_cast<size_t>(state.offset), bytes);
    if (!state.order.empty()) values = rows.emplace_back(rows_of(state, values));
    tensors.push_back({spec.name, spec.dtype, spec.shape, values});
  }
  format::write_safetensors(path, std::move(tensors));
}

void State::load(const std::string& path) {
  const Memory file = read_file(path);
  std::vector<format::NamedTensor> tensors;
  try {
    tensors = format::parse_safetensors({file.data(), file.size()});
  } catch (const format::Error& error) {
    format::fail(ErrorCode::kInvalidArgument, "'", path, "': ", error.what());
  }
  std::vector<uint8_t> block = read_all();
  for (const format::NamedTensor& tensor : tensors) {
    const auto state = std::ranges::find(seen_, tensor.name, [](const format::State& s) { return s.tensor.name; });
    if (state == seen_.end())
      format::fail(ErrorCode::kInvalidArgument, "'", path, "' has '", tensor.name, "', which is no state of the model");
    if (tensor.dtype != state->tensor.dtype || tensor.shape != state->tensor.shape) {
      format::fail(ErrorCode::kInvalidArgument, "'", path, "': state '", tensor.name, "' is ",
                   format::name_of(tensor.dtype), format::shape_text(tensor.shape), ", the model's is ",
                   format::name_of(state->tensor.dtype), format::shape_text(state->tensor.shape));
    }
    std::ranges::copy(stored_of(*state, tensor.bytes), block.begin() + static_cast<std::ptrdiff_t>(state->offset));
  }
  for (const format::State& state : seen_) {
    if (std::ranges::find(tensors, state.tensor.name, &format::NamedTensor::name) == tensors.end())
      format::fail(ErrorCode::kInvalidArgument, "'", path, "' lacks the state '", state.tensor.name, "'");
  }
  const std::unique_lock lock(mutex_);
  device_->set({0, static_cast<int64_t>(block.size())}, block.data(), kHost);
}

}  // namespace tw::runtime
