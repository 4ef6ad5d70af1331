// The command line as its parser has it. For the few files that read command lines: this header takes long to compile.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "tilewright/command.h"

namespace tw::cli {

/// A verb adds itself to the application and sets `run` when it is chosen.
struct Application {
  CLI::App app;
  GlobalOptions global;
  std::function<int()> run;
};

}  // namespace tw::cli
