// The options that choose what of a model is compiled and for what; shared by every verb that compiles.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "driver/compile_cache.h"
#include "tilewright/progress.h"

namespace tw::cli {

struct ModelOptions {
  std::string target = "cpu";
  std::vector<std::string> shapes;     // NAME:1x3x224x224
  std::vector<std::string> dims;       // NAME=8
  std::vector<std::string> constants;  // NAME=@x.npy
  Precision precision = Precision::kDefault;
  ScalarType dtype = ScalarType::kF32;
  driver::Libraries libraries = driver::Libraries::kAuto;
  std::vector<std::string> disabled, disabled_families;
  bool no_optional_passes = false;
  std::string plan;  // file
  std::string dump;
  std::string stop_after;
  bool no_measure = false;
  std::string budget;  // "60s"
  int measure_threads = 0;
  bool measure_all = false;
  size_t explore = 0;
  uint64_t explore_seed = 0;
  std::string database;  // of tuning records; empty: the default
  bool no_cache = false;
  std::vector<const CLI::Option*> registered = {};  // all of these
};

void add_model_options(CLI::App& app, ModelOptions& options);
/// Reads and checks them; UsageError naming the option that is malformed.
driver::CompileOptions to_compile_options(const ModelOptions& options);

/// The same with measuring as asked for, which `progress` shows; both must outlive the options. Warnings go to stderr.
driver::CompileOptions to_compile_options(const ModelOptions& options, Progress& progress);

/// The cache of artefacts that these options ask for, and what names the artefact of `model` in it, if it may be there.
struct CachePlace {
  driver::CompileCache cache;
  std::optional<driver::CompileCache::Key> key;
};
CachePlace find_in_cache(const std::string& model, const ModelOptions& options, driver::CompileOptions& compile,
                         Progress& progress);

/// "60s", "2m", "1h", "500ms" or "60" -> seconds; UsageError when malformed.
double parse_duration(const std::string& text, const std::string& option);
/// "1x3x224x224" -> shape; UsageError when malformed.
Shape parse_shape(const std::string& text, const std::string& option);
/// "NAME=VALUE" -> both parts; UsageError when there is no name or no '='.
std::pair<std::string, std::string> parse_binding(const std::string& text, const std::string& option);

}  // namespace tw::cli
