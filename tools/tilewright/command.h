// What the verbs of the command share: exit codes, output, progress.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "driver/compile.h"
#include "runtime/format/container.h"

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
};

/// Options before or after every verb.
struct GlobalOptions {
  bool json = false;
  int verbose = 0;
};

/// A verb adds itself to the application and sets `run` when it is chosen.
struct Application {
  CLI::App app;
  GlobalOptions global;
  std::function<int()> run;
};

void add_compile(Application& application);
void add_run(Application& application);
void add_bench(Application& application);
void add_verify(Application& application);
void add_inspect(Application& application);
void add_doctor(Application& application);

/// Runs `body` and turns each kind of error into its message on stderr and its exit code.
int guarded(const std::function<int()>& body);

/// Prints one JSON document on stdout; `schema` names its form.
void print_json(std::string_view schema, nlohmann::ordered_json document);
/// A line of people's text: stdout, or stderr when --json keeps stdout for the document.
void say(const GlobalOptions& global, const std::string& line);

/// Progress of long work on stderr: one live line on a terminal, a plain line every 10 s otherwise.
class Progress {
 public:
  Progress();
  ~Progress();
  void operator()(std::string_view phase, int64_t done, int64_t total);
  /// Takes the live line away, so that text can follow.
  void clear() const;

 private:
  bool terminal_;
  double started_;
  double last_;
};

/// All bytes of a file; UsageError when it cannot be read.
std::vector<uint8_t> read_file(const std::string& path);

/// The verified artefact in `bytes`, read from `path`; errors name the file. Views `bytes`.
format::Artefact parse_artefact(const std::string& path, const std::vector<uint8_t>& bytes);

/// Seconds of a steady clock.
double now_seconds();

}  // namespace tw::cli
