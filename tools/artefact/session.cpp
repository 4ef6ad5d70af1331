#include "artefact/session.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "support/error.h"
#include "tilewright/runtime.h"

namespace tw::artefact {
namespace {

const TwApi& api() {
  const TwApi* table = tw_get_api(TW_API_VERSION);
  TW_CHECK(table != nullptr, "the runtime is older than its header");
  return *table;
}

void check(TwStatus* status) {
  if (status == nullptr) return;
  const RuntimeFailure failure(api().status_exit_code(status), api().status_message(status));
  api().status_free(status);
  throw failure;
}

DLDataType dl_type(DataType type) {
  const auto bits = static_cast<uint8_t>(type.bits());
  if (type.is_bool()) return {kDLBool, 8, 1};
  if (type == DataType::bf16()) return {kDLBfloat, 16, 1};
  if (type.is_float()) return {kDLFloat, bits, 1};
  return {static_cast<uint8_t>(type.is_signed_int() ? kDLInt : kDLUInt), bits, 1};
}

DataType from_dl(DLDataType type) {
  for (int s = 0; s <= static_cast<int>(ScalarType::kF64); ++s) {
    const DataType candidate(static_cast<ScalarType>(s));
    const DLDataType dl = dl_type(candidate);
    if (dl.code == type.code && dl.bits == type.bits) return candidate;
  }
  throw InternalError("the runtime names an unknown element type");
}

DLTensor dl_tensor(const Array& array) {
  DLTensor tensor{};
  tensor.data = const_cast<std::byte*>(array.bytes.data());  // DLPack knows no const
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(array.type.shape.size());
  tensor.dtype = dl_type(array.type.type);
  tensor.shape = const_cast<int64_t*>(array.type.shape.data());
  return tensor;
}

using Notice = std::function<void(const std::string& sentence)>;

TwOptions runtime_options(const SessionOptions& options, Notice* notice) {
  TwOptions out{};
  out.struct_size = sizeof(out);
  out.threads = options.threads;
  out.profile = options.profile ? 1 : 0;
  out.level = options.level.c_str();
  out.trusted_keys = "";
  if (notice == nullptr || !*notice) return out;
  out.log_user = notice;
  out.log = [](void* user, TwLogLevel level, const char* message) {
    if (level == TW_LOG_WARNING) (*static_cast<Notice*>(user))(message);
  };
  return out;
}

TwFunctionInfo function_info(const TwModel* model, int32_t function) {
  TwFunctionInfo info{};
  info.struct_size = sizeof(info);
  check(api().function_info(model, function, &info));
  return info;
}

NamedType named(const TwTensorInfo& info) {
  return {info.name, {from_dl(info.dtype), Shape(info.shape, info.shape + info.ndim)}};
}

}  // namespace

Array to_array(const graph::RefTensor& tensor) { return {tensor.type, tensor.to_bytes()}; }
graph::RefTensor to_reference(const Array& array) { return graph::RefTensor::from_bytes(array.type, array.bytes); }

struct Session::Bound {
  int32_t entry = 0;
  std::vector<Array> inputs;
  std::vector<Array> outputs;
  std::vector<DLTensor> input_tensors;
  std::vector<DLTensor> output_tensors;
};

void Session::Deleter::operator()(TwModel* model) const { api().model_free(model); }
void Session::Deleter::operator()(TwContext* context) const { api().context_free(context); }
void Session::Deleter::operator()(TwState* state) const { api().state_free(state); }

Session::Session(TwModel* model, const TwOptions& options, std::unique_ptr<Notice> notice)
    : notice_(std::move(notice)), model_(model) {
  TwContext* context = nullptr;
  check(api().context_create(model, &options, &context));
  context_.reset(context);
  TwState* state = nullptr;
  check(api().context_state(context, &state));
  state_.reset(state);
}

Session Session::load_memory(const std::vector<uint8_t>& bytes, const SessionOptions& options) {
  auto notice = std::make_unique<Notice>(options.notice);
  const TwOptions out = runtime_options(options, notice.get());
  TwModel* model = nullptr;
  check(api().model_load_memory(bytes.data(), bytes.size(), &out, &model));
  Session session(model, out, std::move(notice));
  session.choose(options.function);
  return session;
}

void Session::choose(const std::string& function) {
  if (!function.empty()) check(api().find_function(model_.get(), function.c_str(), &function_));
}

std::vector<std::string> Session::functions() const {
  std::vector<std::string> names;
  for (int f = 0; f < api().function_count(model_.get()); ++f) names.emplace_back(function_info(model_.get(), f).name);
  return names;
}

bool Session::changes_states() const { return function_info(model_.get(), function_).changes_state != 0; }

std::vector<int> Session::own_entries() const {
  const TwFunctionInfo info = function_info(model_.get(), function_);
  std::vector<int> entries(static_cast<size_t>(info.entry_count));
  std::iota(entries.begin(), entries.end(), info.first_entry);
  return entries;
}

std::vector<std::string> Session::entries() const {
  std::vector<std::string> names;
  for (int e = 0; e < api().entry_count(model_.get()); ++e) names.emplace_back(api().entry_name(model_.get(), e));
  return names;
}

std::vector<NamedType> Session::inputs(int entry) const {
  std::vector<NamedType> all;
  for (int i = 0; i < function_info(model_.get(), function_).input_count; ++i) {
    TwTensorInfo info{};
    info.struct_size = sizeof(info);
    check(api().input_info(model_.get(), entry, i, &info));
    all.push_back(named(info));
  }
  std::ranges::copy(states(), std::back_inserter(all));
  return all;
}

std::vector<NamedType> Session::inputs(int entry, const std::map<std::string, Shape>& given) const {
  std::vector<NamedType> all = inputs(entry);
  const auto extent_of = [&](size_t input, size_t dim) {
    TwExtentInfo info{};
    info.struct_size = sizeof(info);
    check(api().input_extent(model_.get(), entry, static_cast<int32_t>(input), static_cast<int32_t>(dim), &info));
    return info;
  };
  const size_t count = all.size() - static_cast<size_t>(api().state_count(model_.get()));
  std::map<std::string, int64_t> extents;
  for (size_t i = 0; i < count; ++i) {
    const auto found = given.find(all[i].name);
    if (found == given.end() || found->second.size() != all[i].type.shape.size()) continue;
    for (size_t d = 0; d < found->second.size(); ++d) {
      const TwExtentInfo info = extent_of(i, d);
      if (*info.name != 0) extents.emplace(info.name, std::clamp(found->second[d] / info.times, info.least, info.most));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < all[i].type.shape.size(); ++d) {
      const TwExtentInfo info = extent_of(i, d);
      if (const auto extent = extents.find(info.name); extent != extents.end())
        all[i].type.shape[d] = extent->second * info.times;
    }
  }
  return all;
}

// Of the shapes that the bound inputs say.
std::vector<NamedType> Session::outputs_for(const Bound& bound) const {
  std::vector<NamedType> all = outputs(bound.entry);
  const size_t count = all.size() - static_cast<size_t>(api().state_count(model_.get()));
  for (size_t o = 0; o < count; ++o)
    check(api().output_shape(model_.get(), bound.entry, bound.input_tensors.data(), static_cast<int32_t>(o),
                             all[o].type.shape.data()));
  return all;
}

std::vector<NamedType> Session::states() const {
  std::vector<NamedType> all;
  for (int s = 0; s < api().state_count(model_.get()); ++s) {
    TwTensorInfo info{};
    info.struct_size = sizeof(info);
    check(api().state_info(model_.get(), s, &info));
    all.push_back(named(info));
  }
  return all;
}

std::vector<Array> Session::initial_states() const {
  TwState* state = nullptr;
  check(api().state_create(model_.get(), nullptr, &state));
  const std::unique_ptr<TwState, Deleter> fresh(state);
  return get_states(state);
}

void Session::set_states(std::span<const Array> values) {
  for (size_t s = 0; s < values.size(); ++s) {
    const DLTensor tensor = dl_tensor(values[s]);
    check(api().state_set(state_.get(), static_cast<int32_t>(s), &tensor));
  }
}

std::vector<Array> Session::get_states(TwState* state) const {
  std::vector<Array> values;
  for (const NamedType& type : states()) {
    values.push_back({type.type, std::vector<std::byte>(static_cast<size_t>(type.type.bytes()))});
    const DLTensor tensor = dl_tensor(values.back());
    check(api().state_get(state, static_cast<int32_t>(values.size()) - 1, &tensor));
  }
  return values;
}

std::vector<NamedType> Session::outputs(int entry) const {
  std::vector<NamedType> all;
  for (int i = 0; i < function_info(model_.get(), function_).output_count; ++i) {
    TwTensorInfo info{};
    info.struct_size = sizeof(info);
    check(api().output_info(model_.get(), entry, i, &info));
    all.push_back(named(info));
  }
  std::ranges::copy(states(), std::back_inserter(all));
  return all;
}

std::string Session::target() const { return api().model_target(model_.get()); }

int Session::threads() const { return api().context_threads(context_.get()); }

int Session::find_entry(const std::vector<Array>& inputs) const {
  std::vector<DLTensor> tensors;
  for (const Array& a : inputs) tensors.push_back(dl_tensor(a));
  int32_t entry = 0;
  const auto own = static_cast<int32_t>(tensors.size()) - api().state_count(model_.get());
  check(api().find_entry_of(model_.get(), function_, tensors.data(), own, &entry));
  return entry;
}

void Session::bind(std::vector<Array> inputs) {
  auto bound = std::make_shared<Bound>();
  bound->inputs = std::move(inputs);
  for (Array& a : bound->inputs) bound->input_tensors.push_back(dl_tensor(a));
  bound->entry = find_entry(bound->inputs);
  for (const NamedType& out : outputs_for(*bound))
    bound->outputs.push_back({out.type, std::vector<std::byte>(out.type.bytes())});
  for (Array& a : bound->outputs) bound->output_tensors.push_back(dl_tensor(a));
  set_states(std::span(bound->inputs).last(static_cast<size_t>(api().state_count(model_.get()))));
  bound_ = std::move(bound);
}

void Session::run_bound() {
  check(api().run_entry(context_.get(), bound_->entry, bound_->input_tensors.data(), bound_->output_tensors.data()));
}

std::vector<double> Session::measure_bound(size_t count) {
  std::vector<uint64_t> ns(count);
  check(api().measure_entry(context_.get(), bound_->entry, bound_->input_tensors.data(), bound_->output_tensors.data(),
                            ns.data(), count));
  std::vector<double> ms;
  for (const uint64_t time : ns) ms.push_back(static_cast<double>(time) / 1e6);
  return ms;
}

std::vector<Array> Session::run(const std::vector<Array>& inputs) {
  bind(inputs);
  run_bound();
  std::vector<Array> kept = get_states(state_.get());
  std::ranges::move(kept, bound_->outputs.end() - std::ssize(kept));
  return bound_->outputs;
}

std::vector<StepTime> Session::last_profile() const {
  size_t count = 0;
  check(api().last_profile(context_.get(), nullptr, 0, &count));
  std::vector<TwStepTime> steps(count);
  check(api().last_profile(context_.get(), steps.data(), count, &count));
  std::vector<StepTime> out;
  for (const TwStepTime& step : steps) out.push_back({step.name, static_cast<double>(step.ns) / 1000.0});
  return out;
}

int Session::bound_entry() const { return bound_ == nullptr ? 0 : bound_->entry; }

std::vector<std::string> Session::buffer_names() const {
  std::vector<std::string> names;
  for (int b = 0; b < api().buffer_count(model_.get(), bound_entry()); ++b) {
    TwBufferInfo info{};
    info.struct_size = sizeof(info);
    check(api().buffer_info(model_.get(), bound_entry(), b, &info));
    names.emplace_back(info.readable ? info.name : "");
  }
  return names;
}

std::vector<std::byte> Session::read_buffer(int index) const {
  TwBufferInfo info{};
  info.struct_size = sizeof(info);
  check(api().buffer_info(model_.get(), bound_entry(), index, &info));
  std::vector<std::byte> bytes(info.bytes);
  check(api().read_buffer(context_.get(), index, bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace tw::artefact
