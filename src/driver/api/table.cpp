// The table of tilewright/compiler.h: arguments checked, errors as status objects, nothing else.
#include "driver/api/compilation.h"
#include "driver/api/options.h"
#include "driver/api/status.h"
#include "driver/api/tensors.h"

namespace tw::driver::api {
namespace {

std::string text_of(const char* text, const char* what) {
  require(text != nullptr, what);
  return text;
}

const TwCompileOptions& or_defaults(const TwCompileOptions* options) {
  static const TwCompileOptions defaults;
  return options == nullptr ? defaults : *options;
}

TwCompileOptions& changeable(TwCompileOptions* options) {
  require(options != nullptr, "the options are NULL");
  return *options;
}

template <typename Make>
TwCompilerStatus* make_compilation(TwCompilation** compilation, const Make& make) {
  return guarded([&] {
    require(compilation != nullptr, "there is no place for the compilation: NULL");
    *compilation = make();
  });
}

TwCompilerStatus* options_create(TwCompileOptions** options) {
  return guarded([&] {
    require(options != nullptr, "there is no place for the options: NULL");
    *options = new TwCompileOptions;
  });
}

TwCompilerStatus* options_set(TwCompileOptions* options, const char* name, const char* text) {
  return guarded([&] {
    set_option(changeable(options), text_of(name, "the option's name is NULL"), text_of(text, "the value is NULL"));
  });
}

TwCompilerStatus* options_set_shape(TwCompileOptions* options, size_t entry, const char* input, const int64_t* shape,
                                    int32_t ndim) {
  return guarded([&] {
    require(ndim >= 0 && (shape != nullptr || ndim == 0), "the shape is NULL or its rank negative");
    const int64_t* const none = nullptr;
    const int64_t* const end = shape == nullptr ? none : shape + ndim;
    set_shape(changeable(options), entry, text_of(input, "the input's name is NULL"), Shape(shape, end));
  });
}

TwCompilerStatus* options_set_dimension(TwCompileOptions* options, size_t entry, const char* name, int64_t value) {
  return guarded(
      [&] { set_dimension(changeable(options), entry, text_of(name, "the dimension's name is NULL"), value); });
}

TwCompilerStatus* options_set_constant(TwCompileOptions* options, const char* name, const DLTensor* tensor) {
  return guarded([&] {
    require(tensor != nullptr, "the tensor is NULL");
    set_constant(changeable(options), text_of(name, "the input's name is NULL"), *tensor);
  });
}

TwCompilerStatus* options_set_state(TwCompileOptions* options, const char* input, const char* output,
                                    const DLTensor* initial) {
  return guarded([&] {
    StatePair state{text_of(input, "the input's name is NULL"), text_of(output, "the output's name is NULL")};
    set_state(changeable(options), std::move(state), initial);
  });
}

TwCompilerStatus* options_set_plan(TwCompileOptions* options, const char* text) {
  return guarded([&] { changeable(options).values.plan_text = text_of(text, "the plan is NULL"); });
}

TwCompilerStatus* compile_path(const char* path, const TwCompileOptions* options, const TwCompileCallbacks* callbacks,
                               TwCompilation** compilation) {
  return make_compilation(
      compilation, [&] { return compile_file(text_of(path, "the path is NULL"), or_defaults(options), callbacks); });
}

TwCompilerStatus* compile_memory(const void* bytes, size_t size, const char* data_directory,
                                 const TwCompileOptions* options, const TwCompileCallbacks* callbacks,
                                 TwCompilation** compilation) {
  return make_compilation(compilation, [&] {
    require(bytes != nullptr || size == 0, "the model's bytes are NULL");
    const std::span model(static_cast<const std::byte*>(bytes), size);
    return compile_bytes(model, data_directory == nullptr ? "" : data_directory, or_defaults(options), callbacks);
  });
}

std::shared_ptr<const frontend::Weights> weights_of(const TwNamedTensor* weights, size_t count) {
  require(weights != nullptr || count == 0, "the weights are NULL");
  auto all = std::make_shared<frontend::Weights>();
  for (size_t i = 0; i < count; ++i) {
    const std::string name = text_of(weights[i].name, "a weight has no name");
    const bool fresh = all->emplace(name, to_weight(fmt::format("weight '{}'", name), weights[i].tensor)).second;
    if (!fresh) throw UsageError("weight '{}' is given twice", name);
  }
  return all;
}

TwCompilerStatus* refit_memory(const void* artefact, size_t size, const TwNamedTensor* weights, size_t count,
                               const TwCompileCallbacks* callbacks, TwCompilation** compilation) {
  return make_compilation(compilation, [&] {
    require(artefact != nullptr || size == 0, "the artefact's bytes are NULL");
    return refit({static_cast<const uint8_t*>(artefact), size}, weights_of(weights, count), callbacks);
  });
}

TwCompilerStatus* refit_path(const char* artefact, const char* weights, const char* output,
                             const TwCompileCallbacks* callbacks) {
  return guarded([&] {
    refit_file(text_of(artefact, "the artefact's path is NULL"), text_of(weights, "the weights' path is NULL"),
               text_of(output, "the output's path is NULL"), callbacks);
  });
}

void compilation_artefact(const TwCompilation* compilation, const void** bytes, size_t* size) {
  *size = compilation->artefact.size();
  *bytes = compilation->artefact.empty() ? nullptr : compilation->artefact.data();
}

TwCompilerStatus* compilation_summary(const TwCompilation* compilation, TwCompileSummary* summary) {
  return guarded([&] { hand_out(compilation->summary, summary); });
}

TwCompilerStatus* compilation_write(const TwCompilation* compilation, const char* path) {
  return guarded([&] {
    require(compilation != nullptr, "there is no compilation: NULL");
    write(*compilation, text_of(path, "the path is NULL"));
  });
}

constexpr TwCompilerApi kTable = {
    .version = TW_COMPILER_API_VERSION,
    .struct_size = sizeof(TwCompilerApi),
    .version_string = [] { return TW_VERSION; },
    .status_kind = [](const TwCompilerStatus* s) { return s == nullptr ? TW_COMPILER_OK : s->kind; },
    .status_message = [](const TwCompilerStatus* s) { return s == nullptr ? "" : s->message.c_str(); },
    .status_details = [](const TwCompilerStatus* s) { return s == nullptr ? "{}" : s->details.c_str(); },
    .status_free = free_status,
    .option_count = option_count,
    .option_info = [](size_t index,
                      TwOptionInfo* info) { return guarded([&] { hand_out(option_info(index), info); }); },
    .target_count = target_count,
    .target_name = target_name,
    .options_create = options_create,
    .options_free = [](TwCompileOptions* options) { delete options; },
    .options_set = options_set,
    .options_set_shape = options_set_shape,
    .options_set_dimension = options_set_dimension,
    .options_set_constant = options_set_constant,
    .options_set_state = options_set_state,
    .options_set_plan = options_set_plan,
    .compile_file = compile_path,
    .compile_bytes = compile_memory,
    .refit = refit_memory,
    .refit_file = refit_path,
    .compilation_free = [](TwCompilation* compilation) { delete compilation; },
    .compilation_artefact = compilation_artefact,
    .compilation_plan = [](const TwCompilation* compilation) { return compilation->plan.c_str(); },
    .compilation_report = [](const TwCompilation* compilation) { return compilation->report.c_str(); },
    .compilation_summary = compilation_summary,
    .compilation_write = compilation_write,
};

}  // namespace
}  // namespace tw::driver::api

extern "C" const TwCompilerApi* tw_get_compiler_api(uint32_t version) {
  return version <= TW_COMPILER_API_VERSION ? &tw::driver::api::kTable : nullptr;
}
