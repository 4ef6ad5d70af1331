// Tensors of callers as the compiler's own. They are in CPU memory, row-major and compact; UsageError where not.
#pragma once
#include <string>

#include "frontend/onnx/imported.h"
#include "tilewright/compiler.h"

namespace tw::driver::api {

/// Copies of the tensor; `what` names it in errors: "constant 'w'".
graph::RefTensor to_reference(const std::string& what, const DLTensor& tensor);
frontend::Weight to_weight(const std::string& what, const DLTensor& tensor);

}  // namespace tw::driver::api
