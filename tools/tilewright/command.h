// What the verbs of the command share: exit codes, output, progress.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "driver/compile.h"
#include "driver/compile_cache.h"
#include "runtime/format/container.h"
#include "tilewright/version.h"

namespace tw::cli {

enum ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kModel = 3,
  kMismatch = 4,
  kDeviceOrArtefact = 5,
  kExhausted = 6,
  kInternal = 70,
  kInterrupted = 130,
  kClosedPipe = 141,  // as shells count an end by SIGPIPE
};

/// Options before or after every verb.
struct GlobalOptions {
  bool json = false;
  int verbose = 0;     // 1: what was chosen for every group; 2: and what was not, and why
  bool quiet = false;  // no progress, no notes
  std::string events;  // file for progress as NDJSON, or empty
  std::string config;  // file of options, or empty
};

struct Application;  // tilewright/application.h

void add_compile(Application& application);
void add_run(Application& application);
void add_bench(Application& application);
void add_verify(Application& application);
void add_inspect(Application& application);
void add_explain(Application& application);
void add_analyze(Application& application);
void add_report(Application& application);
void add_refit(Application& application);
void add_sign(Application& application);
void add_advise(Application& application);
void add_train(Application& application);
void add_export_weights(Application& application);
void add_doctor(Application& application);
void add_cache(Application& application);
void add_db(Application& application);
void add_templates(Application& application);
void add_options_page(Application& application);
void add_worker(Application& application);
/// All of them.
void add_verbs(Application& application);
/// The whole command, to be parsed. What is returned reads the options that stand before every verb, once all is
/// parsed.
std::function<void()> set_up(Application& application);

/// Before anything is opened: standard streams that are closed become ones that fail, so that no file gets their number
/// and with it our messages; a closed pipe and a file that may grow no further are errors of writing, which do not end
/// the process in the middle of its work.
void prepare_streams();

// Text goes to the host, where the command is a function of another program (host.h).

/// Text on stdout; ResourceError when it cannot be written, and where its reader closed the pipe the end by SIGPIPE.
void print_output(std::string_view text);

/// Text for people on stderr. Where that cannot be written it is lost: the exit code still tells what happened.
void print_error_text(const std::string& text);
template <typename... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  print_error_text(fmt::format(format, std::forward<Args>(args)...));
}

/// Runs `body` and turns each kind of error into its message on stderr and its exit code. A defect of ours leaves a
/// folder with which it can be seen again; `command` is what the user gave.
int guarded(std::span<const std::string> command, const std::function<int()>& body);

/// Prints one JSON document on stdout, its numbers with six significant digits; `schema` names its form.
void print_json(std::string_view schema, nlohmann::ordered_json document);
/// A line of people's text: stdout, or stderr when --json keeps stdout for the document.
void say(const GlobalOptions& global, const std::string& line);

/// A sentence on stderr that nobody has to act on; nothing with --quiet.
void note(const GlobalOptions& global, const std::string& sentence);

/// "channel padding: 3 kernels, 12 us of 450 us (3 %)".
std::string padding_text(const driver::Padding& padding);

/// How many groups use Winograd convolution, where some do.
void say_winograd(const GlobalOptions& global, const driver::CompileSummary& summary);
/// What was not measured for want of time; with -v what measuring took.
void say_measured(const GlobalOptions& global, const driver::Profiling& profiling);

/// A line for each entry of the plan whose layouts were measured: "layouts of main: 89.1 us as predicted, ..".
void say_layouts(const GlobalOptions& global, const plan::Plan& plan);

/// This machine's measured parameters, for verbs that build something from them; notices go to stderr.
driver::machine::MachineOptions measured_parameters();

/// All bytes of a file; UsageError with the reason when it cannot be read.
std::vector<uint8_t> read_file(const std::string& path);
/// UsageError where writing the file `output` would replace the file `input`.
void keep_input(const std::string& input, const std::string& output);

/// The verified artefact in `bytes`, read from `path`; errors name the file. Views `bytes`.
format::Artefact parse_artefact(const std::string& path, const std::vector<uint8_t>& bytes);

/// Seconds of a steady clock.
double now_seconds();

}  // namespace tw::cli
