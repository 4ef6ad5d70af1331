// The options that choose what of a model is compiled and for what; shared by every verb that compiles.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "driver/compile.h"

namespace tw::cli {

struct ModelOptions {
  std::string target = "cpu";
  std::vector<std::string> shapes;     // NAME:1x3x224x224
  std::vector<std::string> dims;       // NAME=8
  std::vector<std::string> constants;  // NAME=@x.npy
  Precision precision = Precision::kDefault;
  std::vector<std::string> disabled;
  bool no_optional_passes = false;
  std::string plan;  // file
  std::string dump;
  std::string stop_after;
};

void add_model_options(CLI::App& app, ModelOptions& options);
/// Reads and checks them; UsageError naming the option that is malformed.
driver::CompileOptions to_compile_options(const ModelOptions& options);

/// "1x3x224x224" -> shape; UsageError when malformed.
Shape parse_shape(const std::string& text, const std::string& option);
/// "NAME=VALUE" -> both parts; UsageError when there is no name or no '='.
std::pair<std::string, std::string> parse_binding(const std::string& text, const std::string& option);

}  // namespace tw::cli
