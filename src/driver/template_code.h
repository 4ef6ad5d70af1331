// Kernels that a template of the library computes.
#pragma once
#include "driver/generate.h"

namespace tw::driver {

/// Whether the program's only kernel is a template's (templates/fit.h).
bool is_template(const loop::Program& program);
/// The template's cubin and its launch, built first where it has not been. UserError where it cannot be.
ProgramCode template_code(const CodeTask& task, const TargetInfo& target);

}  // namespace tw::driver
