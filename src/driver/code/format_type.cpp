#include "driver/code/format_type.h"

#include "support/error.h"

namespace tw::driver {

format::DataType format_type(DataType type) {
  const auto found = format::parse_data_type(to_string(type));
  TW_CHECK(found.has_value(), "element type {} has no name in artefacts", to_string(type));
  return *found;
}

}  // namespace tw::driver
