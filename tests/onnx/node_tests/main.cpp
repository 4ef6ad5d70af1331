// The conformance runner: every back-end test of the onnx package on one backend, against a list of those that do not
// pass yet. The list may only shrink: a listed test that passes and an unlisted one that does not both fail the run,
// and an internal error fails it in any case.
//
//   node_tests DATA_DIR [--list FILE] [--report FILE] [--filter TEXT] [--write-list FILE]
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <map>
#include <set>

#include "ops/list.h"
#include "tests/onnx/node_tests/run_case.h"

namespace tw::conformance {
namespace {

struct Arguments {
  std::string data, list, report, filter, write_list;
};

Arguments parse_arguments(int count, char** values) {
  Arguments result;
  std::map<std::string, std::string*> options = {{"--list", &result.list},
                                                 {"--report", &result.report},
                                                 {"--filter", &result.filter},
                                                 {"--write-list", &result.write_list}};
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
  Run(const Arguments& arguments, Backend& backend, const graph::OpTable& ops)
      : arguments_(arguments), backend_(backend), ops_(ops), listed_(read_list(arguments.list)) {}

  int execute() {
    std::ofstream report(arguments_.report);
    std::ofstream list(arguments_.write_list);
    list << "# Conformance tests that do not pass yet on the backend '" << backend_.name()
         << "'. Lines may only be removed.\n";
    for (const Case& test : find_cases(arguments_.data)) {
      if (test.name.find(arguments_.filter) == std::string::npos) continue;
      const auto start = std::chrono::steady_clock::now();
      const Outcome outcome = run_case(test, backend_, ops_);
      const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
      record(test, outcome);
      constexpr const char* kWords[] = {"passed", "refused", "wrong", "broken"};
      const char* word = kWords[static_cast<int>(outcome.verdict)];
      report << fmt::format("{} {}{} {:.1f} ms {}\n", test.name, word, outcome.bound_constants ? " (bound)" : "",
                            time.count(), outcome.reason);
      if (outcome.verdict != Verdict::kPassed) list << test.name << "\n";
    }
    return finish();
  }

 private:
  void record(const Case& test, const Outcome& outcome) {
    const bool passed = outcome.verdict == Verdict::kPassed;
    counts_[test.name.substr(0, test.name.find('/'))].add(outcome);
    const bool listed = listed_.count(test.name) != 0;
    if (passed && listed) complain("{}: passes now; remove it from the list", test.name);
    if (!passed && !listed) complain("{}: {}", test.name, outcome.reason);
    if (outcome.verdict == Verdict::kBroken && listed) complain("{}: internal error: {}", test.name, outcome.reason);
  }

  template <typename... Args>
  void complain(fmt::format_string<Args...> format, Args&&... args) {
    if (++complaints_ <= 50) fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  }

  int finish() const {
    for (const auto& [suite, c] : counts_) {
      fmt::print("{} on {}: {} of {} passed ({} with bound constants), {} refused, {} wrong, {} broken\n", suite,
                 backend_.name(), c.passed, c.total(), c.with_constants, c.refused, c.wrong, c.broken);
    }
    if (arguments_.list.empty() || complaints_ == 0) return counts_.empty() ? 1 : 0;
    fmt::print("{} tests disagree with {}\n", complaints_, arguments_.list);
    return 1;
  }

  const Arguments& arguments_;
  Backend& backend_;
  const graph::OpTable& ops_;
  std::set<std::string> listed_;
  std::map<std::string, Counts> counts_;
  int complaints_ = 0;
};

}  // namespace
}  // namespace tw::conformance

int main(int count, char** values) {
  const tw::conformance::Arguments arguments = tw::conformance::parse_arguments(count, values);
  if (arguments.data.empty()) {
    fmt::print("usage: node_tests DATA_DIR [--list FILE] [--report FILE] [--filter TEXT] [--write-list FILE]\n");
    return 2;
  }
  const tw::graph::OpTable ops = tw::ops::all_ops();
  const auto backend = tw::conformance::make_reference_backend(ops);
  return tw::conformance::Run(arguments, *backend, ops).execute();
}
