// The C interface: handles, status objects and the function table. No exception leaves this file.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "runtime/format/error.h"
#include "runtime/format/signature.h"
#include "runtime/model.h"
#include "runtime/tensors.h"
#include "tilewright/runtime.h"

using tw::format::Error;
using tw::format::ErrorCode;
using tw::runtime::Options;

struct TwStatus {
  TwStatusCode code;
  std::string message;
  std::string details = "{}";  // a JSON object
};

struct TwModel {
  std::shared_ptr<const tw::runtime::Model> model;
};

struct TwState {
  std::shared_ptr<tw::runtime::State> state;
};

struct TwContext {
  explicit TwContext(std::shared_ptr<const tw::runtime::Model> model, const Options& options)
      : context(std::move(model), options, options.state == nullptr ? nullptr : options.state->state) {}
  tw::runtime::Context context;
};

namespace {

static_assert(TW_ERROR_INTERNAL == static_cast<int>(ErrorCode::kInternal));
static_assert(TW_ERROR_INVALID_ARGUMENT == static_cast<int>(ErrorCode::kInvalidArgument));
static_assert(TW_ERROR_NO_SUCH_SHAPE == static_cast<int>(ErrorCode::kNoSuchShape));
static_assert(TW_ERROR_INPUT_VALUE == static_cast<int>(ErrorCode::kInputValue));
static_assert(TW_ERROR_DAMAGED == static_cast<int>(ErrorCode::kDamaged));
static_assert(TW_ERROR_INCOMPATIBLE == static_cast<int>(ErrorCode::kIncompatible));
static_assert(TW_ERROR_DEVICE == static_cast<int>(ErrorCode::kDevice));
static_assert(TW_ERROR_OUT_OF_MEMORY == static_cast<int>(ErrorCode::kOutOfMemory));
static_assert(TW_ERROR_DISK_FULL == static_cast<int>(ErrorCode::kDiskFull));
static_assert(TW_ERROR_IO == static_cast<int>(ErrorCode::kIo));

/// For when there is no memory for a status either; never freed.
TwStatus* out_of_memory() {
  static TwStatus status{TW_ERROR_OUT_OF_MEMORY, "out of memory"};  // short enough for the string's own buffer
  return &status;
}

TwStatus* make_status(ErrorCode code, const char* message, const char* details = "{}") {
  try {
    return new TwStatus{static_cast<TwStatusCode>(code), message, details};
  } catch (...) {
    return out_of_memory();
  }
}

/// Runs `body` and turns whatever it throws into a status.
template <typename Body>
TwStatus* guard(Body body) {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return make_status(error.code(), error.what(), error.details().c_str());
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return make_status(ErrorCode::kInternal, error.what());
  } catch (...) {
    return make_status(ErrorCode::kInternal, "unknown exception");
  }
}

void require(bool condition, const char* message) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, message);
}

/// The caller's structure as far as the caller knows it; the rest is zero.
TwOptions read_raw(const TwOptions* given) {
  TwOptions raw{};
  if (given != nullptr) {
    require(given->struct_size >= sizeof(size_t), "options.struct_size is not set");
    std::memcpy(&raw, given, std::min(given->struct_size, sizeof(raw)));
  }
  return raw;
}

Options read_options(const TwOptions* given) {
  const TwOptions raw = read_raw(given);
  require((raw.allocate == nullptr) == (raw.deallocate == nullptr), "options: allocate and deallocate belong together");
  require(raw.threads >= 0, "options.threads is negative");
  require(raw.device >= 0, "options.device is negative");
  Options options;
  options.threads = raw.threads;
  options.device = raw.device;
  options.profile = raw.profile;
  options.state = raw.state;
  options.allocator = {raw.allocate, raw.deallocate, raw.allocator_user};
  options.log_function = raw.log;
  options.log_user = raw.log_user;
  if (raw.level != nullptr) options.level = raw.level;
  return options;
}

/// And whose models are trusted: the caller's list, or that of the environment.
Options read_model_options(const TwOptions* given) {
  Options options = read_options(given);
  const char* own = read_raw(given).trusted_keys;
  const char* list = own != nullptr ? own : std::getenv(tw::format::kTrustedKeys);
  if (list != nullptr) options.trusted = tw::format::read_public_keys(list);
  return options;
}

/// Writes as much of `value` as the caller's structure holds.
template <typename Info>
void write_info(Info* target, Info value) {
  require(target != nullptr && target->struct_size >= sizeof(size_t), "info is null or its struct_size is not set");
  value.struct_size = target->struct_size;
  std::memcpy(target, &value, std::min(target->struct_size, sizeof(value)));
}

const char* version_string() { return TW_VERSION; }

TwStatusCode status_code(const TwStatus* status) { return status == nullptr ? TW_OK : status->code; }

const char* status_message(const TwStatus* status) { return status == nullptr ? "" : status->message.c_str(); }

const char* status_details(const TwStatus* status) { return status == nullptr ? "{}" : status->details.c_str(); }

int status_exit_code(const TwStatus* status) {
  return status == nullptr ? 0 : tw::format::exit_code(static_cast<ErrorCode>(status->code));
}

void status_free(TwStatus* status) {
  if (status != out_of_memory()) delete status;
}

TwStatus* model_load_file(const char* path, const TwOptions* options, TwModel** model) {
  return guard([&] {
    require(path != nullptr && model != nullptr, "path or model is null");
    *model = nullptr;
    *model = new TwModel{tw::runtime::Model::load_file(path, read_model_options(options))};
  });
}

TwStatus* model_load_memory(const void* bytes, size_t size, const TwOptions* options, TwModel** model) {
  return guard([&] {
    require(model != nullptr && (bytes != nullptr || size == 0), "bytes or model is null");
    *model = nullptr;
    const tw::format::Bytes file(static_cast<const uint8_t*>(bytes), size);
    *model = new TwModel{tw::runtime::Model::load_memory(file, read_model_options(options))};
  });
}

void model_free(TwModel* model) { delete model; }

const tw::format::Manifest& manifest_of(const TwModel* model) {
  require(model != nullptr, "model is null");
  return model->model->manifest();
}

const tw::format::Entry& entry_of(const TwModel* model, int32_t entry) {
  require(model != nullptr, "model is null");
  return model->model->entry(entry);
}

int32_t entry_count(const TwModel* model) {
  return model == nullptr ? 0 : static_cast<int32_t>(manifest_of(model).entries.size());
}

const char* entry_name(const TwModel* model, int32_t entry) {
  if (entry < 0 || entry >= entry_count(model)) return nullptr;
  return manifest_of(model).entries[static_cast<size_t>(entry)].name.c_str();
}

int32_t input_count(const TwModel* model) {
  return model == nullptr ? 0 : static_cast<int32_t>(manifest_of(model).entries.front().inputs.size());
}

int32_t output_count(const TwModel* model) {
  return model == nullptr ? 0 : static_cast<int32_t>(manifest_of(model).entries.front().outputs.size());
}

void describe(const tw::format::TensorSpec& spec, TwTensorInfo* info) {
  write_info(info, TwTensorInfo{0, spec.name.c_str(), tw::runtime::to_dlpack(spec.dtype),
                                static_cast<int32_t>(spec.shape.size()), spec.shape.data()});
}

void describe(const std::vector<tw::format::TensorSpec>& specs, int32_t index, TwTensorInfo* info) {
  require(index >= 0 && static_cast<size_t>(index) < specs.size(), "there is no such input or output");
  describe(specs[static_cast<size_t>(index)], info);
}

TwStatus* input_info(const TwModel* model, int32_t entry, int32_t input, TwTensorInfo* info) {
  return guard([&] { describe(entry_of(model, entry).inputs, input, info); });
}

TwStatus* output_info(const TwModel* model, int32_t entry, int32_t output, TwTensorInfo* info) {
  return guard([&] { describe(entry_of(model, entry).outputs, output, info); });
}

TwStatus* input_extent(const TwModel* model, int32_t entry, int32_t input, int32_t dim, TwExtentInfo* info) {
  return guard([&] {
    const tw::format::Entry& row = entry_of(model, entry);
    require(input >= 0 && static_cast<size_t>(input) < row.inputs.size(), "there is no such input");
    const std::vector<int64_t>& shape = row.inputs[static_cast<size_t>(input)].shape;
    require(dim >= 0 && static_cast<size_t>(dim) < shape.size(), "there is no such dimension");
    const int64_t size = shape[static_cast<size_t>(dim)];
    TwExtentInfo found{0, "", size, size, 1};
    for (const tw::format::Extent& extent : row.extents) {
      for (const tw::format::ExtentDim& of : extent.inputs) {
        const int64_t most = extent.in_parts ? std::numeric_limits<int64_t>::max() / of.times : extent.bound;
        if (of.tensor == input && of.dim == dim) found = {0, extent.name.c_str(), extent.least, most, of.times};
      }
    }
    write_info(info, found);
  });
}

TwStatus* output_shape(const TwModel* model, int32_t entry, const DLTensor* inputs, int32_t output, int64_t* shape) {
  return guard([&] {
    const tw::format::Entry& row = entry_of(model, entry);
    require(output >= 0 && static_cast<size_t>(output) < row.outputs.size(), "there is no such output");
    const tw::runtime::EntryShapes shapes = tw::runtime::read_shapes(row, inputs);
    const size_t rank = row.outputs[static_cast<size_t>(output)].shape.size();
    require(shape != nullptr || rank == 0, "shape is null");
    for (size_t d = 0; d < rank; ++d)
      shape[d] = shapes.extent(tw::runtime::TensorRole::kOutput, static_cast<size_t>(output), d);
  });
}

TwStatus* find_entry(const TwModel* model, const DLTensor* inputs, int32_t count, int32_t* entry) {
  return guard([&] {
    require(entry != nullptr, "entry is null");
    require(model != nullptr, "model is null");
    *entry = model->model->find_entry(0, inputs, count);
  });
}

TwStatus* context_create(const TwModel* model, const TwOptions* options, TwContext** context) {
  return guard([&] {
    require(model != nullptr && context != nullptr, "model or context is null");
    *context = nullptr;
    *context = new TwContext(model->model, read_options(options));
  });
}

tw::runtime::Context& of(TwContext* context) {
  require(context != nullptr, "context is null");
  return context->context;
}

void context_free(TwContext* context) { delete context; }

int32_t context_threads(const TwContext* context) { return context == nullptr ? 0 : context->context.threads(); }

TwStatus* run(TwContext* context, const DLTensor* inputs, int32_t inputs_given, const DLTensor* outputs,
              int32_t outputs_given) {
  return guard([&] { of(context).run(0, inputs, inputs_given, outputs, outputs_given); });
}

TwStatus* run_entry(TwContext* context, int32_t entry, const DLTensor* inputs, const DLTensor* outputs) {
  return guard([&] { of(context).run_entry(entry, inputs, outputs); });
}

TwStatus* run_async(TwContext* context, int32_t entry, const DLTensor* inputs, const DLTensor* outputs, void* stream) {
  return guard([&] { of(context).run_async(entry, inputs, outputs, stream); });
}

TwStatus* measure_entry(TwContext* context, int32_t entry, const DLTensor* inputs, const DLTensor* outputs,
                        uint64_t* times_ns, size_t count) {
  return guard([&] {
    require(context != nullptr && times_ns != nullptr && count != 0, "context or times_ns is null or count is 0");
    context->context.measure_entry(entry, inputs, outputs, {times_ns, count});
  });
}

const char* step_name(const tw::format::Entry& entry, size_t step) {
  return entry.cpu_steps.empty() ? entry.cuda_steps[step].name.c_str() : entry.cpu_steps[step].name.c_str();
}

TwStatus* last_profile(const TwContext* context, TwStepTime* steps, size_t capacity, size_t* count) {
  return guard([&] {
    require(context != nullptr && count != nullptr && (steps != nullptr || capacity == 0), "a null argument");
    const tw::format::Entry* entry = context->context.last_entry();
    const auto times = context->context.step_times();
    require(entry != nullptr && (!times.empty() || entry->cpu_steps.size() + entry->cuda_steps.size() == 0),
            "there is no profile: create the context with options.profile and run it");
    *count = times.size();
    for (size_t i = 0; i < std::min(capacity, times.size()); ++i) steps[i] = {step_name(*entry, i), times[i]};
  });
}

int32_t buffer_count(const TwModel* model, int32_t entry) {
  if (entry < 0 || entry >= entry_count(model)) return 0;
  return static_cast<int32_t>(manifest_of(model).entries[static_cast<size_t>(entry)].buffers.size());
}

TwStatus* buffer_info(const TwModel* model, int32_t entry, int32_t buffer, TwBufferInfo* info) {
  return guard([&] {
    const auto& buffers = entry_of(model, entry).buffers;
    require(buffer >= 0 && static_cast<size_t>(buffer) < buffers.size(), "there is no such buffer");
    const tw::format::Buffer& row = buffers[static_cast<size_t>(buffer)];
    const bool readable = row.place == tw::format::Place::kArena || row.place == tw::format::Place::kWeights;
    write_info(info, TwBufferInfo{0, row.name.c_str(), static_cast<uint64_t>(row.bytes), readable ? 1 : 0});
  });
}

TwStatus* read_buffer(TwContext* context, int32_t buffer, void* destination, size_t bytes) {
  return guard([&] { of(context).read_buffer(buffer, destination, bytes); });
}

int32_t function_count(const TwModel* model) {
  return model == nullptr ? 0 : static_cast<int32_t>(model->model->functions().size());
}

TwStatus* function_info(const TwModel* model, int32_t function, TwFunctionInfo* info) {
  return guard([&] {
    require(model != nullptr, "model is null");
    const tw::format::Function& row = model->model->function(function);
    const tw::format::Entry& first = model->model->entries_of(row).front();
    const bool changes = model->model->changes_state(static_cast<int>(row.first));
    write_info(info, TwFunctionInfo{0, row.name.c_str(), static_cast<int32_t>(row.first),
                                    static_cast<int32_t>(row.count), static_cast<int32_t>(first.inputs.size()),
                                    static_cast<int32_t>(first.outputs.size()), changes ? 1 : 0});
  });
}

TwStatus* find_function(const TwModel* model, const char* name, int32_t* function) {
  return guard([&] {
    require(model != nullptr && name != nullptr && function != nullptr, "model, name or function is null");
    *function = model->model->find_function(name);
  });
}

TwStatus* find_entry_of(const TwModel* model, int32_t function, const DLTensor* inputs, int32_t count, int32_t* entry) {
  return guard([&] {
    require(model != nullptr && entry != nullptr, "model or entry is null");
    *entry = model->model->find_entry(function, inputs, count);
  });
}

TwStatus* run_function(TwContext* context, int32_t function, const DLTensor* inputs, int32_t inputs_given,
                       const DLTensor* outputs, int32_t outputs_given) {
  return guard([&] { of(context).run(function, inputs, inputs_given, outputs, outputs_given); });
}

const char* model_metadata(const TwModel* model) { return model == nullptr ? "{}" : model->model->metadata().c_str(); }

const char* model_target(const TwModel* model) {
  return model == nullptr ? nullptr : manifest_of(model).targets.front().arch.c_str();
}

int32_t state_count(const TwModel* model) {
  return model == nullptr ? 0 : static_cast<int32_t>(model->model->states().size());
}

TwStatus* state_info(const TwModel* model, int32_t state, TwTensorInfo* info) {
  return guard([&] {
    require(model != nullptr, "model is null");
    const auto states = model->model->states();
    require(state >= 0 && static_cast<size_t>(state) < states.size(), "there is no such state");
    describe(states[static_cast<size_t>(state)].tensor, info);
  });
}

TwStatus* state_create(const TwModel* model, const TwOptions* options, TwState** state) {
  return guard([&] {
    require(model != nullptr && state != nullptr, "model or state is null");
    *state = nullptr;
    *state = new TwState{tw::runtime::Model::create_state(model->model, read_options(options))};
  });
}

void state_free(TwState* state) { delete state; }

TwStatus* context_state(const TwContext* context, TwState** state) {
  return guard([&] {
    require(context != nullptr && state != nullptr, "context or state is null");
    *state = new TwState{context->context.state()};
  });
}

tw::runtime::State& of(TwState* state) {
  require(state != nullptr, "state is null");
  return *state->state;
}

const DLTensor& of(const DLTensor* tensor) {
  require(tensor != nullptr, "the tensor is null");
  return *tensor;
}

std::string path_of(const char* path) {
  require(path != nullptr, "the path is null");
  return path;
}

TwStatus* state_get(TwState* state, int32_t index, const DLTensor* to) {
  return guard([&] { of(state).get(index, of(to)); });
}

TwStatus* state_set(TwState* state, int32_t index, const DLTensor* from) {
  return guard([&] { of(state).set(index, of(from)); });
}

TwStatus* state_reset(TwState* state) {
  return guard([&] { of(state).reset(); });
}

TwStatus* state_save(TwState* state, const char* path) {
  return guard([&] { of(state).save(path_of(path)); });
}

TwStatus* state_load(TwState* state, const char* path) {
  return guard([&] { of(state).load(path_of(path)); });
}

constexpr TwApi kApi = {
    .version = TW_API_VERSION,
    .struct_size = sizeof(TwApi),
    .version_string = version_string,
    .status_code = status_code,
    .status_message = status_message,
    .status_exit_code = status_exit_code,
    .status_free = status_free,
    .model_load_file = model_load_file,
    .model_load_memory = model_load_memory,
    .model_free = model_free,
    .entry_count = entry_count,
    .entry_name = entry_name,
    .input_count = input_count,
    .output_count = output_count,
    .input_info = input_info,
    .output_info = output_info,
    .find_entry = find_entry,
    .context_create = context_create,
    .context_free = context_free,
    .context_threads = context_threads,
    .run = run,
    .run_entry = run_entry,
    .last_profile = last_profile,
    .buffer_count = buffer_count,
    .buffer_info = buffer_info,
    .read_buffer = read_buffer,
    .model_target = model_target,
    .measure_entry = measure_entry,
    .state_count = state_count,
    .state_info = state_info,
    .state_create = state_create,
    .state_free = state_free,
    .context_state = context_state,
    .state_get = state_get,
    .state_set = state_set,
    .state_reset = state_reset,
    .state_save = state_save,
    .state_load = state_load,
    .run_async = run_async,
    .model_metadata = model_metadata,
    .status_details = status_details,
    .function_count = function_count,
    .function_info = function_info,
    .find_function = find_function,
    .find_entry_of = find_entry_of,
    .run_function = run_function,
    .input_extent = input_extent,
    .output_shape = output_shape,
};

}  // namespace

extern "C" const TwApi* tw_get_api(uint32_t version) { return version <= TW_API_VERSION ? &kApi : nullptr; }
