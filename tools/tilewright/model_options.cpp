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
  app.add_option(
      "--shape", o.shapes,
      "Shape of an input: NAME:1x3x224x224, or several for one artefact: NAME:1x3x224x224,8x3x224x224 (repeatable)");
  app.add_option("--dim", o.dims, "Value of a symbolic dimension: NAME=8, or several: NAME=1,8,32 (repeatable)");
  app.add_option("--const", o.constants, "Bind an input at compile time: NAME=@FILE.npy (repeatable)");
  app.add_option("--precision", o.precision,
                 "strict (no algorithm with a larger error bound than the operator's own, as Winograd convolution), "
                 "default, fast (as default so far)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Precision>{
          {"strict", Precision::kStrict}, {"default", Precision::kDefault}, {"fast", Precision::kFast}}));
  app.add_option("--plan", o.plan, "Replay the decisions of this plan file");
  app.add_option("--dump-ir", o.dump, "Write the IR after every pass into this folder");
  app.add_option("--disable-pass", o.disabled, "Leave out an optional pass (repeatable)");
  app.add_flag("--no-optional-passes", o.no_optional_passes, "Leave out every optional pass");
}

namespace {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

// One ImportOptions for each combination of shapes. Lists are taken together, the first values, the second ones and so
// on; a single value holds in every combination.
class Combinations {
 public:
  explicit Combinations(const ModelOptions& options) {
    for (const std::string& text : options.shapes) add_shape(text);
    for (const std::string& text : options.dims) add_dim(text);
    for (const std::string& text : options.constants) add_constant(text);
  }
  std::vector<frontend::ImportOptions> take() { return std::move(all_); }

 private:
  void add_shape(const std::string& text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0)
      throw UsageError(fmt::format("--shape '{}': expected NAME:1x3x224x224", text));
    const std::vector<std::string> values = split_list(text.substr(colon + 1));
    for (size_t k = 0; k < widen(values.size(), "--shape", text); ++k)
      all_[k].shapes[text.substr(0, colon)] = parse_shape(value(values, k), "--shape");
  }

  void add_dim(const std::string& text) {
    const auto [name, list] = parse_binding(text, "--dim");
    const std::vector<std::string> values = split_list(list);
    for (size_t k = 0; k < widen(values.size(), "--dim", text); ++k)
      all_[k].dims[name] = parse_extent(value(values, k), text, "--dim");
  }

  void add_constant(const std::string& text) {
    const auto [name, file] = parse_binding(text, "--const");
    if (file.empty() || file[0] != '@') throw UsageError(fmt::format("--const '{}': expected NAME=@FILE.npy", text));
    const graph::RefTensor constant = driver::to_reference(read_npy(file.substr(1)));
    for (frontend::ImportOptions& import : all_) import.constants[name] = constant;
  }

  static const std::string& value(const std::vector<std::string>& list, size_t k) {
    return list.size() == 1 ? list[0] : list[k];
  }

  // The number of combinations after a list of `count` values.
  size_t widen(size_t count, const std::string& option, const std::string& text) {
    if (count > 1 && all_.size() > 1 && count != all_.size()) {
      throw UsageError(
          fmt::format("{} '{}' has {} values, an earlier list {}: lists are taken together, value by value", option,
                      text, count, all_.size()));
    }
    if (count > all_.size()) all_.resize(count, frontend::ImportOptions(all_[0]));
    return all_.size();
  }

  std::vector<frontend::ImportOptions> all_ = {{}};
};

}  // namespace

driver::CompileOptions to_compile_options(const ModelOptions& o) {
  driver::CompileOptions out;
  out.target = o.target;
  out.hal = measured_figures();
  out.imports = Combinations(o).take();
  out.disabled_passes = o.disabled;
  out.precision = o.precision;
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
