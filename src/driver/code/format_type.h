// Element types as artefacts name them.
#pragma once
#include "core/data_type.h"
#include "runtime/format/data_type.h"

namespace tw::driver {

/// The type by its name in manifests. InternalError for a type that artefacts do not know.
format::DataType format_type(DataType type);

}  // namespace tw::driver
