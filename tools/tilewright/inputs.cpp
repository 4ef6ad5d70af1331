#include "tilewright/inputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

#include "support/error.h"
#include "support/option_value.h"
#include "tilewright/arrays.h"

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
    throw UsageError(fmt::format("'{}' has {} inputs, the model {}", folder, arrays.size(), expected.size()));
  for (size_t i = 0; i < arrays.size(); ++i) given[expected[i].name] = arrays[i];
}

std::map<std::string, artefact::Array> read_given(const InputOptions& options,
                                                  const std::vector<artefact::NamedType>& expected) {
  std::map<std::string, artefact::Array> given;
  for (const std::string& text : options.inputs) {
    if (std::filesystem::is_directory(text)) {
      take_folder(text, expected, given);
    } else if (text.ends_with(".npz") || text.ends_with(".safetensors")) {
      for (auto& [name, array] : text.ends_with(".npz") ? read_npz(text) : read_safetensors(text))
        given[name] = std::move(array);
    } else {
      const auto [name, file] = parse_binding({text, "--input"});
      if (file.empty() || file[0] != '@')
        throw UsageError(
            fmt::format("--input '{}': expected NAME=@FILE.npy, FILE.npz, FILE.safetensors or a folder", text));
      given[name] = read_npy(file.substr(1));
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
    throw UsageError(fmt::format("--random '{}': expected seed=N, N less than 2^64", text));
  return seed;
}

using Given = std::map<std::string, artefact::Array>;
using Expected = std::vector<artefact::NamedType>;

bool fits(const Given& given, const Expected& expected) {
  return std::ranges::all_of(expected, [&](const artefact::NamedType& e) {
    const auto found = given.find(e.name);
    return found == given.end() || found->second.type == e.type;
  });
}

// The inputs of the entry that is named, else of the first that takes what is given. An artefact with one entry is not
// asked: the message about a wrong input is then about that input.
Expected choose_entry(const std::string& name, const artefact::Session& session, const Given& given) {
  const std::vector<std::string> entries = session.entries();
  std::string known;
  for (size_t e = 0; e < entries.size(); ++e) {
    const Expected expected = session.inputs(static_cast<int>(e));
    if (name.empty() ? entries.size() == 1 || fits(given, expected) : entries[e] == name) return expected;
    known += "\n  " + entries[e];
  }
  if (!name.empty()) throw UsageError(fmt::format("there is no entry '{}'; the artefact has:{}", name, known));
  throw UsageError(fmt::format("the artefact was not compiled for inputs of these shapes, but for:{}", known));
}

artefact::Array take_input(const InputOptions& options, const Expected& expected, size_t i, Given& given) {
  const artefact::NamedType& e = expected[i];
  const auto found = given.find(e.name);
  if (found == given.end()) {
    if (!options.random.empty()) return random_array(e.type, parse_seed(options.random) + i);
    throw UsageError(
        fmt::format("input '{}' is missing; give --input {}=@FILE.npy or --random seed=0. The model takes:{}", e.name,
                    e.name, expected_text(expected)));
  }
  if (!(found->second.type == e.type)) {
    throw UsageError(
        fmt::format("input '{}' is {}, the model takes {}", e.name, to_string(found->second.type), to_string(e.type)));
  }
  return std::move(given.extract(found).mapped());
}

}  // namespace

std::vector<artefact::Array> gather_inputs(const InputOptions& options, const artefact::Session& session) {
  Given given = read_given(options, session.inputs());
  const Expected expected = choose_entry(options.entry, session, given);
  std::vector<artefact::Array> inputs;
  const std::vector<artefact::Array> kept = session.initial_states();
  const size_t own = expected.size() - kept.size();
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool begins = i >= own && !given.contains(expected[i].name) && options.random.empty();
    inputs.push_back(begins ? kept[i - own] : take_input(options, expected, i, given));
  }
  if (!given.empty())
    throw UsageError(
        fmt::format("the model has no input '{}'; it takes:{}", given.begin()->first, expected_text(expected)));
  return inputs;
}

}  // namespace tw::cli
