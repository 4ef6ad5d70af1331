// The conformance runner: every back-end test of the onnx package on one backend, against a list of those that do not
// pass yet. The list may only shrink: a listed test that passes and an unlisted one that does not both fail the run,
// and an internal error, a crash or a hang fails it in any case.
//
//   node_tests DATA_DIR [--backend reference|compiled] [--list FILE] [--report FILE] [--filter TEXT]
//              [--write-list FILE] [--jobs N]
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "ops/list.h"
#include "tests/onnx/node_tests/supervisor.h"

namespace tw::conformance {
namespace {

struct Arguments {
  std::string data, backend = "reference", list, report, filter, write_list;
  std::string jobs = "1";
};

Arguments parse_arguments(int count, char** values) {
  Arguments result;
  std::map<std::string, std::string*> options = {{"--backend", &result.backend}, {"--list", &result.list},
                                                 {"--report", &result.report},   {"--filter", &result.filter},
                                                 {"--jobs", &result.jobs},       {"--write-list", &result.write_list}};
  for (int i = 1; i < count; ++i) {
    const auto it = options.find(values[i]);
    if (it == options.end()) {
      result.data = values[i];
    } else if (++i < count) {
      *it->second = values[i];
    }
  }
  return result;
}

// The operators and the backend live in the child that calls this.
CaseRunner make_runner(const std::string& backend_name) {
  const auto ops = std::make_shared<const graph::OpTable>(ops::all_ops());
  const std::shared_ptr<Backend> backend =
      backend_name == "compiled" ? make_compiled_backend() : make_reference_backend(*ops);
  return [ops, backend](const Case& test) { return run_case(test, *backend, *ops); };
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
  int passed = 0, with_constants = 0, refused = 0, wrong = 0, broken = 0;
  int total() const { return passed + refused + wrong + broken; }
  void add(const Outcome& outcome) {
    passed += outcome.verdict == Verdict::kPassed;
    with_constants += outcome.verdict == Verdict::kPassed && outcome.bound_constants;
    refused += outcome.verdict == Verdict::kRefused;
    wrong += outcome.verdict == Verdict::kWrong;
    broken += outcome.verdict == Verdict::kBroken;
  }
};

class Run {
 public:
  explicit Run(const Arguments& arguments) : arguments_(arguments), listed_(read_list(arguments.list)) {}

  int execute() {
    std::vector<Case> cases = find_cases(arguments_.data);
    std::erase_if(cases, [&](const Case& test) { return test.name.find(arguments_.filter) == std::string::npos; });
    SupervisorOptions options;
    options.jobs = std::atoi(arguments_.jobs.c_str());
    const std::vector<Outcome> outcomes = run_supervised(
        cases, [&] { return make_runner(arguments_.backend); }, options);
    std::ofstream report(arguments_.report);
    std::ofstream list(arguments_.write_list);
    list << "# Conformance tests that do not pass yet. Lines may only be removed.\n";
    for (size_t i = 0; i < cases.size(); ++i) {
      const Outcome& outcome = outcomes[i];
      record(cases[i], outcome);
      constexpr const char* kWords[] = {"passed", "refused", "wrong", "broken"};
      const char* word = kWords[static_cast<int>(outcome.verdict)];
      report << fmt::format("{} {}{} {:.1f} ms {}\n", cases[i].name, word, outcome.bound_constants ? " (bound)" : "",
                            outcome.milliseconds, outcome.reason);
      if (outcome.verdict != Verdict::kPassed) list << cases[i].name << "\n";
    }
    return finish();
  }

 private:
  void record(const Case& test, const Outcome& outcome) {
    const bool passed = outcome.verdict == Verdict::kPassed;
    counts_[test.name.substr(0, test.name.find('/'))].add(outcome);
    counts_["all"].add(outcome);
    const bool listed = listed_.count(test.name) != 0;
    if (passed && listed) complain("{}: passes now; remove it from the list", test.name);
    if (!passed && !listed) complain("{}: {}", test.name, outcome.reason);
    if (outcome.verdict == Verdict::kBroken && listed) complain("{}: broken: {}", test.name, outcome.reason);
  }

  template <typename... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (++complaints_ <= 50) fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  }

  int finish() const {
    for (const auto& [suite, c] : counts_) {
      fmt::print("{} on {}: {} of {} passed ({} with bound constants), {} refused, {} wrong, {} broken\n", suite,
                 arguments_.backend, c.passed, c.total(), c.with_constants, c.refused, c.wrong, c.broken);
    }
    if (arguments_.list.empty() || complaints_ == 0) return counts_.empty() ? 1 : 0;
    fmt::print("{} tests disagree with {}\n", complaints_, arguments_.list);
    return 1;
  }

  const Arguments& arguments_;
  std::set<std::string> listed_;
  std::map<std::string, Counts> counts_;
  int complaints_ = 0;
};

}  // namespace
}  // namespace tw::conformance

int main(int count, char** values) {
  const tw::conformance::Arguments arguments = tw::conformance::parse_arguments(count, values);
  if (arguments.data.empty() || (arguments.backend != "reference" && arguments.backend != "compiled")) {
    fmt::print(
        "usage: node_tests DATA_DIR [--backend reference|compiled] [--list FILE] [--report FILE] [--filter TEXT]\n"
        "                  [--write-list FILE] [--jobs N]\n");
    return 2;
  }
  return tw::conformance::Run(arguments).execute();
}
