#include "tilewright/config.h"

#include <nlohmann/json.hpp>

namespace tw::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number()) return value.dump();
  throw CLI::ConfigError("--config: the value of '" + name + "' is no text, number, boolean or list of them",
                         CLI::ExitCodes::ConfigError);
}

void read(const Json& object, const std::vector<std::string>& parents, std::vector<CLI::ConfigItem>& items) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      std::vector<std::string> inner = parents;
      inner.push_back(name);
      read(value, inner, items);
      continue;
    }
    CLI::ConfigItem item;
    item.parents = parents;
    item.name = name;
    if (value.is_array()) {
      for (const Json& one : value) item.inputs.push_back(text_of(name, one));
    } else {
      item.inputs.push_back(text_of(name, value));
    }
    items.push_back(std::move(item));
  }
}

}  // namespace

std::string JsonConfig::to_config(const CLI::App*, bool, bool, std::string) const { return "{}\n"; }

std::vector<CLI::ConfigItem> JsonConfig::from_config(std::istream& input) const {
  const Json document = Json::parse(input, nullptr, false);
  if (!document.is_object())
    throw CLI::ConfigError("--config: the file is no JSON object", CLI::ExitCodes::ConfigError);
  std::vector<CLI::ConfigItem> items;
  read(document, {}, items);
  return items;
}

}  // namespace tw::cli
