#include "driver/entry_passes.h"

#include "driver/states.h"

namespace tw::driver {

transform::RunOptions pass_options(const CompileOptions& options, std::span<const plan::PassVariant> variants) {
  transform::RunOptions run;
  run.disabled = named_in(transform::pipeline(), options.disabled_passes);
  for (const transform::GraphPass& pass : transform::pipeline()) {
    const bool is_left_out = std::ranges::count(options.disabled_families, pass.family) > 0;
    if (is_left_out) run.disabled.emplace_back(pass.name);
  }
  for (const plan::PassVariant& variant : variants) {
    if (variant.is_chosen && variant.variant == transform::kOff) run.disabled.push_back(variant.pass);
  }
  run.all_optional_off = options.all_optional_off;
  run.stop_after = options.stop_after;
  return run;
}

transform::TransformContext transform_context(const graph::OpTable& ops, const TargetInfo& target,
                                              const CompileOptions& options,
                                              std::span<const plan::PassVariant> variants) {
  transform::TransformContext context = {ops, target, options.precision, options.dtype};
  context.states = names_of(options.states);
  for (const plan::PassVariant& variant : variants) {
    if (variant.is_chosen) context.variants[variant.pass] = variant.variant;
  }
  return context;
}

}  // namespace tw::driver
