#include "tilewright/config.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/option_table.h"

namespace tw::cli {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& message) {
  throw CLI::ConfigError("--config: " + message, CLI::ExitCodes::ConfigError);
}

std::string text_of(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number()) return value.dump();
  refuse("the value of '" + name + "' is not a text, a number, a boolean or a list of them");
}

std::string nearest(const std::string& name, const std::vector<std::string>& names) {
  return suggestion(name, std::vector<std::string_view>(names.begin(), names.end()));
}

class Reader {
 public:
  std::vector<CLI::ConfigItem> take(const Json& document, const CLI::App& app) {
    read(document, app, {});
    return std::move(items_);
  }

 private:
  // An object with the options of a verb, or of all.
  void read(const Json& object, const CLI::App& app, const std::vector<std::string>& parents) {
    for (const auto& [name, value] : object.items()) {
      if (value.is_object()) {
        std::vector<std::string> inner = parents;
        inner.push_back(name);
        read(value, verb(app, name), inner);
      } else {
        add(app, parents, name, value);
      }
    }
  }

  static const CLI::App& verb(const CLI::App& app, const std::string& name) {
    std::vector<std::string> known;
    for (const CLI::App* verb : app.get_subcommands({})) {
      if (verb->get_name() == name) return *verb;
      known.push_back(verb->get_name());
    }
    refuse("there is no verb '" + name + "'" + nearest(name, known));
  }

  void add(const CLI::App& app, const std::vector<std::string>& parents, const std::string& name, const Json& value) {
    const CLI::Option* option = app.get_option_no_throw("--" + name);
    if (option == nullptr) refuse_option(app, parents, name);
    if (!option->get_envname().empty() && std::getenv(option->get_envname().c_str()) != nullptr) return;
    CLI::ConfigItem item;
    item.parents = parents;
    item.name = name;
    if (value.is_array()) {
      for (const Json& one : value) item.inputs.push_back(text_of(name, one));
    } else {
      item.inputs.push_back(text_of(name, value));
    }
    items_.push_back(std::move(item));
  }

  [[noreturn]] static void refuse_option(const CLI::App& app, const std::vector<std::string>& parents,
                                         const std::string& name) {
    std::vector<std::string> known;
    for (const CLI::Option* o : app.get_options())
      known.insert(known.end(), o->get_lnames().begin(), o->get_lnames().end());
    const std::string where = parents.empty() ? "there is no option" : "'" + parents.back() + "' has no option";
    refuse(where + " '" + name + "'" + nearest(name, known));
  }

  std::vector<CLI::ConfigItem> items_;
};

}  // namespace

std::string JsonConfig::to_config(const CLI::App*, bool, bool, std::string) const { return "{}\n"; }

std::vector<CLI::ConfigItem> JsonConfig::from_config(std::istream& input) const {
  const Json document = Json::parse(input, nullptr, false);
  if (!document.is_object()) refuse("the file is not a JSON object");
  return Reader().take(document, app_);
}

}  // namespace tw::cli
