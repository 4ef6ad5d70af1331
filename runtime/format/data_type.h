// Element types of tensors in an artefact, with the names that the manifest uses.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace tw::format {

enum class DataType : uint8_t { kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF16, kBF16, kF32, kF64 };

/// "bool", "i8", "u8", ..., "f16", "bf16", "f32", "f64".
std::string_view name_of(DataType type);
/// Inverse of name_of; nothing if the text names no type.
std::optional<DataType> parse_data_type(std::string_view name);
/// Bytes of one element in memory.
int64_t bytes_of(DataType type);

}  // namespace tw::format
