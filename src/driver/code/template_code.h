// Kernels that a template of the library computes.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "driver/code/program_code.h"

namespace tw::driver {

/// Whether the program's only kernel is a template's (templates/fit.h).
bool is_template(const loop::Program& program);
/// Builds those templates of programs that are not built, several at the same time as memory allows. For each program
/// why there is no template, or nothing. UserError without a compiler, ResourceError as TemplateLibrary::build_all().
std::vector<std::string> build_templates(std::span<const CodeTask> tasks, const TargetInfo& target,
                                         const std::function<bool()>& stop = {});
/// The template's cubin and its launch; where it is not built, those of its row without epilogue, as a mainloop-only
/// kernel. UserError where that is not built either.
ProgramCode template_code(const CodeTask& task, const TargetInfo& target);

}  // namespace tw::driver
