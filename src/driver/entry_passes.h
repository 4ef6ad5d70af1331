// How the graph passes of an entry run: as the caller's options and the plan's variants say.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "driver/options.h"
#include "plan/plan.h"
#include "support/join.h"
#include "transform/pass.h"

namespace tw::driver {

/// Those of `disabled` that name a pass of `passes`: the command line names graph and loop passes alike.
template <typename Pass>
std::vector<std::string> named_in(std::span<const Pass> passes, const std::vector<std::string>& disabled) {
  return filtered(disabled, [&](const std::string& name) { return index_of(passes, name, &Pass::name) >= 0; });
}

/// Which graph passes are left out: by the caller, for want of a family, and where `variants` found that better.
transform::RunOptions pass_options(const CompileOptions& options, std::span<const plan::PassVariant> variants);

/// What the passes are told. `ops` must outlive it.
transform::TransformContext transform_context(const graph::OpTable& ops, const TargetInfo& target,
                                              const CompileOptions& options,
                                              std::span<const plan::PassVariant> variants);

}  // namespace tw::driver
