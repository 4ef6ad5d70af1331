#include "tilewright/values/inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "support/error.h"
#include "support/join.h"
#include "support/text.h"
#include "tilewright/values/arrays.h"

namespace tw::cli {
namespace {

// SplitMix64: a stream of 64-bit values from a seed. Source: Steele, Lea, Flood 2014.
uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::string expected_text(const std::vector<artefact::NamedType>& expected) {
  std::string text;
  for (const artefact::NamedType& e : expected) text += fmt::format("\n  {}: {}", e.name, to_string(e.type));
  return text;
}

}  // namespace

artefact::Array random_array(const TensorType& type, uint64_t seed) {
  graph::RefTensor tensor = graph::RefTensor::zeros(type);
  uint64_t state = seed;
  for (double& x : tensor.floats) x = static_cast<double>(next_random(state) >> 11) * 0x1p-52 - 1.0;
  for (int64_t& x : tensor.ints) x = static_cast<int64_t>(next_random(state) >> 63);
  return artefact::to_array(tensor);
}

namespace {

void take_folder(const std::string& folder, const std::vector<artefact::NamedType>& expected,
                 std::map<std::string, artefact::Array>& given) {
  const std::vector<artefact::Array> arrays = read_test_data(folder, "input");
  if (arrays.size() > expected.size())
    throw UsageError("'{}' has {}, the model {}", folder, count_text(std::ssize(arrays), "input"), expected.size());
  for (size_t i = 0; i < arrays.size(); ++i) given[expected[i].name] = arrays[i];
}

using Given = std::map<std::string, artefact::Array>;
using Expected = std::vector<artefact::NamedType>;

// All arrays of a file. The only one is that of the only input, whatever it is called. States may be given by name.
void take_file(const std::string& file, std::span<const artefact::NamedType> expected, Given& given) {
  Given arrays = read_arrays(file);
  if (arrays.size() == 1 && expected.size() == 1) {
    given[expected.front().name] = std::move(arrays.begin()->second);
    return;
  }
  if (arrays.contains("")) {
    const auto bindings = mapped(expected, [&](const auto& e) { return fmt::format("{}=@{}", e.name, file); });
    throw UsageError("--input '{}': the model takes {}; say which one it is for: {}", file,
                     count_text(std::ssize(bindings), "input"), list_text(bindings, "or"));
  }
  for (auto& [name, array] : arrays) given[name] = std::move(array);
}

// `expected`: inputs, of which the last `states` are kept from one run to the next.
Given read_given(const InputOptions& options, const Expected& expected, size_t states) {
  Given given;
  for (const std::string& text : options.inputs) {
    if (std::filesystem::is_directory(text)) {
      take_folder(text, expected, given);
    } else if (const size_t at = text.find("=@"); at != std::string::npos && at > 0) {
      given[text.substr(0, at)] = read_array(text.substr(at + 2));
    } else if (text.ends_with(".npy") || text.ends_with(".npz") || text.ends_with(".safetensors")) {
      if (text.find('=') != std::string::npos && !std::filesystem::exists(text))
        throw UsageError("--input '{}': a file follows an @: NAME=@FILE.npy", text);
      take_file(text, std::span(expected).first(expected.size() - states), given);
    } else {
      throw UsageError(
          "--input '{}': expected NAME=@FILE.npy, NAME=@FILE.npz:KEY, FILE.npy, FILE.npz, "
          "FILE.safetensors or a test_data_set folder",
          text);
    }
  }
  return given;
}

uint64_t parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const bool named = text.starts_with("seed=");
  const auto [rest, error] = std::from_chars(text.data() + (named ? 5 : 0), end, seed);
  if (!named || error != std::errc() || rest != end)
    throw UsageError("--random '{}': expected seed=N, a whole number below 2^64", text);
  return seed;
}

std::string given_text(const Given& given) {
  return list_text(
      mapped(given, [](const auto& g) { return fmt::format("{} {}", g.first, to_string(g.second.type)); }));
}

void check_names(const Given& given, const Expected& expected) {
  const std::vector<std::string> names = mapped(expected, &artefact::NamedType::name);
  for (const auto& [name, array] : given) {
    if (std::ranges::count(names, name) > 0) continue;
    throw UsageError("the model has no input '{}' ({} is given){}. It takes:{}", name, to_string(array.type),
                     suggestion(name, names), expected_text(expected));
  }
}

// How far the shapes that are given are from those of an entry, in elements of extents; 0: they are its shapes.
double distance(const Given& given, const Expected& expected) {
  constexpr double kOtherRank = 1e15;
  double sum = 0;
  for (const artefact::NamedType& e : expected) {
    const auto found = given.find(e.name);
    if (found == given.end()) continue;
    const Shape &have = found->second.type.shape, &want = e.type.shape;
    if (have.size() != want.size()) sum += kOtherRank;
    for (size_t d = 0; d < std::min(have.size(), want.size()); ++d)
      sum += std::abs(static_cast<double>(have[d] - want[d]));
  }
  return sum;
}

// The inputs of the entry that is named, else of the first whose shapes are those given. An artefact with one entry is
// not asked: the message about a wrong input is then about that input.
Expected choose_entry(const std::string& name, const artefact::Session& session, const Given& given) {
  const std::vector<std::string> all = session.entries();
  const std::vector<int> numbers = session.own_entries();
  const auto entries = mapped(numbers, [&](int e) { return all[static_cast<size_t>(e)]; });
  const auto known = [&] { return fmt::format("\n  {}", fmt::join(entries, "\n  ")); };
  std::map<std::string, Shape> shapes;
  for (const auto& [input, array] : given) shapes[input] = array.type.shape;
  if (!name.empty()) {
    const int64_t e = index_of(entries, name);
    if (e >= 0) return session.inputs(numbers[static_cast<size_t>(e)], shapes);
    const bool elsewhere = index_of(all, name) >= 0;
    throw UsageError("there is no entry '{}'{}; {} has:{}", name,
                     elsewhere ? " in this function (--function chooses another one)" : suggestion(name, entries),
                     elsewhere ? "it" : "the artefact", known());
  }
  const auto distances = mapped(numbers, [&](int e) { return distance(given, session.inputs(e, shapes)); });
  const auto nearest = std::ranges::min_element(distances) - distances.begin();
  const Expected expected = session.inputs(numbers[static_cast<size_t>(nearest)], shapes);
  if (entries.size() == 1 || distances[static_cast<size_t>(nearest)] == 0) return expected;
  throw UsageError("the artefact was not compiled for {}. The nearest entry takes:{}\nAll entries:{}",
                   given_text(given), expected_text(expected), known());
}

artefact::Array take_input(const InputOptions& options, const Expected& expected, size_t i, Given& given) {
  const artefact::NamedType& e = expected[i];
  const auto found = given.find(e.name);
  if (found == given.end()) {
    if (!options.random.empty()) return random_array(e.type, parse_seed(options.random) + i);
    throw UsageError("input '{}' is missing: give --input {}=@FILE.npy, or --random seed=0. The model takes:{}", e.name,
                     e.name, expected_text(expected));
  }
  if (!(found->second.type == e.type)) {
    throw UsageError("input '{}' is {}, the model takes {}", e.name, to_string(found->second.type), to_string(e.type));
  }
  return std::move(given.extract(found).mapped());
}

}  // namespace

std::vector<artefact::Array> gather_inputs(const InputOptions& options, const artefact::Session& session) {
  const Expected first = session.inputs();
  const std::vector<artefact::Array> kept = session.initial_states();
  Given given = read_given(options, first, kept.size());
  check_names(given, first);
  const Expected expected = choose_entry(options.entry, session, given);
  std::vector<artefact::Array> inputs;
  const size_t own = expected.size() - kept.size();
  // What functions share belongs together: moments and counters of a training step are not any numbers.
  const bool is_random = !options.random.empty() && session.functions().size() == 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool begins = i >= own && !given.contains(expected[i].name) && !is_random;
    inputs.push_back(begins ? kept[i - own] : take_input(options, expected, i, given));
  }
  return inputs;
}

std::map<std::string, Shape> given_shapes(const InputOptions& options, const std::vector<std::string>& names) {
  const Expected expected = mapped(names, [](const std::string& name) { return artefact::NamedType{name, {}}; });
  std::map<std::string, Shape> shapes;
  for (const auto& [name, array] : read_given(options, expected, 0)) shapes[name] = array.type.shape;
  return shapes;
}

}  // namespace tw::cli
