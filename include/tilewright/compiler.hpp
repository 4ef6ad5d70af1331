// The C++ interface of the Tilewright compiler: an ONNX model in, the bytes of an artefact out. The artefact is run by
// the runtime (tilewright/runtime.h), on this machine or another one. A header over tilewright/compiler.h, which has
// the details: nothing of the standard library crosses the boundary to libtilewright. C++17.
//
// All functions may be called from any thread, at the same time too. What fails throws tilewright::Error.
#ifndef TILEWRIGHT_COMPILER_HPP_
#define TILEWRIGHT_COMPILER_HPP_

#include <tilewright/compiler.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewright {

/// What went wrong; the values are the exit codes of the command line for the same failure.
enum class ErrorKind : int {
  kFailure = TW_COMPILER_FAILURE,      // the operating system failed to read or write
  kUsage = TW_COMPILER_USAGE,          // an option is wrong: an unknown target or pass, a plan of another model
  kModel = TW_COMPILER_MODEL,          // the model is wrong, contradicts the options, or needs what is not supported
  kArtefact = TW_COMPILER_ARTEFACT,    // an artefact is damaged, or of another version
  kExhausted = TW_COMPILER_EXHAUSTED,  // disk or memory is full, or a limit of the options is reached
  kInternal = TW_COMPILER_INTERNAL,    // a defect of Tilewright
  kCancelled = TW_COMPILER_CANCELLED,  // CompileOptions::cancel said so
};

/// what() is one or more sentences that name the node, the shapes or the option, and what to change.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::string details = "{}")
      : std::runtime_error(message), kind_(kind), details_(std::move(details)) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }
  /// A JSON object for programs, as TwCompilerApi::status_details: of an unsupported model its operators.
  const std::string& details() const { return details_; }

 private:
  ErrorKind kind_;
  std::string details_;
};

/// One combination of input shapes. What the model leaves open must be given by one of the two.
struct InputShapes {
  std::map<std::string, std::vector<int64_t>> shapes;  // whole shapes of inputs, by name
  std::map<std::string, int64_t> dimensions;           // values of symbolic dimensions, by name
};

/// What a compilation may be told. The fields are what programs use most; all of it has a name (options(), and
/// docs/reference/options.md), by which set() takes it as text.
struct CompileOptions {
  /// A name of target_names(), or several CPU levels with commas between, for one artefact that holds them all. "cpu"
  /// is this host, with what it measures: once, in about 2 s, kept in $TILEWRIGHT_CACHE_DIR or else
  /// $XDG_CACHE_HOME/tilewright; defaults where no file can be written.
  std::string target = "cpu";
  std::vector<InputShapes> entries = {{}};  // each becomes an entry of the artefact; they share weights and code
  /// Inputs that become constants of the compiled model, by name: in CPU memory, row-major and compact (strides NULL or
  /// such). Read during the call only.
  std::map<std::string, DLTensor> constants;
  /// "f32", "f16" or "bf16": what the model's f32 values are stored and multiplied as. Inputs and outputs keep their
  /// types; sums, statistics and what needs the range of f32 stay f32.
  std::string dtype = "f32";
  std::string plan;           // text of a plan to replay (CompileResult::plan of an earlier call); empty: make one
  double budget_seconds = 0;  // for measuring; 0: no limit
  std::function<bool()> stop_measuring;  // asked now and then, by any thread; true: finish with the best so far
  std::function<bool()> cancel;          // the same; true: give up with ErrorKind::kCancelled
  /// Called from the calling thread as phases go on: "import", "transform", "measure" if there is something to measure,
  /// "lower", "code", "assemble". `detail` may be empty. What these functions throw ends the call, and leaves it.
  std::function<void(std::string_view phase, int64_t done, int64_t total, std::string_view detail)> progress;
  /// Options by name, as set() adds them: above the fields, in this order.
  std::vector<std::pair<std::string, std::string>> named;

  /// Sets an option by its name: set("precision", "strict"), set("disable-pass", "fuse"). What can be given several
  /// times is given once more. Throws Error(kUsage) when there is no such option or the value is malformed.
  inline void set(const std::string& name, const std::string& value);
};

/// A row of the table of options; the fields are those of TwOptionInfo.
struct OptionInfo {
  std::string name, kind, choices, initial, variable, help;
  bool is_repeatable = false;
};

struct PassTime {
  std::string phase;  // "graph", "loop" or "code"
  std::string pass;
  int64_t nanoseconds = 0;
};

struct CompileReport {
  std::string target;  // with "cpu" resolved: "cpu:x86-64-v4"
  int64_t opset = 0;   // of the model's default domain
  int64_t groups = 0;
  int64_t kernels = 0;                      // different ones
  std::map<std::string, int64_t> families;  // schedule family -> groups that it took
  std::vector<PassTime> times;              // none when the artefact was in the cache
  std::vector<std::string> warnings;
  bool cached = false;
  std::string json;  // TwCompilerApi::compilation_report
};

/// Bytes that somebody else keeps.
struct Bytes {
  const uint8_t* data = nullptr;
  std::size_t size = 0;
  bool empty() const { return size == 0; }
  const uint8_t* begin() const { return data; }
  const uint8_t* end() const { return size == 0 ? data : data + size; }
};

struct CompileResult {
  /// The bytes of a .tw file, as long as this result or a copy of it lives; the same model, options and build give the
  /// same bytes. None with the option "stop-after".
  Bytes artefact;
  std::string plan;  // text of all decisions
  CompileReport report;
  std::shared_ptr<const TwCompilation> compilation;  // holds the bytes
};

// How the C interface is called.
namespace detail {

inline const TwCompilerApi& api() {
  static const TwCompilerApi* const table = tw_get_compiler_api(TW_COMPILER_API_VERSION);
  if (table == nullptr) throw Error(ErrorKind::kUsage, "libtilewright is older than this program");
  return *table;
}

inline void check(TwCompilerStatus* status) {
  if (status == nullptr) return;
  const std::unique_ptr<TwCompilerStatus, void (*)(TwCompilerStatus*)> owner(status, api().status_free);
  throw Error(static_cast<ErrorKind>(api().status_kind(status)), api().status_message(status),
              api().status_details(status));
}

struct Free {
  void operator()(TwCompileOptions* options) const { api().options_free(options); }
  void operator()(TwCompilation* compilation) const { api().compilation_free(compilation); }
};
using Options = std::unique_ptr<TwCompileOptions, Free>;

inline Options make_options() {
  TwCompileOptions* made = nullptr;
  check(api().options_create(&made));
  return Options(made);
}

inline void set(const Options& options, const std::string& name, const std::string& text) {
  check(api().options_set(options.get(), name.c_str(), text.c_str()));
}

inline void set_entry(const Options& options, std::size_t index, const InputShapes& entry) {
  for (const auto& [name, shape] : entry.shapes)
    check(
        api().options_set_shape(options.get(), index, name.c_str(), shape.data(), static_cast<int32_t>(shape.size())));
  for (const auto& [name, value] : entry.dimensions)
    check(api().options_set_dimension(options.get(), index, name.c_str(), value));
}

// Whatever the program's locale is.
inline std::string to_text(double number) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << number;
  return text.str();
}

inline Options to_options(const CompileOptions& given) {
  Options options = make_options();
  set(options, "target", given.target);
  set(options, "dtype", given.dtype);
  if (given.budget_seconds != 0) set(options, "budget", to_text(given.budget_seconds));
  if (given.entries.empty()) throw Error(ErrorKind::kUsage, "CompileOptions::entries is empty: nothing to compile");
  for (std::size_t i = 0; i < given.entries.size(); ++i) set_entry(options, i, given.entries[i]);
  for (const auto& [name, tensor] : given.constants)
    check(api().options_set_constant(options.get(), name.c_str(), &tensor));
  check(api().options_set_plan(options.get(), given.plan.c_str()));
  for (const auto& [name, value] : given.named) set(options, name, value);
  return options;
}

/// The functions of the options, as the C interface calls them. What they throw waits here: it does not pass through
/// the library, which is told to give up.
class Callbacks {
 public:
  explicit Callbacks(const CompileOptions& options) : options_(options) {
    table_.struct_size = sizeof(table_);
    table_.user = this;
    if (options.progress) table_.progress = &progress;
    if (options.stop_measuring) table_.stop = &stop;
    if (options.progress || options.stop_measuring || options.cancel) table_.cancel = &cancel;
  }
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  const TwCompileCallbacks* table() const { return &table_; }

  /// The outcome of a call that had these callbacks.
  void check(TwCompilerStatus* status) {
    if (thrown_ && status != nullptr) {
      api().status_free(status);
      std::rethrow_exception(thrown_);
    }
    detail::check(status);
  }

 private:
  template <typename Body>
  static int32_t ask(void* user, const Body& body) {
    auto* const self = static_cast<Callbacks*>(user);
    try {
      return body(self->options_) ? 1 : 0;
    } catch (...) {
      const std::lock_guard<std::mutex> lock(self->mutex_);
      if (!self->thrown_) self->thrown_ = std::current_exception();
      return 1;
    }
  }
  bool has_thrown() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return thrown_ != nullptr;
  }

  static void progress(void* user, const char* phase, int64_t done, int64_t total, const char* detail) {
    ask(user, [&](const CompileOptions& options) {
      options.progress(phase, done, total, detail == nullptr ? "" : detail);
      return false;
    });
  }
  static int32_t stop(void* user) {
    return ask(user, [](const CompileOptions& options) { return options.stop_measuring(); });
  }
  static int32_t cancel(void* user) {
    if (static_cast<Callbacks*>(user)->has_thrown()) return 1;
    return ask(user, [](const CompileOptions& options) { return options.cancel && options.cancel(); });
  }

  const CompileOptions& options_;
  TwCompileCallbacks table_ = {};
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

/// Owns `compilation` from now on.
inline CompileResult to_result(TwCompilation* compilation) {
  CompileResult out;
  out.compilation.reset(compilation, Free());
  const void* bytes = nullptr;
  api().compilation_artefact(compilation, &bytes, &out.artefact.size);
  out.artefact.data = static_cast<const uint8_t*>(bytes);
  out.plan = api().compilation_plan(compilation);
  TwCompileSummary summary = {};
  summary.struct_size = sizeof(summary);
  check(api().compilation_summary(compilation, &summary));
  CompileReport& report = out.report;
  report.target = summary.target;
  report.opset = summary.opset;
  report.groups = summary.groups;
  report.kernels = summary.kernels;
  report.cached = summary.cached != 0;
  report.json = api().compilation_report(compilation);
  for (std::size_t i = 0; i < summary.family_count; ++i)
    report.families[summary.families[i].name] = summary.families[i].count;
  for (std::size_t i = 0; i < summary.time_count; ++i)
    report.times.push_back({summary.times[i].phase, summary.times[i].pass, summary.times[i].ns});
  report.warnings.assign(summary.warnings, summary.warnings + summary.warning_count);
  return out;
}

}  // namespace detail

/// Compiles the ONNX model in the file `path`; external data is read from files below the model's folder.
inline CompileResult compile_file(const std::string& path, const CompileOptions& options = {}) {
  const detail::Options given = detail::to_options(options);
  detail::Callbacks callbacks(options);
  TwCompilation* made = nullptr;
  callbacks.check(detail::api().compile_file(path.c_str(), given.get(), callbacks.table(), &made));
  return detail::to_result(made);
}

/// Compiles the ONNX model in `bytes`. External data is looked for below `data_directory`; empty: a model with external
/// data is an error.
inline CompileResult compile_bytes(const void* bytes, std::size_t size, const std::string& data_directory = "",
                                   const CompileOptions& options = {}) {
  const detail::Options given = detail::to_options(options);
  detail::Callbacks callbacks(options);
  TwCompilation* made = nullptr;
  callbacks.check(
      detail::api().compile_bytes(bytes, size, data_directory.c_str(), given.get(), callbacks.table(), &made));
  return detail::to_result(made);
}

/// Writes the artefact to `path`: afterwards the file is the new one, or after an error what was there before.
inline void write_artefact(const CompileResult& result, const std::string& path) {
  detail::check(detail::api().compilation_write(result.compilation.get(), path.c_str()));
}

/// The artefact of the `size` bytes at `artefact` with other weights, by the names of the model's initializers:
/// TwCompilerApi::refit says which.
inline CompileResult refit(const void* artefact, std::size_t size, const std::map<std::string, DLTensor>& weights) {
  std::vector<TwNamedTensor> given;
  for (const auto& [name, tensor] : weights) given.push_back({name.c_str(), tensor});
  TwCompilation* made = nullptr;
  detail::check(detail::api().refit(artefact, size, given.data(), given.size(), nullptr, &made));
  return detail::to_result(made);
}

/// The same from the files `artefact` and `weights` (.safetensors, or an ONNX model with these initializers) into the
/// file `output`, which is the new one afterwards, or after an error what was there before. The result is not compared
/// with a reference: `tilewright verify` does that.
inline void refit_file(const std::string& artefact, const std::string& weights, const std::string& output) {
  detail::check(detail::api().refit_file(artefact.c_str(), weights.c_str(), output.c_str(), nullptr));
}

/// All options that CompileOptions::set takes, in the order of docs/reference/options.md.
inline std::vector<OptionInfo> options() {
  std::vector<OptionInfo> out;
  for (std::size_t i = 0; i < detail::api().option_count(); ++i) {
    TwOptionInfo row = {};
    row.struct_size = sizeof(row);
    detail::check(detail::api().option_info(i, &row));
    out.push_back({row.name, row.kind, row.choices, row.initial, row.variable, row.help, row.is_repeatable != 0});
  }
  return out;
}

/// Names that CompileOptions::target takes.
inline std::vector<std::string> target_names() {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < detail::api().target_count(); ++i) out.emplace_back(detail::api().target_name(i));
  return out;
}

/// Version of the library, for example "0.1.0".
inline std::string version() { return detail::api().version_string(); }

inline void CompileOptions::set(const std::string& name, const std::string& value) {
  detail::set(detail::make_options(), name, value);
  named.emplace_back(name, value);
}

}  // namespace tilewright

#endif  // TILEWRIGHT_COMPILER_HPP_
