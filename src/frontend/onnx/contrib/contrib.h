// Operators of onnxruntime's own domain, com.microsoft, as its optimisers, its quantisation and exporters leave them.
// Source: onnxruntime, ContribOperators.md.
#pragma once
#include <string_view>

#include "frontend/onnx/converters.h"

namespace tw::frontend {

constexpr std::string_view kMicrosoft = "com.microsoft";

/// Unsupported, naming the attribute and `remedy`, where integer attribute `key` has another value than `only`.
void require_attr(const NodeContext& c, const std::string& key, int64_t only, std::string_view remedy);

}  // namespace tw::frontend
