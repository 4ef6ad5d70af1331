#include "driver/code/template_code.h"

#include "support/join.h"
#include "support/mapped_file.h"
#include "templates/fit.h"
#include "templates/library.h"

namespace tw::driver {
namespace {

// The number of a launch's operand among the kernel's buffers.
int64_t place_of(const std::string& name, const loop::Kernel& kernel) {
  const int64_t place = index_of(kernel.params, name, &loop::Buffer::name);
  TW_CHECK(place >= 0, "the kernel of a template has no buffer {}", name);
  return place;
}

std::vector<std::byte> read_bytes(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) throw ResourceError("cannot read '{}': {}", path, file.reason());
  const std::span<const std::byte> bytes = std::as_bytes(file->bytes());
  return {bytes.begin(), bytes.end()};
}

std::string message(const CodeTask& task, const templates::Row& row, const std::string& reason) {
  return fmt::format("group '{}': template {}: {}", task.name, name_of(row), reason);
}

std::pair<templates::Row, templates::Fit> wanted_by(const CodeTask& task) {
  const loop::TemplateCall& wanted = *task.program.kernels[0].implementation.of_template();
  const templates::Row& row = templates::row_named(wanted.row);
  Result<templates::Fit> fit = templates::fit(wanted.problem, wanted.epilogue);
  if (!fit) throw UserError(message(task, row, fit.reason()));
  return {row, std::move(fit).value()};
}

}  // namespace

bool is_template(const loop::Program& program) {
  return program.kernels.size() == 1 && program.kernels[0].implementation.of_template() != nullptr;
}

std::vector<std::string> build_templates(std::span<const CodeTask> tasks, const TargetInfo& target,
                                         const std::function<bool()>& stop) {
  templates::TemplateLibrary library({.folder = templates::template_folder(), .stop = stop});
  std::vector<std::string> reasons(tasks.size());
  std::vector<templates::Instance> missing;
  std::vector<size_t> users;
  for (size_t t = 0; t < tasks.size(); ++t) {
    if (!is_template(tasks[t].program)) continue;
    const auto [row, fit] = wanted_by(tasks[t]);
    missing.push_back(fit.instance(row, target.name));
    users.push_back(t);
    if (library.find(missing.back()).ok()) missing.pop_back(), users.pop_back();
  }
  if (missing.empty()) return reasons;
  library.build_all(missing, [&](size_t i, const Result<templates::BuiltTemplate>& built) {
    if (!built.ok()) reasons[users[i]] = message(tasks[users[i]], missing[i].row, built.reason());
  });
  return reasons;
}

ProgramCode template_code(const CodeTask& task, const TargetInfo& target) {
  const loop::Kernel& kernel = task.program.kernels[0];
  auto [row, fit] = wanted_by(task);
  const auto fail = [&, &row = row](const std::string& reason) { throw UserError(message(task, row, reason)); };
  const templates::TemplateLibrary library({templates::template_folder()});
  Result<templates::BuiltTemplate> built = library.find(fit.instance(row, target.name));
  const bool is_mainloop_only = !built.ok();
  if (is_mainloop_only) {
    fit = fit.without_epilogue();
    built = library.find(fit.instance(row, target.name));
  }
  if (!built) fail(built.reason());
  const templates::Instance instance = fit.instance(row, target.name);
  Result<templates::HostProgram> host = templates::HostProgram::start(built->host);
  if (!host) fail(host.reason());
  templates::HostProgram program = std::move(host).value();
  Result<templates::Launch> launch = templates::find_launch(instance, fit.product, target.compute_units,
                                                            [&](const std::string& line) { return program.ask(line); });
  if (!launch) fail(launch.reason());
  ProgramCode code{read_bytes(built->cubin), {}, is_mainloop_only};
  ProgramCode::Entry entry{std::string(templates::kKernelName)};
  entry.cuda.whole = launch->step;
  entry.cuda.workspace_bytes = launch->workspace_bytes, entry.cuda.zero_bytes = launch->zero_bytes;
  const auto place = [&](auto& user) {
    const bool is_workspace = launch->workspace_bytes > 0 && user.buffer == std::ssize(fit.operands);
    if (is_workspace) return void(user.buffer = std::ssize(kernel.params));
    if (user.buffer < 0 || user.buffer >= std::ssize(fit.operands)) fail("its launch uses memory of no operand");
    user.buffer = place_of(fit.operands[static_cast<size_t>(user.buffer)], kernel);
  };
  for (format::Relocation& r : entry.cuda.whole.relocations) place(r);
  for (format::TensorMap& m : entry.cuda.whole.tensor_maps) place(m);
  code.kernels.push_back(std::move(entry));
  return code;
}

}  // namespace tw::driver
