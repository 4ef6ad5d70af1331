// include/tilewright/compiler.h over driver/compile.h: options and errors translated, nothing else.
#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include "driver/compile.h"
#include "driver/compile_cache.h"
#include "driver/option_table.h"
#include "driver/refit.h"
#include "frontend/onnx/import.h"
#include "ops/list.h"
#include "runtime/format/atomic_file.h"
#include "runtime/format/error.h"
#include "support/error.h"
#include "support/mapped_file.h"
#include "targets/registry.h"
#include "tilewright/compiler.h"
#include "tilewright/refit.h"

namespace tilewright {
namespace {

ErrorKind kind_of(tw::format::ErrorCode code) {
  using enum tw::format::ErrorCode;
  if (code == kInvalidArgument) return ErrorKind::kUsage;
  if (code == kOutOfMemory || code == kDiskFull) return ErrorKind::kExhausted;
  if (code == kDamaged || code == kIncompatible) return ErrorKind::kArtefact;
  return code == kInternal ? ErrorKind::kInternal : ErrorKind::kFailure;
}

tw::DataType element_type(const std::string& what, DLDataType type) {
  using tw::DataType;
  using tw::ScalarType;
  if (type.lanes == 1) {
    for (int s = 0; s <= static_cast<int>(ScalarType::kF64); ++s) {
      const DataType candidate(static_cast<ScalarType>(s));
      const int code = candidate.is_bool()             ? kDLBool
                       : candidate == DataType::bf16() ? kDLBfloat
                       : candidate.is_float()          ? kDLFloat
                       : candidate.is_signed_int()     ? kDLInt
                                                       : kDLUInt;
      if (code == type.code && candidate.bits() == type.bits) return candidate;
    }
  }
  throw tw::UsageError("{}: element type (code {}, {} bits, {} lanes) is not supported", what,
                       static_cast<int>(type.code), static_cast<int>(type.bits), static_cast<int>(type.lanes));
}

bool is_compact(const DLTensor& tensor, const tw::Shape& shape) {
  if (tensor.strides == nullptr) return true;
  const tw::Shape wanted = tw::row_major_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && tensor.strides[d] != wanted[d]) return false;
  }
  return true;
}

// Type and elements of `what`, a tensor of the caller's.
std::pair<tw::TensorType, std::span<const std::byte>> contents_of(const std::string& what, const DLTensor& tensor) {
  tw::TensorType type{element_type(what, tensor.dtype), {}};
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) throw tw::UsageError("{} has no shape", what);
  type.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  for (const int64_t extent : type.shape) {
    if (extent < 0) throw tw::UsageError("{} has a negative extent", what);
  }
  if (tensor.device.device_type != kDLCPU) throw tw::UsageError("{} is not in CPU memory", what);
  if (!is_compact(tensor, type.shape)) throw tw::UsageError("{} is not compact and row-major", what);
  if (tensor.data == nullptr && type.elements() > 0) throw tw::UsageError("{} has no data", what);
  const auto* data = static_cast<const std::byte*>(tensor.data) + (type.elements() > 0 ? tensor.byte_offset : 0);
  return {type, {data, static_cast<size_t>(type.bytes())}};
}

tw::graph::RefTensor to_reference(const std::string& name, const DLTensor& tensor) {
  const auto [type, bytes] = contents_of(fmt::format("constant '{}'", name), tensor);
  return tw::graph::RefTensor::from_bytes(type, bytes);
}

tw::frontend::Weight to_weight(const std::string& name, const DLTensor& tensor) {
  const auto [type, bytes] = contents_of(fmt::format("weight '{}'", name), tensor);
  return {type, tw::share(std::vector<std::byte>(bytes.begin(), bytes.end()))};
}

// Fields that say what options say: their texts are set by name.
struct Field {
  std::string_view option;
  std::string_view name;
  std::vector<std::string> (*texts)(const CompileOptions&);  // null: a field that is no text, see to_driver
};

std::vector<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : std::vector{text};
}

std::vector<std::string> unless_zero(double value) {
  return value == 0 ? std::vector<std::string>() : std::vector{fmt::format("{}", value)};
}

constexpr Field kFields[] = {
    {"target", "CompileOptions::target", [](const CompileOptions& o) { return std::vector{o.target}; }},
    {"dtype", "CompileOptions::dtype", [](const CompileOptions& o) { return std::vector{o.dtype}; }},
    {"disable-pass", "CompileOptions::disabled_passes", [](const CompileOptions& o) { return o.disabled_passes; }},
    {"disable-family", "CompileOptions::disabled_families",
     [](const CompileOptions& o) { return o.disabled_families; }},
    {"dump-ir", "CompileOptions::dump_directory",
     [](const CompileOptions& o) { return unless_empty(o.dump_directory); }},
    {"compile-threads", "CompileOptions::threads", [](const CompileOptions& o) { return unless_zero(o.threads); }},
    {"db", "CompileOptions::database", [](const CompileOptions& o) { return unless_empty(o.database); }},
    {"measure-threads", "CompileOptions::measure_threads",
     [](const CompileOptions& o) { return unless_zero(o.measure_threads); }},
    {"budget", "CompileOptions::budget_seconds", [](const CompileOptions& o) { return unless_zero(o.budget_seconds); }},
    {"allow-links", "CompileOptions::link_folders", [](const CompileOptions& o) { return o.link_folders; }},
    {"max-time", "CompileOptions::max_seconds", [](const CompileOptions& o) { return unless_zero(o.max_seconds); }},
    {"max-memory", "CompileOptions::max_memory_bytes",
     [](const CompileOptions& o) {
       return unless_empty(o.max_memory_bytes == 0 ? "" : fmt::format("{}", o.max_memory_bytes));
     }},
    {"shape", "InputShapes::shapes", nullptr},
    {"dim", "InputShapes::dimensions", nullptr},
    {"const", "CompileOptions::constants", nullptr},
    {"plan", "CompileOptions::plan", nullptr},
};

// How a program calls an option.
std::string spelled(std::string_view option) {
  const auto* const field = std::ranges::find(kFields, option, &Field::option);
  return field == std::end(kFields) ? fmt::format("option '{}'", option) : std::string(field->name);
}

// A message of the compiler with its flags as a program calls them: "--dim" as "InputShapes::dimensions".
std::string in_words_of_programs(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    const size_t dashes = std::min(message.find("--"), message.size());
    const size_t from = std::min(dashes + 2, message.size());
    const size_t end = std::min(message.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", from), message.size());
    const std::string_view name = message.substr(from, end - from);
    out += message.substr(0, dashes);
    out += find_option(tw::driver::compile_options(), name) != nullptr ? spelled(name)
                                                                       : message.substr(dashes, end - dashes);
    message.remove_prefix(end);
  }
  return out;
}

tw::driver::CompileOptions to_driver(const CompileOptions& options) {
  tw::driver::CompileOptions out;
  out.machine_model.parameters = tw::driver::machine::Parameters::kMeasured;
  if (options.entries.empty()) throw tw::UsageError("CompileOptions::entries is empty: nothing to compile");
  std::map<std::string, tw::graph::RefTensor> constants;
  for (const auto& [name, tensor] : options.constants) constants[name] = to_reference(name, tensor);
  out.imports.clear();
  for (const InputShapes& entry : options.entries) {
    tw::frontend::ImportOptions import{{}, entry.dimensions, constants};
    for (const auto& [name, shape] : entry.shapes) import.shapes[name] = shape;
    out.imports.push_back(std::move(import));
  }
  out.plan_text = options.plan;
  out.tuning.worker = options.worker;
  out.cubins.worker = options.worker;
  if (!options.worker.empty()) out.cubins.worker.emplace_back("cubins");
  out.tuning.interrupted = options.stop_measuring;
  out.progress = options.progress;
  for (const Field& field : kFields) {
    if (field.texts == nullptr) continue;
    for (const std::string& text : field.texts(options)) set_option(out, field.option, {text, field.name});
  }
  for (const auto& [name, value] : options.named) set_option(out, name, {value, spelled(name)});
  start_watch(out);
  return out;
}

// Runs `body` and turns the compiler's errors into Error.
template <typename Body>
auto translated(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const tw::UsageError& e) {
    throw Error(ErrorKind::kUsage, in_words_of_programs(e.what()));
  } catch (const tw::UserError& e) {
    throw Error(ErrorKind::kModel, in_words_of_programs(e.what()));
  } catch (const tw::Unsupported& e) {
    throw Error(ErrorKind::kModel, in_words_of_programs(e.what()));
  } catch (const tw::ResourceError& e) {
    throw Error(ErrorKind::kExhausted, in_words_of_programs(e.what()));
  } catch (const tw::format::Error& e) {
    throw Error(kind_of(e.code()), in_words_of_programs(e.what()));
  } catch (const std::filesystem::filesystem_error& e) {
    throw Error(ErrorKind::kFailure, in_words_of_programs(e.what()));
  } catch (const std::exception& e) {
    throw Error(ErrorKind::kInternal, in_words_of_programs(e.what()));
  }
}

CompileResult to_result(const tw::driver::Compiled& compiled) {
  CompileResult out;
  for (const std::string& warning : compiled.warnings) out.report.warnings.push_back(in_words_of_programs(warning));
  for (const tw::driver::PassTime& time : compiled.times)
    out.report.times.push_back({time.phase, time.pass, time.nanoseconds});
  if (compiled.plan.entries.empty()) return out;  // stopped before there was an artefact
  out.artefact = tw::driver::artefact_bytes(compiled);
  out.plan = tw::plan::to_string(compiled.plan);
  const tw::driver::CompileSummary summary = summarize(compiled);
  out.report.target = summary.target;
  out.report.opset = summary.opset;
  out.report.kernels = summary.kernels;
  out.report.groups = summary.groups;
  out.report.families.insert(summary.families.begin(), summary.families.end());
  return out;
}

}  // namespace

Error::Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
Error::~Error() = default;

CompileResult compile_file(const std::string& path, const CompileOptions& options) {
  return translated([&] { return to_result(tw::driver::compile_file(path, to_driver(options))); });
}

CompileResult compile_bytes(const void* bytes, std::size_t size, const std::string& data_directory,
                            const CompileOptions& options) {
  return translated([&] {
    const tw::driver::CompileOptions driver = to_driver(options);
    if (driver.progress) driver.progress("import", 0, 1);
    std::vector<tw::frontend::ImportResult> models;
    for (const tw::frontend::ImportOptions& import : driver.imports) {
      models.push_back(tw::frontend::import_onnx_bytes({static_cast<const std::byte*>(bytes), size}, data_directory,
                                                       tw::ops::all_ops(), import));
    }
    return to_result(tw::driver::compile_imported(models, driver));
  });
}

void write_artefact(const CompileResult& result, const std::string& path) {
  translated([&] {
    if (result.artefact.empty()) throw tw::UsageError("there is no artefact to write");
    tw::format::write_file_atomically(path, tw::format::bytes_of(result.artefact));
    return 0;
  });
}

void CompileOptions::set(const std::string& name, const std::string& value) {
  translated([&] {
    tw::driver::CompileOptions scratch;
    set_option(scratch, name, {value, spelled(name)});
    return 0;
  });
  named.emplace_back(name, value);
}

std::vector<OptionInfo> options() {
  return translated([] {
    std::vector<OptionInfo> out;
    const tw::driver::CompileOptions initial;
    for (const tw::Option<tw::driver::CompileOptions>& row : tw::driver::compile_options()) {
      const auto* const field = std::ranges::find(kFields, row.name, &Field::option);
      out.push_back({std::string(row.name), std::string(tw::kind_name(row)),
                     field == std::end(kFields) ? "" : std::string(field->name), std::string(row.choices),
                     tw::default_text(row, row.print_of(initial)), std::string(row.variable), std::string(row.help),
                     row.is_repeatable});
    }
    return out;
  });
}

std::vector<uint8_t> refit(const void* artefact, std::size_t size, const std::map<std::string, DLTensor>& weights) {
  return translated([&] {
    auto given = std::make_shared<tw::frontend::Weights>();
    for (const auto& [name, tensor] : weights) given->emplace(name, to_weight(name, tensor));
    const std::span bytes(static_cast<const uint8_t*>(artefact), size);
    const tw::driver::Refitted made = tw::driver::refit(bytes, std::move(given));
    return tw::format::serialize_artefact(made.manifest, made.sections());
  });
}

void refit_file(const std::string& artefact, const std::string& weights, const std::string& output) {
  translated([&] {
    const tw::Result<tw::MappedFile> file = tw::MappedFile::open(artefact);
    if (!file) throw tw::UsageError("'{}': {}", artefact, file.reason());
    const tw::driver::Refitted made = tw::driver::refit(file->bytes(), tw::driver::read_weights(weights));
    tw::format::write_artefact(output, made.manifest, made.sections());
    return 0;
  });
}

std::vector<std::string> target_names() {
  return translated([] { return tw::targets::target_names(); });
}

std::string version() { return TW_VERSION; }

}  // namespace tilewright

namespace {

// Runs `body`; its failure as an exit code and a message.
template <typename Body>
int reported(const Body& body, char* message, size_t capacity) {
  int code = 0;
  std::string text;
  try {
    body();
  } catch (const tilewright::Error& error) {
    code = error.exit_code();
    text = error.what();
  } catch (const std::bad_alloc&) {
    code = static_cast<int>(tilewright::ErrorKind::kExhausted);
    text = "out of memory";
  } catch (const std::exception& error) {
    code = static_cast<int>(tilewright::ErrorKind::kInternal);
    text = error.what();
  }
  if (message == nullptr || capacity == 0) return code;
  text.resize(std::min(text.size(), capacity - 1));
  std::memcpy(message, text.c_str(), text.size() + 1);
  return code;
}

}  // namespace

extern "C" int tilewright_refit_file(const char* artefact, const char* weights, const char* output, char* message,
                                     size_t message_capacity) {
  return reported(
      [&] {
        if (artefact == nullptr || weights == nullptr || output == nullptr)
          throw tilewright::Error(tilewright::ErrorKind::kUsage, "a path is null");
        tilewright::refit_file(artefact, weights, output);
      },
      message, message_capacity);
}

extern "C" int tilewright_refit(const TilewrightBytes* artefact, const TilewrightWeight* weights, size_t count,
                                const TilewrightSink* sink, char* message, size_t message_capacity) {
  return reported(
      [&] {
        const auto require = [](bool condition, const char* text) {
          if (!condition) throw tilewright::Error(tilewright::ErrorKind::kUsage, text);
        };
        require(artefact != nullptr && artefact->data != nullptr, "the artefact is null");
        require(sink != nullptr && sink->write != nullptr, "the sink is null");
        require(weights != nullptr || count == 0, "the weights are null");
        std::map<std::string, DLTensor> given;
        for (size_t i = 0; i < count; ++i) {
          require(weights[i].name != nullptr, "a weight has no name");
          const bool fresh = given.emplace(weights[i].name, weights[i].tensor).second;
          require(fresh, "a weight is given twice");
        }
        const std::vector<uint8_t> made = tilewright::refit(artefact->data, artefact->size, given);
        const bool taken = sink->write(sink->user, made.data(), made.size()) == 0;
        if (!taken) throw tilewright::Error(tilewright::ErrorKind::kFailure, "the sink took no bytes");
      },
      message, message_capacity);
}
