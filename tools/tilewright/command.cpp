#include "tilewright/command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "artefact/session.h"
#include "driver/failure.h"
#include "runtime/format/error.h"
#include "support/error.h"
#include "support/mapped_file.h"
#include "support/text.h"
#include "tilewright/host.h"
#include "tilewright/repro.h"

namespace tw::cli {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

format::Artefact parse_artefact(const std::string& path, const std::vector<uint8_t>& bytes) {
  try {
    return format::Artefact::parse(bytes);
  } catch (const format::Error& error) {
    throw format::Error(error.code(), fmt::format("'{}': {}", path, error.what()));
  }
}

driver::machine::MachineOptions measured_parameters() {
  driver::machine::MachineOptions options;
  options.parameters = driver::machine::Parameters::kMeasured;
  options.notice = [](const std::string& sentence) { print_error("tilewright: {}\n", sentence); };
  return options;
}

std::vector<uint8_t> read_file(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) throw UsageError("{}", file.reason());
  return {file->bytes().begin(), file->bytes().end()};
}

void keep_input(const std::string& input, const std::string& output) {
  std::error_code missing;
  if (!output.empty() && std::filesystem::equivalent(input, output, missing))
    throw UsageError(fmt::format("'{}' would be overwritten: it is what is read", input));
}

void prepare_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Opened the wrong way round: reading and writing fail, as they do where nothing is open.
  for (const auto& [stream, mode] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_RDONLY}}) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", mode);  // the lowest free number: this one
  }
}

namespace {

// Output is lost. Whoever closed its pipe wants no more of it: then we end as others do, without a message.
[[noreturn]] void fail_output() {
  const int error = errno;
  if (error != EPIPE) throw ResourceError("cannot write standard output: {}", std::strerror(error));
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  std::_Exit(kClosedPipe);  // where the signal is blocked
}

}  // namespace

void print_output(std::string_view text) {
  if (host() != nullptr) return host()->write(TextStream::kOutput, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output();
}

void print_error_text(const std::string& text) {
  if (host() != nullptr) return host()->write(TextStream::kError, text);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

namespace {

int report(int code, std::string_view kind, const char* message) {
  print_error("tilewright: {}{}\n", kind, message);
  return code;
}

}  // namespace

int guarded(std::span<const std::string> command, const std::function<int()>& body) {
  try {
    const int code = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail_output();
    return code;
  } catch (const artefact::RuntimeFailure& e) {
    return report(e.exit_code(), "error: ", e.what());
  } catch (const std::bad_alloc&) {
    return report(kExhausted, "error: ", "out of memory");
  } catch (const std::exception& e) {
    const auto [code, type] = driver::failure_of(e);
    if (type != "internal") {
      const bool has_name = type == "usage" || type == "unsupported";
      return report(code, has_name ? fmt::format("{}: ", type) : "error: ", e.what());
    }
    report(kInternal, "internal error: ", e.what());
    const std::string folder = write_repro(command, e.what());
    if (!folder.empty())
      print_error("tilewright: this is a defect of Tilewright; {} holds the command and its files\n", folder);
    return kInternal;
  }
}

namespace {

void round_numbers(nlohmann::ordered_json& value) {
  if (value.is_number_float()) value = rounded(value.get<double>());
  if (value.is_structured()) {
    for (nlohmann::ordered_json& element : value) round_numbers(element);
  }
}

}  // namespace

void print_json(std::string_view schema, nlohmann::ordered_json document) {
  nlohmann::ordered_json out;
  out["schema"] = schema;
  out.update(document);
  round_numbers(out);
  print_output(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::string padding_text(const driver::Padding& padding) {
  return fmt::format("channel padding: {}, {} of {} ({:.0f} %)", count_text(padding.kernels, "kernel"),
                     time_text(padding.us * 1e-6), time_text(padding.all_us * 1e-6), 100 * padding.share());
}

void say_measured(const GlobalOptions& global, const driver::Profiling& p) {
  if (p.groups_left > 0)
    say(global, fmt::format("measuring stopped after {} of {}; the other {} keep the predicted choice; run the same "
                            "command again to go on",
                            p.groups - p.groups_left, count_text(p.groups, "group"), p.groups_left));
  if (global.verbose > 0 && p.candidates > 0)
    say(global,
        fmt::format("{} measured in {}, of which {} until there was code, {} for references; compiled during that "
                    "time: {}, {} and {}; afterwards: {}",
                    count_text(p.candidates, "candidate"), time_text(p.seconds), time_text(p.code_seconds),
                    time_text(p.reference_seconds), count_text(p.kernels_compiled, "kernel"),
                    count_text(p.references_compiled, "reference"), count_text(p.templates_compiled, "template"),
                    count_text(p.winners_compiled, "template")));
}

void say_winograd(const GlobalOptions& global, const driver::CompileSummary& summary) {
  if (summary.winograd_groups == 0) return;
  say(global, fmt::format("{} of {} groups use Winograd convolution, which rounds more than direct sums; --precision "
                          "strict avoids it",
                          summary.winograd_groups, summary.groups));
}

void say_layouts(const GlobalOptions& global, const plan::Plan& plan) {
  for (const plan::EntryPlan& entry : plan.entries) {
    const plan::LayoutTotals all = plan::totals_of(entry.layout_times);
    if (all.groups == 0) continue;
    say(global,
        fmt::format("layouts of {}: {} as predicted, {} as chosen, {} with each group's own best; {} of {} "
                    "measured",
                    entry.name, time_text(all.usual_us * 1e-6), time_text(all.chosen_us * 1e-6),
                    time_text(all.best_us * 1e-6), count_text(all.layouts, "layout"), count_text(all.groups, "group")));
  }
}

void note(const GlobalOptions& global, const std::string& sentence) {
  if (!global.quiet) print_error("tilewright: note: {}\n", sentence);
}

void say(const GlobalOptions& global, const std::string& line) {
  if (global.json) {
    print_error("{}\n", line);
  } else {
    print_output(line + "\n");
  }
}

}  // namespace tw::cli
