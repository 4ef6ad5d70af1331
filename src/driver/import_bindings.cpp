#include "driver/import_bindings.h"

#include "driver/ranges.h"
#include "support/hash.h"

namespace tw::driver {
namespace {

int64_t parse_extent(std::string_view extent, const OptionText& whole) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(extent.data(), extent.data() + extent.size(), value);
  if (code == std::errc() && end == extent.data() + extent.size() && value >= 0) return value;
  throw UsageError("{} '{}': '{}' is not a size: expected a whole number", whole.spelled, whole.text, extent);
}

// "1x3x224x224"; nothing is a scalar's.
Shape parse_shape(const OptionText& text) {
  Shape shape;
  if (text.text.empty()) return shape;
  for (const std::string& extent : split_list(text.text, 'x')) shape.push_back(parse_extent(extent, text));
  return shape;
}

// The value of each combination: options.imports has as many afterwards as there are.
std::vector<std::string> one_for_each(std::string_view list, const OptionText& text, CompileOptions& options) {
  std::vector<frontend::ImportOptions>& all = options.imports;
  std::vector<std::string> values = split_list(list);
  if (values.size() > 1 && all.size() > 1 && values.size() != all.size()) {
    throw UsageError("{} '{}' has {} values, an earlier list {}: lists are taken together, value by value",
                     text.spelled, text.text, values.size(), all.size());
  }
  if (values.size() > all.size()) {
    if (!options.least.empty()) options.least.resize(values.size(), LeastExtents(options.least.front()));
    all.resize(values.size(), frontend::ImportOptions(all.front()));
  }
  if (values.size() == 1) values.resize(all.size(), std::string(values.front()));
  return values;
}

// "{..} {..}", an entry for each combination.
template <typename Entries>
std::string print_each(const CompileOptions& options, const Entries& entries) {
  std::string out;
  for (const frontend::ImportOptions& import : options.imports) {
    out += out.empty() ? "{" : " {";
    entries(import, out);
    out += "}";
  }
  return out;
}

graph::RefTensor read_array(const std::string& file, const OptionText& text, const CompileOptions& options) {
  if (!options.read_array)
    throw UsageError("{} '{}': a tensor is expected here, not the name of a file", text.spelled, text.text);
  return options.read_array(file.substr(1));
}

// "1..128": each combination that there is with each extent that has an entry, which serves those down to the next one.
void set_range(const std::string& name, std::string_view list, const OptionText& text, CompileOptions& options) {
  const size_t dots = list.find("..");
  const int64_t smallest = parse_extent(list.substr(0, dots), text), most = parse_extent(list.substr(dots + 2), text);
  if (smallest < 1 || smallest > most)
    throw UsageError("{} '{}': a range goes from a size of at least 1 to one that is not smaller, such as 1..128",
                     text.spelled, text.text);
  const std::vector<int64_t> extents = extents_in_range(smallest, most);
  std::vector<frontend::ImportOptions> all;
  std::vector<LeastExtents> least;
  for (size_t m = 0; m < options.imports.size(); ++m) {
    for (size_t e = 0; e < extents.size(); ++e) {
      all.push_back(options.imports[m]);
      all.back().dims[name] = extents[e];
      least.push_back(least_of(options, m));
      least.back()[name] = e + 1 == extents.size() ? smallest : extents[e + 1] + 1;
    }
  }
  options.least = std::move(least);
  options.imports = std::move(all);
}

}  // namespace

void set_shape(const OptionRow&, const OptionText& text, CompileOptions& options) {
  const size_t colon = text.text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    throw UsageError("{} '{}': expected NAME:1x3x224x224", text.spelled, text.text);
  const std::vector<std::string> values = one_for_each(text.text.substr(colon + 1), text, options);
  for (size_t k = 0; k < values.size(); ++k)
    options.imports[k].shapes[std::string(text.text.substr(0, colon))] = parse_shape({values[k], text.spelled});
}

void set_dim(const OptionRow&, const OptionText& text, CompileOptions& options) {
  const auto [name, list] = parse_binding(text);
  if (list.find("..") != std::string::npos) return set_range(name, list, text, options);
  const std::vector<std::string> values = one_for_each(list, text, options);
  for (size_t k = 0; k < values.size(); ++k) options.imports[k].dims[name] = parse_extent(values[k], text);
}

void set_bound(const OptionRow&, const OptionText& text, CompileOptions& options) {
  const auto [name, size] = parse_binding(text);
  const int64_t bound = parse_extent(size, text);
  if (bound < 2) throw UsageError("{} '{}': expected room for at least 2 rows", text.spelled, text.text);
  for (frontend::ImportOptions& import : options.imports) import.bounds[name] = bound;
}

void set_constant(const OptionRow&, const OptionText& text, CompileOptions& options) {
  const auto [name, file] = parse_binding(text);
  if (!file.starts_with('@')) throw UsageError("{} '{}': expected NAME=@FILE.npy", text.spelled, text.text);
  const graph::RefTensor constant = read_array(file, text, options);
  for (frontend::ImportOptions& import : options.imports) import.constants[name] = constant;
}

void set_links(const OptionRow&, const OptionText& text, CompileOptions& options) {
  for (frontend::ImportOptions& import : options.imports) import.link_folders.emplace_back(text.text);
}

void set_state(const OptionRow&, const OptionText& text, CompileOptions& options) {
  const auto [input, rest] = parse_binding(text);
  const size_t second = rest.find("=@");
  StatePair pair{input, rest.substr(0, second)};
  if (pair.output.empty()) throw UsageError("{} '{}': expected INPUT=OUTPUT", text.spelled, text.text);
  if (second != std::string::npos) pair.initial = InitialValue(read_array(rest.substr(second + 1), text, options));
  options.states.push_back(std::move(pair));
}

std::string print_states(const OptionRow&, const CompileOptions& options) {
  std::string out;
  for (const StatePair& state : options.states) {
    out += fmt::format("{}{}{};", in_quotes(state.input), in_quotes(state.output),
                       state.initial ? content_hash(*state.initial->bytes) : "");
  }
  return out;
}

std::string print_shapes(const OptionRow&, const CompileOptions& options) {
  return print_each(options, [](const frontend::ImportOptions& import, std::string& out) {
    for (const auto& [name, shape] : import.shapes) out += in_quotes(name) + to_string(shape);
  });
}

std::string print_dims(const OptionRow&, const CompileOptions& options) {
  std::string out = print_each(options, [](const frontend::ImportOptions& import, std::string& text) {
    for (const auto& [name, value] : import.dims) text += fmt::format("{}{};", in_quotes(name), value);
  });
  for (const LeastExtents& least : options.least) {
    for (const auto& [name, value] : least) out += fmt::format(" {}from {};", in_quotes(name), value);
    out += ".";
  }
  return out;
}

std::string print_bounds(const OptionRow&, const CompileOptions& options) {
  return print_each(options, [](const frontend::ImportOptions& import, std::string& text) {
    for (const auto& [name, value] : import.bounds) text += fmt::format("{}{};", in_quotes(name), value);
  });
}

std::string print_links(const OptionRow&, const CompileOptions& options) {
  return print_each(options, [](const frontend::ImportOptions& import, std::string& out) {
    for (const std::string& folder : import.link_folders) out += in_quotes(folder);
  });
}

std::string print_constants(const OptionRow&, const CompileOptions& options) {
  return print_each(options, [](const frontend::ImportOptions& import, std::string& out) {
    for (const auto& [name, constant] : import.constants) {
      out += fmt::format("{}{} {};", in_quotes(name), to_string(constant.type),
                         content_hash(std::span<const std::byte>(constant.to_bytes())));
    }
  });
}

}  // namespace tw::driver
