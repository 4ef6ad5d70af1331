#include "runtime/format/data_type.h"

#include <iterator>

namespace tw::format {
namespace {

struct Row {
  std::string_view name;
  int64_t bytes;
};

/// Indexed by DataType.
constexpr Row kRows[] = {{"bool", 1}, {"i8", 1},  {"u8", 1},  {"i16", 2},  {"u16", 2}, {"i32", 4}, {"u32", 4},
                         {"i64", 8},  {"u64", 8}, {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}};

}  // namespace

std::string_view name_of(DataType type) { return kRows[static_cast<size_t>(type)].name; }

int64_t bytes_of(DataType type) { return kRows[static_cast<size_t>(type)].bytes; }

std::optional<DataType> parse_data_type(std::string_view name) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

}  // namespace tw::format
