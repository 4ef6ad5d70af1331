#include "model.h"

#include <nanobind/stl/string.h>

#include "status.h"

namespace nb = nanobind;

namespace tw::python {
namespace {

TwOptions raw_options(const LoadOptions& options) {
  TwOptions raw{};
  raw.struct_size = sizeof(raw);
  raw.threads = options.threads;
  raw.device = options.device;
  raw.level = options.level.c_str();
  raw.trusted_keys = options.trusted_keys ? options.trusted_keys->c_str() : nullptr;
  return raw;
}

Tensor tensor_of(const TwTensorInfo& info) { return {info.name, info.dtype, {info.shape, info.shape + info.ndim}}; }

TwFunctionInfo function_info(const TwModel* model, int function) {
  TwFunctionInfo info{};
  info.struct_size = sizeof(info);
  check(api().function_info(model, function, &info));
  return info;
}

TwTensorInfo empty_info() {
  TwTensorInfo info{};
  info.struct_size = sizeof(info);
  return info;
}

std::vector<std::string> names_of(const std::vector<Tensor>& tensors) {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::shared_ptr<State> make_state(const TwModel* model) {
  const int count = api().state_count(model);
  if (count == 0) return nullptr;
  std::vector<Tensor> values;
  for (int i = 0; i < count; ++i) {
    TwTensorInfo info = empty_info();
    check(api().state_info(model, i, &info));
    values.push_back(tensor_of(info));
  }
  TwState* state = nullptr;
  check(api().state_create(model, nullptr, &state));
  return std::make_shared<State>(StateHandle(state), std::move(values));
}

StepTimes last_profile(const TwContext* context) {
  size_t count = 0;
  check(api().last_profile(context, nullptr, 0, &count));
  std::vector<TwStepTime> steps(count);
  check(api().last_profile(context, steps.data(), steps.size(), &count));
  StepTimes times;
  for (const TwStepTime& step : steps) times.emplace_back(step.name, step.ns);
  return times;
}

nb::list released(std::vector<Result>& results, Kind kind) {
  nb::list list;
  for (Result& result : results) list.append(result.release(kind));
  return list;
}

std::vector<DLTensor> tensors_of_results(const std::vector<Result>& results) {
  std::vector<DLTensor> tensors;
  tensors.reserve(results.size());
  for (const Result& result : results) tensors.push_back(result.tensor());
  return tensors;
}

}  // namespace

const TwApi& api() {
  static const TwApi* const table = tw_get_api(TW_API_VERSION);
  if (table == nullptr) {
    throw nb::import_error("libtilewright_rt is older than this module: reinstall the package tilewright");
  }
  return *table;
}

void check(TwStatus* status) {
  if (status == nullptr) return;
  StatusError error{"from_runtime", api().status_code(status), api().status_message(status),
                    api().status_details(status)};
  api().status_free(status);
  throw error;
}

const Tensor& State::at(int index) const {
  if (index < 0 || static_cast<size_t>(index) >= values_.size()) throw nb::index_error("there is no such state");
  return values_[static_cast<size_t>(index)];
}

nb::object State::get(int index, Kind kind) const {
  const Tensor& value = at(index);
  Result result(value.type, value.shape.data(), static_cast<int32_t>(value.shape.size()));
  {
    const nb::gil_scoped_release unlocked;
    check(api().state_get(handle_.get(), index, &result.tensor()));
  }
  return result.release(kind);
}

void State::set(int index, nb::handle value) {
  const Array array(value, at(index).name, Access::kRead);
  const nb::gil_scoped_release unlocked;
  check(api().state_set(handle_.get(), index, &array.tensor()));
}

void State::reset() {
  const nb::gil_scoped_release unlocked;
  check(api().state_reset(handle_.get()));
}

void State::save(const std::string& path) const {
  const nb::gil_scoped_release unlocked;
  check(api().state_save(handle_.get(), path.c_str()));
}

void State::load(const std::string& path) {
  const nb::gil_scoped_release unlocked;
  check(api().state_load(handle_.get(), path.c_str()));
}

Binding::Binding(ContextHandle context, int entry, std::vector<Array> inputs, std::vector<Array> outputs)
    : context_(std::move(context)),
      entry_(entry),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      input_tensors_(tensors_of(inputs_)),
      output_tensors_(tensors_of(outputs_)) {}

void Binding::run() {
  const nb::gil_scoped_release unlocked;
  const std::lock_guard<std::mutex> alone(running_);
  check(api().run_entry(context_.get(), entry_, input_tensors_.data(), output_tensors_.data()));
}

void Binding::run_async(uintptr_t stream) {
  const nb::gil_scoped_release unlocked;
  const std::lock_guard<std::mutex> alone(running_);
  check(api().run_async(context_.get(), entry_, input_tensors_.data(), output_tensors_.data(),
                        reinterpret_cast<void*>(stream)));
}

std::vector<uint64_t> Binding::measure(size_t count) {
  std::vector<uint64_t> times(count);
  const nb::gil_scoped_release unlocked;
  const std::lock_guard<std::mutex> alone(running_);
  check(
      api().measure_entry(context_.get(), entry_, input_tensors_.data(), output_tensors_.data(), times.data(), count));
  return times;
}

std::unique_ptr<Model> Model::load_file(const std::string& path, const LoadOptions& options) {
  const TwOptions raw = raw_options(options);
  TwModel* model = nullptr;
  const nb::gil_scoped_release unlocked;
  check(api().model_load_file(path.c_str(), &raw, &model));
  return loaded(ModelHandle(model), options);
}

std::unique_ptr<Model> Model::load_bytes(nb::handle bytes, const LoadOptions& options) {
  const TwOptions raw = raw_options(options);
  const Array array(bytes, "the artefact's bytes", Access::kRead);
  const DLTensor& tensor = array.tensor();
  size_t size = tensor.dtype.bits / 8u;
  for (int i = 0; i < tensor.ndim; ++i) size *= static_cast<size_t>(tensor.shape[i]);
  TwModel* model = nullptr;
  const nb::gil_scoped_release unlocked;
  check(api().model_load_memory(tensor.data, size, &raw, &model));
  return loaded(ModelHandle(model), options);
}

std::unique_ptr<Model> Model::loaded(ModelHandle model, const LoadOptions& options) {
  std::shared_ptr<State> state = make_state(model.get());
  return std::unique_ptr<Model>(new Model(std::move(model), options, 0, std::move(state)));
}

Model::Model(SharedModel model, const LoadOptions& options, int function, std::shared_ptr<State> state)
    : model_(std::move(model)),
      options_(options),
      function_(function),
      info_(function_info(model_.get(), function)),
      input_names_(names_of(inputs(0))),
      output_names_(names_of(outputs(0))),
      state_(std::move(state)) {}

std::vector<std::string> Model::functions() const {
  std::vector<std::string> names;
  for (int f = 0; f < api().function_count(model_.get()); ++f) names.emplace_back(function_info(model_.get(), f).name);
  return names;
}

std::unique_ptr<Model> Model::function(const std::string& name) const {
  int32_t found = 0;
  check(api().find_function(model_.get(), name.c_str(), &found));
  return std::unique_ptr<Model>(new Model(model_, options_, found, state_));
}

std::vector<std::string> Model::entries() const {
  std::vector<std::string> names;
  for (int i = 0; i < info_.entry_count; ++i) names.emplace_back(api().entry_name(model_.get(), info_.first_entry + i));
  return names;
}

std::vector<Tensor> Model::describe(int count, int entry, decltype(TwApi::input_info) query) const {
  std::vector<Tensor> tensors;
  for (int i = 0; i < count; ++i) {
    TwTensorInfo info = empty_info();
    check(query(model_.get(), info_.first_entry + entry, i, &info));
    tensors.push_back(tensor_of(info));
  }
  return tensors;
}

std::vector<Tensor> Model::inputs(int entry) const { return describe(info_.input_count, entry, api().input_info); }

std::vector<Tensor> Model::outputs(int entry) const { return describe(info_.output_count, entry, api().output_info); }

ContextHandle Model::make_context(Profile profile) const {
  TwOptions raw = raw_options(options_);
  raw.profile = profile == Profile::kYes ? 1 : 0;
  raw.state = state_ == nullptr ? nullptr : state_->handle();
  TwContext* context = nullptr;
  check(api().context_create(model_.get(), &raw, &context));
  return ContextHandle(context);
}

ContextHandle Model::take_context() {
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    if (!idle_.empty()) {
      ContextHandle context = std::move(idle_.back());
      idle_.pop_back();
      return context;
    }
  }
  return make_context(Profile::kNo);
}

void Model::give_context(ContextHandle context) {
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  idle_.push_back(std::move(context));
}

std::vector<Array> Model::arrays(const nb::list& given, const std::vector<std::string>& names, Access access) const {
  std::vector<Array> arrays;
  arrays.reserve(names.size());
  if (given.size() != names.size()) {
    throw nb::value_error("as many arrays are expected as the model has inputs or outputs");
  }
  for (size_t i = 0; i < names.size(); ++i) arrays.emplace_back(given[i], names[i], access);
  return arrays;
}

int Model::entry_of(const std::vector<DLTensor>& inputs) const {
  int32_t entry = 0;
  check(api().find_entry_of(model_.get(), function_, inputs.data(), static_cast<int32_t>(inputs.size()), &entry));
  return entry;
}

std::vector<Result> Model::results(int entry, const std::vector<DLTensor>& inputs) const {
  std::vector<Result> results;
  results.reserve(output_names_.size());
  for (size_t i = 0; i < output_names_.size(); ++i) {
    const auto output = static_cast<int32_t>(i);
    TwTensorInfo info = empty_info();
    check(api().output_info(model_.get(), entry, output, &info));
    std::vector<int64_t> shape(static_cast<size_t>(info.ndim));
    check(api().output_shape(model_.get(), entry, inputs.data(), output, shape.data()));
    results.emplace_back(info.dtype, shape.data(), info.ndim);
  }
  return results;
}

int Model::find_entry(const nb::list& inputs, Access access) const {
  const std::vector<Array> given = arrays(inputs, input_names_, access);
  return entry_of(tensors_of(given)) - info_.first_entry;
}

/// execute(entry, inputs, outputs) runs without the GIL.
template <typename Execute>
nb::list Model::run_with(const nb::list& inputs, Kind kind, Execute execute) const {
  const std::vector<Array> given = arrays(inputs, input_names_, Access::kRead);
  const std::vector<DLTensor> in = tensors_of(given);
  const int entry = entry_of(in);
  std::vector<Result> made = results(entry, in);
  const std::vector<DLTensor> out = tensors_of_results(made);
  {
    const nb::gil_scoped_release unlocked;
    execute(entry, in.data(), out.data());
  }
  return released(made, kind);
}

nb::list Model::run(const nb::list& inputs, Kind kind) {
  return run_with(inputs, kind, [this](int entry, const DLTensor* in, const DLTensor* out) {
    ContextHandle context = take_context();
    check(api().run_entry(context.get(), entry, in, out));
    give_context(std::move(context));
  });
}

std::pair<nb::list, StepTimes> Model::run_profiled(const nb::list& inputs, Kind kind) {
  StepTimes times;
  nb::list outputs = run_with(inputs, kind, [&](int entry, const DLTensor* in, const DLTensor* out) {
    const std::lock_guard<std::mutex> alone(profiling_);
    if (profiled_ == nullptr) {
      profiled_ = make_context(Profile::kYes);
      // The first run of a context touches its memory for the first time, too. Where there is state, it counts as any.
      if (state_ == nullptr) check(api().run_entry(profiled_.get(), entry, in, out));
    }
    check(api().run_entry(profiled_.get(), entry, in, out));
    times = last_profile(profiled_.get());
  });
  return {std::move(outputs), std::move(times)};
}

/// execute(context, entry, inputs, outputs) runs without the GIL.
template <typename Execute>
void Model::run_into_with(const nb::list& inputs, const nb::list& outputs, Execute execute) {
  const std::vector<Array> given = arrays(inputs, input_names_, Access::kRead);
  const std::vector<Array> wanted = arrays(outputs, output_names_, Access::kWrite);
  const std::vector<DLTensor> in = tensors_of(given);
  const std::vector<DLTensor> out = tensors_of(wanted);
  const int entry = entry_of(in);
  const nb::gil_scoped_release unlocked;
  ContextHandle context = take_context();
  check(execute(context.get(), entry, in.data(), out.data()));
  give_context(std::move(context));
}

void Model::run_into(const nb::list& inputs, const nb::list& outputs) {
  run_into_with(inputs, outputs, api().run_entry);
}

void Model::run_async(const nb::list& inputs, const nb::list& outputs, uintptr_t stream) {
  run_into_with(inputs, outputs, [stream](TwContext* context, int entry, const DLTensor* in, const DLTensor* out) {
    return api().run_async(context, entry, in, out, reinterpret_cast<void*>(stream));
  });
}

nb::list Model::empty_outputs(const nb::list& inputs, Access access, Kind kind) const {
  const std::vector<Array> given = arrays(inputs, input_names_, access);
  const std::vector<DLTensor> in = tensors_of(given);
  std::vector<Result> made = results(entry_of(in), in);
  return released(made, kind);
}

std::unique_ptr<Binding> Model::bind(const nb::list& inputs, const nb::list& outputs) {
  std::vector<Array> given = arrays(inputs, input_names_, Access::kKeep);
  std::vector<Array> wanted = arrays(outputs, output_names_, Access::kWrite);
  const int entry = entry_of(tensors_of(given));
  ContextHandle context = make_context(Profile::kNo);
  return std::make_unique<Binding>(std::move(context), entry, std::move(given), std::move(wanted));
}

int Model::threads() {
  ContextHandle context = take_context();
  const int threads = api().context_threads(context.get());
  give_context(std::move(context));
  return threads;
}

}  // namespace tw::python
