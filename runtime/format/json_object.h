// Strict reading of one JSON object: every key must be asked for, every value must have its type and range.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/format/error.h"

namespace tw::format {

using Json = nlohmann::json;

/// Numbers in a manifest are at most this: sums of a few of them cannot overflow int64.
inline constexpr int64_t kMaxNumber = int64_t{1} << 60;

int64_t read_integer(const Json& value, const std::string& what);
std::string read_text(const Json& value, const std::string& what);

class JsonObject {
 public:
  /// `what` names the object in messages, for example "entry 0".
  JsonObject(const Json& value, std::string what);
  const Json& at(const char* key);
  bool has(const char* key) const { return value_.contains(key); }
  int64_t integer(const char* key) { return read_integer(at(key), path(key)); }
  std::string text(const char* key) { return read_text(at(key), path(key)); }
  bool boolean(const char* key);
  const Json& array(const char* key);
  /// The array under `key`, each element through read(element, "what.key[i]").
  template <typename Read>
  auto list(const char* key, Read read) -> std::vector<decltype(read(std::declval<const Json&>(), std::string()))> {
    std::vector<decltype(read(std::declval<const Json&>(), std::string()))> result;
    const Json& elements = array(key);
    result.reserve(elements.size());
    for (const Json& element : elements) {
      result.push_back(read(element, join(path(key), "[", result.size(), "]")));
    }
    return result;
  }
  /// Throws if the object has a key that was not asked for.
  void finish() const;

 private:
  std::string path(const char* key) const { return what_ + "." + key; }

  const Json& value_;
  std::string what_;
  std::vector<std::string> used_;
};

}  // namespace tw::format
