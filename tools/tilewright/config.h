// Options from a file: --config FILE.json, beneath those of the command line.
#pragma once
#include <CLI/CLI.hpp>

namespace tw::cli {

/// Reads {"compile": {"target": "cpu:x86-64-v3", "disable-pass": ["fuse"]}, "json": true}: options by their long names,
/// those of a verb in an object of its name. A list gives an option several times. Writing is not supported.
class JsonConfig : public CLI::Config {
 public:
  // Signature fixed by CLI::Config.
  std::string to_config(const CLI::App* app, bool defaults, bool descriptions, std::string prefix) const override;
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace tw::cli
