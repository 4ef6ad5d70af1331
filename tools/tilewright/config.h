// Options from a file: --config FILE.json, beneath those of the command line.
#pragma once
#include <CLI/CLI.hpp>

namespace tw::cli {

/// Reads {"compile": {"target": "cpu:x86-64-v3", "disable-pass": ["fuse"]}, "json": true}: options by their long names,
/// those of a verb in an object of its name. A list gives an option several times. The environment stands above the
/// file. Writing is not supported.
class JsonConfig : public CLI::Config {
 public:
  /// `app` has the verbs and their options, by the time that a file is read.
  explicit JsonConfig(const CLI::App& app) : app_(app) {}
  // Signature fixed by CLI::Config.
  std::string to_config(const CLI::App* app, bool defaults, bool descriptions, std::string prefix) const override;
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  const CLI::App& app_;
};

}  // namespace tw::cli
