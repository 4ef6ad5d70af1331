#include "runtime/format/json_object.h"

#include <algorithm>

namespace tw::format {

int64_t read_integer(const Json& value, const std::string& what) {
  // Canonical text spells a non-negative integer without sign or fraction; the parser then stores it as unsigned.
  if (!value.is_number_unsigned()) fail(ErrorCode::kDamaged, "manifest: ", what, " is not a non-negative integer");
  const auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(kMaxNumber)) fail(ErrorCode::kDamaged, "manifest: ", what, " is too large");
  return static_cast<int64_t>(number);
}

std::string read_text(const Json& value, const std::string& what) {
  if (!value.is_string()) fail(ErrorCode::kDamaged, "manifest: ", what, " is not a string");
  auto text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) fail(ErrorCode::kDamaged, "manifest: ", what, " contains a zero byte");
  return text;
}

JsonObject::JsonObject(const Json& value, std::string what) : value_(value), what_(std::move(what)) {
  if (!value_.is_object()) fail(ErrorCode::kDamaged, "manifest: ", what_, " is not an object");
}

const Json& JsonObject::at(const char* key) {
  const auto found = value_.find(key);
  if (found == value_.end()) fail(ErrorCode::kDamaged, "manifest: ", path(key), " is missing");
  used_.emplace_back(key);
  return *found;
}

bool JsonObject::boolean(const char* key) {
  const Json& value = at(key);
  if (!value.is_boolean()) fail(ErrorCode::kDamaged, "manifest: ", path(key), " is not true or false");
  return value.get<bool>();
}

const Json& JsonObject::array(const char* key) {
  const Json& value = at(key);
  if (!value.is_array()) fail(ErrorCode::kDamaged, "manifest: ", path(key), " is not a list");
  return value;
}

void JsonObject::finish() const {
  for (const auto& item : value_.items()) {
    if (std::find(used_.begin(), used_.end(), item.key()) == used_.end()) {
      fail(ErrorCode::kDamaged, "manifest: ", what_, " has the unknown key '", item.key(), "'");
    }
  }
}

}  // namespace tw::format
