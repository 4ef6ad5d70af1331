// tw-opt: runs one pass on text IR and prints the result. Exit codes are those of the command: 0, 2 (usage), 3 (the
// text is wrong), 70 (the pass is).
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <sstream>

#include "one_pass.h"
#include "support/error.h"

namespace {

enum ExitCode : int { kOk = 0, kUsage = 2, kWrongText = 3, kInternal = 70 };

std::string read_file(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path, std::ios::binary);
  text << file.rdbuf();
  if (!file || file.bad()) throw tw::UserError(fmt::format("cannot read '{}'", path));
  return text.str();
}

int fail(int code, std::string_view kind, const char* message) {
  std::fputs(fmt::format("tw-opt: {}{}\n", kind, message).c_str(), stderr);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Example: tw-opt --list\n\nRuns one pass on the text form of the IR and prints the result.", "tw-opt");
  tw::opt::Options options;
  std::string file;
  std::string schedule;
  bool list = false;
  app.add_option("FILE", file, "Text of a graph, a te program or a loop program (-: standard input)");
  app.add_option("--pass", options.pass, "Pass to run; 'schedule' applies --schedule to a te program");
  app.add_option("--schedule", schedule, "File with one primitive a line");
  app.add_option("--target", options.target, "Target that passes may ask")->capture_default_str();
  app.add_option("--dtype", options.dtype, "Type that f32 becomes in pass mixed-precision: f32, f16 or bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_flag("--zero-constants", options.zero_constants, "Constants whose data the text does not hold are zeros");
  app.add_flag("--list", list, "Print all passes and what holds after each");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  try {
    if (list) {
      std::cout << tw::opt::list_passes();
      return kOk;
    }
    if (file.empty() || options.pass.empty()) throw tw::UsageError("give --pass=NAME and FILE, or --list");
    if (!schedule.empty()) options.schedule = read_file(schedule);
    std::cout << tw::opt::run_one_pass(options, read_file(file));
    return kOk;
  } catch (const tw::UsageError& error) {
    return fail(kUsage, "usage: ", error.what());
  } catch (const tw::UserError& error) {
    return fail(kWrongText, "error: ", error.what());
  } catch (const tw::Unsupported& error) {
    return fail(kWrongText, "unsupported: ", error.what());
  } catch (const std::exception& error) {
    return fail(kInternal, "internal error: ", error.what());
  }
}
