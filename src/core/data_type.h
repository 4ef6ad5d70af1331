// Element types, scalar or vector. `DataType::f32().with_lanes(16)` is a vector of 16 floats.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tw {

enum class ScalarType : uint8_t { kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF16, kBF16, kF32, kF64 };

class DataType {
 public:
  constexpr DataType(ScalarType scalar = ScalarType::kF32, int lanes = 1) : scalar_(scalar), lanes_(lanes) {}
  static constexpr DataType boolean() { return {ScalarType::kBool}; }
  static constexpr DataType i32() { return {ScalarType::kI32}; }
  static constexpr DataType i64() { return {ScalarType::kI64}; }
  static constexpr DataType f16() { return {ScalarType::kF16}; }
  static constexpr DataType bf16() { return {ScalarType::kBF16}; }
  static constexpr DataType f32() { return {ScalarType::kF32}; }
  static constexpr DataType f64() { return {ScalarType::kF64}; }

  constexpr ScalarType scalar() const { return scalar_; }
  constexpr int lanes() const { return lanes_; }
  constexpr DataType element() const { return {scalar_}; }
  constexpr DataType with_lanes(int lanes) const { return {scalar_, lanes}; }
  constexpr bool is_vector() const { return lanes_ > 1; }
  constexpr bool is_bool() const { return scalar_ == ScalarType::kBool; }
  constexpr bool is_float() const { return scalar_ >= ScalarType::kF16; }
  /// f16 or bf16: stored in 16 bits, computed in f32.
  constexpr bool is_half() const { return scalar_ == ScalarType::kF16 || scalar_ == ScalarType::kBF16; }
  constexpr bool is_int() const { return !is_float() && !is_bool(); }
  bool is_signed_int() const;
  bool is_unsigned_int() const { return is_int() && !is_signed_int(); }
  /// Size of one element in bits; bool counts 8 (one byte in memory).
  int bits() const;
  /// Size of one element in bytes.
  int bytes() const { return bits() / 8; }
  friend constexpr bool operator==(DataType, DataType) = default;

 private:
  ScalarType scalar_;
  int lanes_;
};

/// "f32", "i64", "bool", "f32x16".
std::string to_string(DataType type);
/// Inverse of to_string; nothing if the text names no type.
std::optional<DataType> parse_data_type(std::string_view text);

/// Nearest binary16 / bfloat16 bits of a value, ties to even, and back (exact).
uint16_t f16_bits(double value);
double f16_value(uint16_t bits);
uint16_t bf16_bits(double value);
double bf16_value(uint16_t bits);

}  // namespace tw
