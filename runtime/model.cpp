#include "runtime/model.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "runtime/device/cpu/cpu_features.h"
#include "runtime/format/error.h"
#include "runtime/memory.h"
#include "runtime/parts.h"

namespace tw::runtime {
namespace {

using format::ErrorCode;

std::unique_ptr<DeviceModel> load_on_device(format::Artefact& artefact, const Options& options) {
  if (artefact.manifest().kind() == format::TargetKind::kCpu) {
    artefact.keep_target(choose_cpu_target(artefact.manifest().targets, options.level));
    return load_cpu_model(artefact, options);
  }
#ifdef TW_RUNTIME_CUDA
  return load_cuda_model(artefact, options);
#else
  format::fail(ErrorCode::kIncompatible, "the artefact is for CUDA (", artefact.manifest().targets.front().arch,
               "); this runtime was built without it");
#endif
}

/// Marks a context as in use for a scope.
class Use {
 public:
  explicit Use(std::atomic<bool>& in_use) : in_use_(in_use) {
    if (in_use_.exchange(true, std::memory_order_acquire)) {
      format::fail(ErrorCode::kInvalidArgument, "the context is in use by another thread: make one context per thread");
    }
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { in_use_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& in_use_;
};

}  // namespace

std::shared_ptr<const Model> Model::load_file(const std::string& path, const Options& options) {
  Memory image = read_file(path);
  try {
    return std::make_shared<const Model>(std::move(image), options);
  } catch (const format::Error& error) {
    throw format::Error(error.code(), format::join("'", path, "': ", error.what()));
  }
}

std::shared_ptr<const Model> Model::load_memory(format::Bytes bytes, const Options& options) {
  Memory image = Memory::map(bytes.size(), "the artefact");
  std::copy(bytes.begin(), bytes.end(), image.data());
  return std::make_shared<const Model>(std::move(image), options);
}

Model::Model(Memory image, const Options& options) : image_(std::move(image)) {
  image_.make_read_only();
  const format::Bytes file(image_.data(), image_.size());
  if (!options.trusted.empty()) format::require_signature(file, options.trusted);
  artefact_ = format::Artefact::parse(file);
  device_ = load_on_device(artefact_, options);
  const format::Bytes metadata = artefact_.section("metadata");
  if (!metadata.empty()) metadata_.assign(metadata.begin(), metadata.end());
  functions_ = format::functions_of(manifest());
  states_ = manifest().seen_states();
  for (const format::Entry& entry : manifest().entries) {
    changes_state_.push_back(std::ranges::find(entry.buffers, format::Place::kNextState, &format::Buffer::place) !=
                             entry.buffers.end());
  }
}

const format::Entry& Model::entry(int index) const { return numbered(manifest().entries, index, "entry"); }

const format::Function& Model::function(int index) const { return numbered(functions_, index, "function"); }

int Model::find_function(std::string_view name) const {
  const auto found = std::ranges::find(functions_, name, &format::Function::name);
  if (found != functions_.end()) return static_cast<int>(found - functions_.begin());
  if (functions_.size() == 1 && functions_.front().name.empty()) {
    format::fail(ErrorCode::kInvalidArgument, "there is no function '", name,
                 "': the model has but one, without a name");
  }
  std::string names;
  for (const format::Function& function : functions_) names += (names.empty() ? "" : ", ") + function.name;
  format::fail(ErrorCode::kInvalidArgument, "there is no function '", name, "'; the model has: ", names);
}

int Model::find_entry(int index, const DLTensor* inputs, int input_count) const {
  const format::Function& of = function(index);
  return static_cast<int>(of.first) + runtime::find_entry(entries_of(of), inputs, input_count);
}

int Model::find_like(int entry, const DLTensor* inputs) const {
  for (const format::Function& function : functions_) {
    const auto first = static_cast<int>(function.first), end = first + static_cast<int>(function.count);
    if (entry < first || entry >= end) continue;
    for (int e = first; e < end; ++e) {
      if (EntryShapes(this->entry(e)).read(inputs, EntryShapes::Parts::kNo)) return e;
    }
  }
  return -1;
}

std::shared_ptr<State> Model::create_state(std::shared_ptr<const Model> model, const Options& options) {
  return std::make_shared<State>(model, model->artefact_, *model->device_, options);
}

Context::Context(std::shared_ptr<const Model> model, const Options& options, std::shared_ptr<State> state)
    : model_(std::move(model)), state_(std::move(state)) {
  if (state_ == nullptr) state_ = Model::create_state(model_, options);
  if (!state_->is_of(model_->artefact()))
    format::fail(ErrorCode::kInvalidArgument, "the state is one of another model");
  device_ = model_->device().create_context(options, state_->on_device());
}

void Context::run(int function, const DLTensor* inputs, int input_count, const DLTensor* outputs, int output_count) {
  const Use use(in_use_);
  const int entry = model_->find_entry(function, inputs, input_count);
  check_output_count(model_->entries_of(model_->function(function)), output_count);
  run_checked(entry, {inputs, outputs}, [&](int e, const Tensors& t) { device_->run(e, t.inputs, t.outputs); });
}

void Context::run_entry(int entry, const DLTensor* inputs, const DLTensor* outputs) {
  const Use use(in_use_);
  run_checked(entry, {inputs, outputs}, [&](int e, const Tensors& t) { device_->run(e, t.inputs, t.outputs); });
}

void Context::run_async(int entry, const DLTensor* inputs, const DLTensor* outputs, void* stream) {
  const Use use(in_use_);
  run_checked(entry, {inputs, outputs},
              [&](int e, const Tensors& t) { device_->run_async(e, t.inputs, t.outputs, stream); });
}

void Context::measure_entry(int entry, const DLTensor* inputs, const DLTensor* outputs, std::span<uint64_t> times_ns) {
  const Use use(in_use_);
  // Of a run in parts the times of all of them.
  std::vector<uint64_t> part(times_ns.size());
  std::ranges::fill(times_ns, 0);
  run_checked(entry, {inputs, outputs}, [&](int e, const Tensors& t) {
    device_->measure(e, t.inputs, t.outputs, part);
    std::ranges::transform(times_ns, part, times_ns.begin(), std::plus());
  });
}

/// Runs `body` while nobody else changes the state, or reads it where `entry` changes it.
template <typename Body>
void Context::with_state(int entry, const Body& body) {
  if (model_->manifest().states.empty()) return body();
  if (model_->changes_state(entry)) {
    const std::unique_lock lock(state_->mutex());
    return body();
  }
  const std::shared_lock lock(state_->mutex());
  body();
}

/// Gives `body` the entry and the tensors once they are checked, part by part where they are larger than the entry's.
template <typename Body>
void Context::run_checked(int entry, const Tensors& given, const Body& body) {
  const EntryShapes shapes = check_tensors(model_->entry(entry), model_->device(), given.inputs, given.outputs);
  if (shapes.beyond_bounds() >= 0) return run_in_parts(entry, shapes, given, body);
  last_entry_ = entry;
  device_->set_extents(shapes.extents());
  with_state(entry, [&] { body(entry, given); });
}

// The last part is what is left, where an entry takes so few rows; else its first rows are computed again.
template <typename Body>
void Context::run_in_parts(int entry, const EntryShapes& shapes, const Tensors& given, const Body& body) {
  const auto along = static_cast<size_t>(shapes.beyond_bounds());
  const int64_t rows = shapes.extents()[along], bound = shapes.entry().extents[along].bound;
  PartOfTensors part(shapes, along, given.inputs, given.outputs);
  for (int64_t first = 0; first < rows; first += bound) {
    int takes = entry;
    part.take(first, std::min(bound, rows - first));
    if (rows - first < bound) takes = model_->find_like(entry, part.inputs());
    if (takes < 0) {
      part.take(rows - bound, bound);
      takes = entry;
    }
    run_checked(takes, {part.inputs(), part.outputs()}, body);
  }
}

const format::Entry* Context::last_entry() const {
  return last_entry_ < 0 ? nullptr : &model_->manifest().entries[static_cast<size_t>(last_entry_)];
}

void Context::read_buffer(int buffer, void* destination, size_t bytes) {
  const Use use(in_use_);
  const format::Entry* entry = last_entry();
  if (entry == nullptr) format::fail(ErrorCode::kInvalidArgument, "read_buffer needs a run before it");
  if (buffer < 0 || static_cast<size_t>(buffer) >= entry->buffers.size()) {
    format::fail(ErrorCode::kInvalidArgument, "there is no buffer ", buffer, "; entry '", entry->name, "' has ",
                 entry->buffers.size());
  }
  const format::Buffer& place = entry->buffers[static_cast<size_t>(buffer)];
  if (place.place != format::Place::kArena && place.place != format::Place::kWeights) {
    format::fail(ErrorCode::kInvalidArgument, "buffer ", buffer,
                 " belongs to the caller; only arena and weights can be read");
  }
  if (bytes != static_cast<size_t>(place.bytes) || (destination == nullptr && bytes != 0)) {
    format::fail(ErrorCode::kInvalidArgument, "buffer ", buffer, " has ", place.bytes, " bytes; the destination has ",
                 bytes);
  }
  device_->read_buffer(last_entry_, buffer, destination);
}

std::string value_error_message(const std::string& where, int32_t error) {
  const char* meaning = "an input value is outside of what the operator accepts";
  if (error == static_cast<int32_t>(KernelError::kIndexOutOfRange)) meaning = "an index is out of range";
  if (error == static_cast<int32_t>(KernelError::kTooManyRows))
    meaning = "there are more rows than the model was compiled with room for (compile it with a larger --bound)";
  return format::join(where, ": ", meaning, " (error word ", error, "); the outputs are not valid");
}

}  // namespace tw::runtime
