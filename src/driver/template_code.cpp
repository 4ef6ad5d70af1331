#include "driver/template_code.h"

#include <algorithm>

#include "driver/mapped_file.h"
#include "templates/fit.h"
#include "templates/library.h"

namespace tw::driver {
namespace {

// The number of a launch's operand among the kernel's buffers.
int64_t place_of(const std::string& name, const loop::Kernel& kernel) {
  const auto found = std::ranges::find(kernel.params, name, &loop::Buffer::name);
  TW_CHECK(found != kernel.params.end(), "the kernel of a template has no buffer {}", name);
  return found - kernel.params.begin();
}

std::vector<std::byte> read_bytes(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) throw ResourceError(fmt::format("cannot read '{}': {}", path, file.reason()));
  const std::span<const std::byte> bytes = std::as_bytes(file->bytes());
  return {bytes.begin(), bytes.end()};
}

}  // namespace

bool is_template(const loop::Program& program) {
  return program.kernels.size() == 1 && templates::is_template(program.kernels[0].implementation);
}

ProgramCode template_code(const CodeTask& task, const TargetInfo& target) {
  const loop::Kernel& kernel = task.program.kernels[0];
  const templates::Implementation implementation = templates::parse_implementation(kernel.implementation);
  const auto fail = [&](const std::string& reason) {
    throw UserError(fmt::format("group '{}': template {}: {}", task.name, name_of(implementation.row), reason));
  };
  const Result<templates::Fit> fit = templates::fit(implementation.problem);
  if (!fit) fail(fit.reason());
  const templates::Instance instance = fit->instance(implementation.row);
  templates::TemplateLibrary library({templates::template_folder()});
  const Result<templates::BuiltTemplate> built = library.build(instance);
  if (!built) fail(built.reason());
  Result<templates::HostProgram> host = templates::HostProgram::start(built->host);
  if (!host) fail(host.reason());
  templates::HostProgram program = std::move(host).value();
  Result<templates::Launch> launch = templates::find_launch(instance, fit->product, target.units,
                                                            [&](const std::string& line) { return program.ask(line); });
  if (!launch) fail(launch.reason());
  if (launch->workspace_bytes > 0) fail("it needs memory of its own");
  ProgramCode code{read_bytes(built->cubin), {}};
  ProgramCode::Entry entry{std::string(templates::kKernelName)};
  entry.cuda.whole = launch->step;
  const auto place = [&](auto& user) {
    if (user.buffer < 0 || user.buffer >= std::ssize(fit->operands)) fail("its launch uses memory of no operand");
    user.buffer = place_of(fit->operands[static_cast<size_t>(user.buffer)], kernel);
  };
  for (format::Relocation& r : entry.cuda.whole.relocations) place(r);
  for (format::TensorMap& m : entry.cuda.whole.tensor_maps) place(m);
  code.kernels.push_back(std::move(entry));
  return code;
}

}  // namespace tw::driver
