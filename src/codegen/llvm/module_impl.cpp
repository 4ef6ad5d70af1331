#include "codegen/llvm/module_impl.h"

#include <llvm/Support/raw_ostream.h>

namespace tw::codegen::cpu {

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;
Module::~Module() = default;

std::string Module::text() const {
  std::string text;
  ::llvm::raw_string_ostream out(text);
  impl_->module->print(out, nullptr);
  return text;
}

const std::vector<KernelInfo>& Module::kernels() const { return impl_->kernels; }

}  // namespace tw::codegen::cpu
