// Convolutions that Winograd's algorithms compute, as their cost asks for them.
#pragma once
#include <optional>

#include "cost/convolution.h"
#include "transform/editor.h"

namespace tw::transform {

/// The convolution `node`, when it has a form in the Winograd operators, and one that the family of schedules takes.
std::optional<cost::ConvProblem> winograd_problem(const Editor& editor, const Node& node, const TargetInfo& target);

}  // namespace tw::transform
