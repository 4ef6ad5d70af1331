// Compilations for Python: options by name, a compilation in a thread of its own that Ctrl-C stops.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilewright/compiler.h"

namespace tw::python {

/// The table of the compiler. Throws ImportError when the library beside this module is older than its header.
const TwCompilerApi& compiler_api();

/// Throws StatusError with what the status says, and frees it; nothing for NULL.
void check(TwCompilerStatus* status);

template <auto Member>
struct FreeOfCompiler {
  template <typename Handle>
  void operator()(Handle* handle) const {
    (compiler_api().*Member)(handle);
  }
};

class CompileOptions {
 public:
  CompileOptions();
  void set(const std::string& name, const std::string& text);
  void set_constant(const std::string& name, nanobind::handle array);
  void set_state(const std::string& input, const std::string& output, nanobind::handle initial);
  void set_plan(const std::string& text);
  const TwCompileOptions* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<TwCompileOptions, FreeOfCompiler<&TwCompilerApi::options_free>> handle_;
};

class Compilation {
 public:
  explicit Compilation(TwCompilation* handle) : handle_(handle) {}
  nanobind::bytes artefact() const;
  std::string plan() const { return compiler_api().compilation_plan(handle_.get()); }
  std::string report() const { return compiler_api().compilation_report(handle_.get()); }

 private:
  std::unique_ptr<TwCompilation, FreeOfCompiler<&TwCompilerApi::compilation_free>> handle_;
};

/// A row of the table of options.
struct OptionRow {
  std::string name, kind, choices, initial, help;
  bool is_repeatable = false;
};
std::vector<OptionRow> option_rows();
std::vector<std::string> target_names();

/// Compiles a file, or bytes with the folder of their external data. progress(phase, done, total, detail) is called
/// from the calling thread; what it raises ends the compilation and is raised again. Ctrl-C while candidates are
/// measured keeps the best so far; elsewhere, and the second time, it raises KeyboardInterrupt.
std::unique_ptr<Compilation> compile_file(const std::string& path, const CompileOptions& options,
                                          const nanobind::callable& progress);
std::unique_ptr<Compilation> compile_bytes(nanobind::handle model, const std::string& data_directory,
                                           const CompileOptions& options, const nanobind::callable& progress);
/// The artefact with the weights of these names; progress and Ctrl-C as above.
std::unique_ptr<Compilation> refit(nanobind::handle artefact, const nanobind::dict& weights,
                                   const nanobind::callable& progress);

struct CommandResult {
  int32_t exit_code = 0;
  std::string output, error;
};

/// The command `tilewright` in this process, with these words; progress and Ctrl-C as above.
CommandResult call_command(const std::vector<std::string>& words, const nanobind::callable& progress);

}  // namespace tw::python
