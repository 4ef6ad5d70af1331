#include "driver/api/options.h"

#include <cstdlib>

#include "driver/api/status.h"
#include "driver/api/tensors.h"
#include "driver/option_table.h"

namespace tw::driver::api {
namespace {

// A row in texts that live as long as the library.
struct Described {
  std::string name, kind, choices, initial, variable, help;
  bool is_repeatable;
};

const std::vector<Described>& rows() {
  static const std::vector<Described> all = [] {
    std::vector<Described> out;
    const CompileOptions initial;
    for (const Option<CompileOptions>& row : compile_options()) {
      out.push_back({std::string(row.name), std::string(kind_name(row)), std::string(row.choices),
                     default_text(row, row.print_of(initial)), std::string(row.variable), std::string(row.help),
                     row.is_repeatable});
    }
    return out;
  }();
  return all;
}

const std::vector<std::string>& targets() {
  static const std::vector<std::string> all = targets::target_names();
  return all;
}

// The combination of shapes of this number, a new one if it is the next.
frontend::ImportOptions& combination(CompileOptions& options, size_t entry) {
  std::vector<frontend::ImportOptions>& all = options.imports;
  if (entry > all.size())
    throw UsageError("entry {}: there are {}, so that the next one is {}", entry, all.size(), all.size());
  if (entry == all.size()) {
    all.push_back(all.front());  // constants and folders hold in every combination
    all.back().shapes.clear();
    all.back().dims.clear();
  }
  return all[entry];
}

void check_extent(std::string_view option, const std::string& name, int64_t extent) {
  if (extent < 0) throw UsageError("{} of '{}': {} is negative", spelled(option), name, extent);
}

}  // namespace

size_t option_count() { return rows().size(); }

TwOptionInfo option_info(size_t index) {
  if (index >= rows().size()) throw UsageError("there is no option {}: there are {}", index, rows().size());
  const Described& row = rows()[index];
  return {sizeof(TwOptionInfo), row.name.c_str(),     row.kind.c_str(), row.choices.c_str(),
          row.initial.c_str(),  row.variable.c_str(), row.help.c_str(), row.is_repeatable ? 1 : 0};
}

size_t target_count() { return targets().size(); }

const char* target_name(size_t index) { return index < targets().size() ? targets()[index].c_str() : nullptr; }

void set_option(TwCompileOptions& options, std::string_view name, std::string_view text) {
  CompileOptions changed = options.values;  // what fails half way leaves them as they are
  driver::set_option(changed, name, {text, spelled(name)});
  options.values = std::move(changed);
  options.given.emplace(name);
}

void set_shape(TwCompileOptions& options, size_t entry, const std::string& input, Shape shape) {
  for (const int64_t extent : shape) check_extent("shape", input, extent);
  combination(options.values, entry).shapes[input] = std::move(shape);
}

void set_dimension(TwCompileOptions& options, size_t entry, const std::string& name, int64_t value) {
  check_extent("dim", name, value);
  combination(options.values, entry).dims[name] = value;
}

void set_constant(TwCompileOptions& options, const std::string& name, const DLTensor& tensor) {
  const graph::RefTensor constant = to_reference(fmt::format("constant '{}'", name), tensor);
  for (frontend::ImportOptions& import : options.values.imports) import.constants[name] = constant;
}

void set_state(TwCompileOptions& options, StatePair state, const DLTensor* initial) {
  if (initial != nullptr) state.initial = InitialValue(to_reference(fmt::format("state '{}'", state.input), *initial));
  options.values.states.push_back(std::move(state));
}

void read_environment(TwCompileOptions& options) {
  for (const OptionRow& row : compile_options()) {
    if (row.variable.empty() || options.given.contains(row.name)) continue;
    const char* value = std::getenv(std::string(row.variable).c_str());
    if (value != nullptr && *value != 0)
      driver::set_option(options.values, row.name, {value, "$" + std::string(row.variable)});
  }
}

}  // namespace tw::driver::api
