#include "core/data_type.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

namespace tw {
namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};
constexpr TypeRow kTypes[] = {{"bool", 8},  {"i8", 8},   {"u8", 8},   {"i16", 16}, {"u16", 16},
                              {"i32", 32},  {"u32", 32}, {"i64", 64}, {"u64", 64}, {"f16", 16},
                              {"bf16", 16}, {"f32", 32}, {"f64", 64}};

const TypeRow& row(ScalarType type) { return kTypes[static_cast<size_t>(type)]; }

// Bits of a small binary float with `mantissa_bits` and bias `bias`, rounded once from double, ties to even.
uint16_t small_float_bits(double value, int mantissa_bits, int bias) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity = static_cast<uint16_t>((2 * bias + 1) << mantissa_bits);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | (1u << (mantissa_bits - 1)));
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (magnitude == 0.0) return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place the value is rounded by nearbyint (ties to even).
  const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  const auto mantissa = static_cast<uint32_t>(units);
  // Adding instead of or-ing carries a rounded-up mantissa into the exponent; subnormals have no implicit bit.
  const uint32_t implicit = 1u << mantissa_bits;
  const uint32_t bits = mantissa < implicit
                            ? mantissa
                            : (static_cast<uint32_t>(exponent + bias) << mantissa_bits) + (mantissa - implicit);
  return static_cast<uint16_t>(sign | std::min<uint32_t>(bits, infinity));
}

}  // namespace

bool DataType::is_signed_int() const {
  return scalar_ == ScalarType::kI8 || scalar_ == ScalarType::kI16 || scalar_ == ScalarType::kI32 ||
         scalar_ == ScalarType::kI64;
}

int DataType::bits() const { return row(scalar_).bits; }

std::string to_string(DataType type) {
  const std::string name(row(type.scalar()).name);
  return type.is_vector() ? fmt::format("{}x{}", name, type.lanes()) : name;
}

std::optional<DataType> parse_data_type(std::string_view text) {
  const size_t cross = text.find('x');
  const std::string_view name = text.substr(0, cross);
  int lanes = 1;
  if (cross != std::string_view::npos) {
    const auto [end, code] = std::from_chars(text.data() + cross + 1, text.data() + text.size(), lanes);
    if (code != std::errc() || end != text.data() + text.size() || lanes < 2) return std::nullopt;
  }
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == name) return DataType(static_cast<ScalarType>(i), lanes);
  }
  return std::nullopt;
}

uint16_t f16_bits(double value) { return small_float_bits(value, 10, 15); }
uint16_t bf16_bits(double value) { return small_float_bits(value, 7, 127); }

double f16_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double magnitude = 0;
  if (exponent == 31) {
    magnitude = mantissa ? std::nan("") : INFINITY;
  } else {
    magnitude = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  }
  return (bits & 0x8000) ? -magnitude : magnitude;
}

double bf16_value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace tw
