// The C++ interface of the Tilewright compiler (libtilewright): an ONNX model in, the bytes of an artefact out. The
// artefact is run by the runtime (tilewright/runtime.h), on this machine or another one.
//
// All functions may be called from any thread, at the same time too. What fails throws tilewright::Error; nothing else
// leaves the library but std::bad_alloc. The library never writes to stdout or stderr.
#ifndef TILEWRIGHT_COMPILER_H_
#define TILEWRIGHT_COMPILER_H_

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__GNUC__)
#define TILEWRIGHT_API __attribute__((visibility("default")))
#else
#define TILEWRIGHT_API
#endif

namespace tilewright {

/// What went wrong; the values are the exit codes of the command line for the same failure.
enum class ErrorKind : int {
  kFailure = 1,    // the operating system failed to read or write
  kUsage = 2,      // an option is wrong: an unknown target or pass, a plan of another model
  kModel = 3,      // the model is wrong, contradicts the options, or needs something that is not supported
  kArtefact = 5,   // an artefact is damaged, or of another version
  kExhausted = 6,  // disk or memory full
  kInternal = 70,  // a defect of Tilewright
};

/// what() is one or more sentences that name the node, the shapes or the option, and what to change.
class TILEWRIGHT_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message);
  ~Error() override;
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

/// One combination of input shapes. What the model leaves open must be given by one of the two.
struct InputShapes {
  std::map<std::string, std::vector<int64_t>> shapes;  // whole shapes of inputs, by name
  std::map<std::string, int64_t> dimensions;           // values of symbolic dimensions, by name
};

/// What a compilation may be told. The fields are what programs use most; all of it has a name (options(), and
/// docs/options.md), by which set() takes it as text.
struct CompileOptions {
  /// A name of target_names(), or several CPU levels with commas between, for one artefact that holds them all. "cpu"
  /// is this host, with what it measures: once, in about 2 s, kept in $TILEWRIGHT_CACHE_DIR or else
  /// $XDG_CACHE_HOME/tilewright; defaults where no file can be written.
  std::string target = "cpu";
  std::vector<InputShapes> entries = {{}};  // each becomes an entry of the artefact; they share weights and code
  /// Inputs that become constants of the compiled model, by name: in CPU memory, row-major and compact (strides NULL or
  /// such). Read during the call only.
  std::map<std::string, DLTensor> constants;
  /// Folders that links to external data may lead into, as in caches of models, and in which files may have several
  /// hard links. Otherwise links stay in the model's folder, and a file with several names is an error.
  std::vector<std::string> link_folders;
  /// "f32", "f16" or "bf16": what the model's f32 values are stored and multiplied as. Inputs and outputs keep their
  /// types; sums, statistics and what needs the range of f32 stay f32.
  std::string dtype = "f32";
  std::string plan;  // text of a plan to replay (CompileResult::plan of an earlier call); empty: make one
  std::vector<std::string> disabled_passes;  // optional passes to leave out
  std::vector<std::string>
      disabled_families;       // families of kernels to leave out, as CompileReport::families names them
  std::string dump_directory;  // the IR after every pass is written here; empty: nowhere
  int threads = 0;             // for code generation; 0: all CPUs that this process may use
  /// Of the import, the passes and lowering: kExhausted when they take more. 0: no limit of time; as much memory as the
  /// machine and the control groups around this process have.
  double max_seconds = 0;
  std::int64_t max_memory_bytes = 0;
  /// Measuring (docs/measuring.md): a command that serves candidates, for example {"/usr/bin/tilewright", "worker"}.
  /// The library cannot know which program it may execute: empty, nothing is measured, and what the compiler predicts
  /// to be best is taken. A worker that cannot be started ends in a warning.
  std::vector<std::string> worker;
  std::string database;                  // file of what was measured before, made if missing; empty: none
  int measure_threads = 0;               // that the artefact will mostly run with; 0: all CPUs
  double budget_seconds = 0;             // for measuring; 0: no limit
  std::function<bool()> stop_measuring;  // asked now and then, by any thread; true: finish with the best so far
  /// Called from the calling thread as phases go on: "import", "transform", "measure" if there is something to measure,
  /// "lower", "code", "assemble".
  std::function<void(std::string_view phase, int64_t done, int64_t total)> progress;
  /// Options by name, as set() adds them: above the fields, in this order.
  std::vector<std::pair<std::string, std::string>> named;

  /// Sets an option by its name: set("precision", "strict"), set("disable-pass", "fuse"). What can be given several
  /// times is given once more. Throws Error(kUsage) when there is no such option or the value is malformed.
  TILEWRIGHT_API void set(const std::string& name, const std::string& value);
};

/// A row of the table of options.
struct OptionInfo {
  std::string name;
  std::string kind;     // "flag", "integer", "number", "duration", "size", "text", "choice", "file" or "folder"
  std::string field;    // of CompileOptions that says the same; empty: none
  std::string choices;  // of a choice: "strict|default|fast"
  std::string initial;  // what holds when it is not set, in words or as a value
  std::string
      variable;  // of the environment, which the command reads where the option is not given; the library does not
  std::string help;
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
  std::vector<PassTime> times;
  std::vector<std::string> warnings;
};

struct CompileResult {
  /// The bytes of a .tw file; the same model, options and build give the same bytes. None with the option "stop-after".
  std::vector<uint8_t> artefact;
  std::string plan;  // text of all decisions
  CompileReport report;
};

/// Compiles the ONNX model in the file `path`; external data is read from files below the model's folder.
TILEWRIGHT_API CompileResult compile_file(const std::string& path, const CompileOptions& options = {});

/// Compiles the ONNX model in `bytes`. External data is looked for below `data_directory`; empty: a model with external
/// data is an error.
TILEWRIGHT_API CompileResult compile_bytes(const void* bytes, std::size_t size, const std::string& data_directory = "",
                                           const CompileOptions& options = {});

/// Writes the artefact to `path`: afterwards the file is the new one, or after an error what was there before.
TILEWRIGHT_API void write_artefact(const CompileResult& result, const std::string& path);

/// All options that CompileOptions::set takes, in the order of docs/options.md.
TILEWRIGHT_API std::vector<OptionInfo> options();

/// The artefact of the `size` bytes at `artefact`, which was compiled from an ONNX model, with other weights: byte for
/// byte what a compilation of the model with them gives by the same build, options and plan, in a fraction of the time.
/// `weights` are tensors under the names of the model's initializers, in CPU memory, row-major and compact: all that
/// have several elements, none that the model does not have. The artefact may lack other initializers' names: single
/// numbers, and shapes and axes, are part of its code and stay.
///
/// ErrorKind::kUsage names every weight that is missing, unknown, of another type or shape, not a number, or infinite
/// where the old one was not; ErrorKind::kModel: these weights want other code (a bias of zeros that was left out).
TILEWRIGHT_API std::vector<uint8_t> refit(const void* artefact, std::size_t size,
                                          const std::map<std::string, DLTensor>& weights);

/// The same from the files `artefact` and `weights` (.safetensors, or an ONNX model with these initializers) into the
/// file `output`, which is the new one afterwards, or after an error what was there before. The result is not compared
/// with a reference: `tilewright verify` does that.
TILEWRIGHT_API void refit_file(const std::string& artefact, const std::string& weights, const std::string& output);

/// Names that CompileOptions::target takes.
TILEWRIGHT_API std::vector<std::string> target_names();

/// Version of the library, for example "0.1.0".
TILEWRIGHT_API std::string version();

}  // namespace tilewright

#endif  // TILEWRIGHT_COMPILER_H_
