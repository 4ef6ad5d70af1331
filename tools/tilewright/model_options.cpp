#include "tilewright/model_options.h"

#include <charconv>

#include "support/error.h"
#include "tilewright/arrays.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

int64_t parse_extent(std::string_view text, const std::string& whole, const std::string& option) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) {
    throw UsageError(fmt::format("{} '{}': '{}' is no extent", option, whole, text));
  }
  return value;
}

}  // namespace

Shape parse_shape(const std::string& text, const std::string& option) {
  Shape shape;
  size_t from = 0;
  while (!text.empty() && from <= text.size()) {
    const size_t cross = std::min(text.find('x', from), text.size());
    shape.push_back(parse_extent(std::string_view(text).substr(from, cross - from), text, option));
    from = cross + 1;
  }
  return shape;
}

std::pair<std::string, std::string> parse_binding(const std::string& text, const std::string& option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(fmt::format("{} '{}': expected NAME=VALUE", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.add_option("--target", o.target, "cpu (this host), cpu:x86-64-v3, cpu:x86-64-v4, cuda:sm_80, cuda:sm_90a")
      ->capture_default_str();
  app.add_option("--shape", o.shapes, "Shape of an input: NAME:1x3x224x224 (repeatable)");
  app.add_option("--dim", o.dims, "Value of a symbolic dimension: NAME=8 (repeatable)");
  app.add_option("--const", o.constants, "Bind an input at compile time: NAME=@FILE.npy (repeatable)");
  app.add_option("--plan", o.plan, "Replay the decisions of this plan file");
  app.add_option("--dump-ir", o.dump, "Write the IR after every pass into this folder");
  app.add_option("--disable-pass", o.disabled, "Leave out an optional pass (repeatable)");
  app.add_flag("--no-optional-passes", o.no_optional_passes, "Leave out every optional pass");
}

driver::CompileOptions to_compile_options(const ModelOptions& o) {
  driver::CompileOptions out;
  out.target = o.target;
  for (const std::string& text : o.shapes) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0)
      throw UsageError(fmt::format("--shape '{}': expected NAME:1x3x224x224", text));
    out.import.shapes[text.substr(0, colon)] = parse_shape(text.substr(colon + 1), "--shape");
  }
  for (const std::string& text : o.dims) {
    const auto [name, value] = parse_binding(text, "--dim");
    out.import.dims[name] = parse_extent(value, text, "--dim");
  }
  for (const std::string& text : o.constants) {
    const auto [name, file] = parse_binding(text, "--const");
    if (file.empty() || file[0] != '@') throw UsageError(fmt::format("--const '{}': expected NAME=@FILE.npy", text));
    out.import.constants[name] = driver::to_reference(read_npy(file.substr(1)));
  }
  out.disabled_passes = o.disabled;
  out.all_optional_off = o.no_optional_passes;
  if (!o.plan.empty()) {
    const std::vector<uint8_t> bytes = read_file(o.plan);
    out.plan_text.assign(bytes.begin(), bytes.end());
  }
  out.dump_directory = o.dump;
  out.stop_after = o.stop_after;
  return out;
}

}  // namespace tw::cli
