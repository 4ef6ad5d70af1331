// Element types as artefacts name them.
#pragma once
#include "core/data_type.h"
#include "runtime/format/data_type.h"
#include "support/error.h"

namespace tw::driver {

/// The type by its name in manifests. InternalError for a type that artefacts do not know.
inline format::DataType format_type(DataType type) {
  const auto found = format::parse_data_type(to_string(type));
  TW_CHECK(found.has_value(), "element type {} has no name in artefacts", to_string(type));
  return *found;
}

}  // namespace tw::driver
