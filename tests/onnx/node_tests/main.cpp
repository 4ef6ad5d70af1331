// The conformance runner: every back-end test of the onnx package on one backend, against a list of those that do not
// pass yet. The list may only shrink: a listed test that passes and an unlisted one that does not both fail the run,
// and an internal error, a crash or a hang fails it in any case.
//
//   node_tests DATA_DIR [--backend reference|compiled] [--target TARGET] [--compile-only] [--one-value] [--list FILE]
//              [--report FILE] [--filter TEXT] [--every N] [--write-list FILE] [--jobs N]
//              [--time-limit SECONDS]
//
// --every N takes the first, the N-th behind it and so on of those that the filter leaves (tests/harness/takes_all.h).
//
// The report gets its line as each test ends; progress goes to stderr. After --time-limit no test is begun, and with a
// list those left over fail the run.
//
// --one-value gives all inputs of one type one value, and takes the outputs from the reference evaluator. Tests without
// two such inputs do not count, nor do those in which the value is none that an input may have. A listed test may pass.
//
// --compile-only makes artefacts and runs none: it finds what a target's code generation lacks on machines without the
// device. A backend that this machine cannot run ends with code 77 and says what is missing.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "ops/list.h"
#include "targets/registry.h"
#include "tests/harness/takes_all.h"
#include "tests/onnx/node_tests/supervisor.h"

namespace tw::conformance {
namespace {

constexpr int kNotRun = 77;  // CTest's SKIP_RETURN_CODE

struct Arguments {
  std::string data, backend = "reference", list, report, filter, write_list;
  std::string jobs = "1", time_limit, every = "1";
  CompiledOptions compiled;
  Feed feed = Feed::kData;
  bool is_compiled() const { return backend == "compiled"; }
  std::string backend_text() const {
    const std::string_view fed = feed == Feed::kOneValue ? ", one value for all inputs of a type" : "";
    return is_compiled() ? fmt::format("{} ({}{}{})", backend, compiled.target,
                                       compiled.compile_only ? ", compiled only" : "", fed)
                         : fmt::format("{}{}", backend, fed);
  }
};

Arguments parse_arguments(int count, char** values) {
  Arguments result;
  std::map<std::string, std::string*> options = {{"--backend", &result.backend},
                                                 {"--list", &result.list},
                                                 {"--report", &result.report},
                                                 {"--filter", &result.filter},
                                                 {"--jobs", &result.jobs},
                                                 {"--every", &result.every},
                                                 {"--write-list", &result.write_list},
                                                 {"--target", &result.compiled.target},
                                                 {"--time-limit", &result.time_limit}};
  for (int i = 1; i < count; ++i) {
    const auto it = options.find(values[i]);
    if (std::string_view(values[i]) == "--compile-only") {
      result.compiled.compile_only = true;
    } else if (std::string_view(values[i]) == "--one-value") {
      result.feed = Feed::kOneValue;
    } else if (it == options.end()) {
      result.data = values[i];
    } else if (++i < count) {
      *it->second = values[i];
    }
  }
  return result;
}

// The operators and the backend live in the child that calls this.
CaseRunner make_runner(const Arguments& arguments) {
  const auto ops = std::make_shared<const graph::OpTable>(ops::all_ops());
  const std::shared_ptr<Backend> backend =
      arguments.is_compiled() ? make_compiled_backend(arguments.compiled) : make_reference_backend(*ops);
  return [ops, backend, feed = arguments.feed](const Case& test) { return run_case(test, *backend, *ops, feed); };
}

// Whether the backend can run here, asked by a child: no device is opened in the process that forks.
Outcome probe(const Arguments& arguments) {
  if (!arguments.is_compiled()) return {};
  const auto ask = [&](const Case&) -> Outcome {
    const Result<bool> available = compiled_backend_available(arguments.compiled);
    return available.ok() ? Outcome{} : Outcome{Verdict::kRefused, available.reason()};
  };
  return run_supervised({{"probe", "", {}}}, [&] { return CaseRunner(ask); }, {}).front();
}

// Names at line starts; '#' begins a comment.
std::set<std::string> read_list(const std::string& path) {
  std::set<std::string> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string name = line.substr(0, line.find_first_of(" \t#"));
    if (!name.empty()) names.insert(name);
  }
  return names;
}

struct Counts {
  int passed = 0, with_constants = 0, refused = 0, wrong = 0, broken = 0, not_run = 0, nothing = 0;
  int total() const { return passed + refused + wrong + broken + not_run; }
  void add(const Outcome& outcome) {
    passed += outcome.verdict == Verdict::kPassed;
    with_constants += outcome.verdict == Verdict::kPassed && outcome.bound_constants;
    refused += outcome.verdict == Verdict::kRefused;
    wrong += outcome.verdict == Verdict::kWrong;
    broken += outcome.verdict == Verdict::kBroken;
    not_run += outcome.verdict == Verdict::kNotRun;
    nothing += outcome.verdict == Verdict::kNothing;
  }
};

class Run {
 public:
  explicit Run(const Arguments& arguments)
      : arguments_(arguments), listed_(read_list(arguments.list)), report_(arguments.report) {}

  int execute() {
    std::vector<Case> cases = find_cases(arguments_.data);
    std::erase_if(cases, [&](const Case& test) { return test.name.find(arguments_.filter) == std::string::npos; });
    cases = sample(std::move(cases));
    const std::vector<Outcome> outcomes = run_supervised(
        cases, [&] { return make_runner(arguments_); }, supervisor_options(cases));
    std::string list = "# Conformance tests that do not pass yet. Lines may only be removed.\n";
    for (size_t i = 0; i < cases.size(); ++i) {
      record(cases[i], outcomes[i]);
      if (outcomes[i].verdict == Verdict::kNotRun) report(cases[i], outcomes[i]);
      if (outcomes[i].verdict != Verdict::kPassed && outcomes[i].verdict != Verdict::kNothing)
        list += cases[i].name + "\n";
    }
    if (not_run() == 0) std::ofstream(arguments_.write_list) << list;
    return finish();
  }

 private:
  std::vector<Case> sample(std::vector<Case> all) const {
    const size_t every = testing::takes_all() ? 1 : std::max(1, std::atoi(arguments_.every.c_str()));
    size_t index = 0;
    std::erase_if(all, [&](const Case&) { return index++ % every != 0; });
    return all;
  }

  SupervisorOptions supervisor_options(const std::vector<Case>& cases) {
    SupervisorOptions options;
    options.jobs = std::atoi(arguments_.jobs.c_str());
    if (!arguments_.time_limit.empty())
      options.time_limit = std::chrono::seconds(std::atoi(arguments_.time_limit.c_str()));
    options.on_outcome = [this, &cases](size_t i, const Outcome& outcome) { report(cases[i], outcome); };
    options.on_progress = [&cases](const Progress& p) {
      fmt::print(stderr, "{} of {} tests after {} s, at work: {}\n", p.done, cases.size(), p.elapsed.count() / 1000,
                 p.oldest);
    };
    return options;
  }

  void report(const Case& test, const Outcome& outcome) {
    constexpr const char* kWords[] = {"passed", "refused", "wrong", "broken", "not run", "nothing"};
    report_ << fmt::format("{} {}{} {:.1f} ms {}\n", test.name, kWords[static_cast<int>(outcome.verdict)],
                           outcome.bound_constants ? " (bound)" : "", outcome.milliseconds, outcome.reason)
            << std::flush;
  }

  void record(const Case& test, const Outcome& outcome) {
    counts_[test.name.substr(0, test.name.find('/'))].add(outcome);
    counts_["all"].add(outcome);
    if (outcome.verdict == Verdict::kNotRun || outcome.verdict == Verdict::kNothing) return;
    const bool passed = outcome.verdict == Verdict::kPassed;
    const bool listed = listed_.count(test.name) != 0;
    if (passed && listed && !arguments_.compiled.compile_only && arguments_.feed == Feed::kData)
      complain("{}: passes now; remove it from the list", test.name);
    if (!passed && !listed) complain("{}: {}", test.name, outcome.reason);
    if (outcome.verdict == Verdict::kBroken && listed) complain("{}: broken: {}", test.name, outcome.reason);
  }

  template <typename... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (++complaints_ <= 50) fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  }

  int not_run() const { return counts_.empty() ? 0 : counts_.at("all").not_run; }

  int finish() const {
    for (const auto& [suite, c] : counts_) {
      fmt::print("{} on {}: {} of {} passed ({} with bound constants), {} refused, {} wrong, {} broken{}{}\n", suite,
                 arguments_.backend_text(), c.passed, c.total(), c.with_constants, c.refused, c.wrong, c.broken,
                 c.not_run == 0 ? "" : fmt::format(", {} not run", c.not_run),
                 c.nothing == 0 ? "" : fmt::format(", {} that have no such inputs", c.nothing));
    }
    if (arguments_.list.empty() || complaints_ + not_run() == 0) return counts_.empty() ? 1 : 0;
    if (not_run() != 0) fmt::print("{} tests were not run in {} s\n", not_run(), arguments_.time_limit);
    if (complaints_ != 0) fmt::print("{} tests disagree with {}\n", complaints_, arguments_.list);
    return 1;
  }

  const Arguments& arguments_;
  std::set<std::string> listed_;
  std::ofstream report_;
  std::map<std::string, Counts> counts_;
  int complaints_ = 0;
};

}  // namespace
}  // namespace tw::conformance

int main(int count, char** values) {
  using namespace tw::conformance;
  const Arguments arguments = parse_arguments(count, values);
  if (arguments.data.empty() || (arguments.backend != "reference" && !arguments.is_compiled())) {
    fmt::print(
        "usage: node_tests DATA_DIR [--backend reference|compiled] [--target TARGET] [--compile-only] [--one-value]\n"
        "                  [--list FILE] [--report FILE] [--filter TEXT] [--every N] [--write-list FILE]\n"
        "                  [--jobs N] [--time-limit SECONDS]\n");
    return 2;
  }
  try {
    tw::targets::find_target(arguments.compiled.target);
  } catch (const tw::UserError& error) {
    fmt::print("--target: {}\n", error.what());
    return 2;
  }
  const Outcome probed = probe(arguments);
  if (probed.verdict == Verdict::kPassed) return Run(arguments).execute();
  const bool missing = probed.verdict == Verdict::kRefused;
  fmt::print("{} on {}: {}\n", missing ? "not run" : "broken", arguments.backend_text(), probed.reason);
  return missing ? kNotRun : 1;
}
