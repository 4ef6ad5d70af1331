#include "codegen/cuda/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/cuda/emit_expr.h"
#include "support/error.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;

class KernelEmitter {
 public:
  KernelEmitter(const loop::Kernel& kernel, std::string name) : kernel_(kernel), name_(std::move(name)) {}

  std::string run() {
    std::vector<std::string> params;
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      const loop::Buffer& p = kernel_.params[i];
      const std::string name = fmt::format("p{}", i);
      names_.buffers[p.name] = {name, p.shape};
      params.push_back(fmt::format("{}* __restrict__ {}", cuda_type(p.type), name));
    }
    line("extern \"C\" __global__ void {}({}) {{", name_, fmt::join(params, ", "));
    ++depth_;
    line("const long long tile = (long long)blockIdx.x * blockDim.x + threadIdx.x;");
    line("if (tile >= {}LL) return;", kernel_.tiles);
    if (!kernel_.tile_var.empty()) names_.variables[kernel_.tile_var] = "tile";
    statements(kernel_.body);
    --depth_;
    line("}}");
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string fresh() { return fmt::format("v{}", counter_++); }

  void statements(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) statement(s);
  }

  void block(const std::vector<Stmt>& stmts) {
    ++depth_;
    statements(stmts);
    --depth_;
  }

  void statement(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::kFor:
        return for_loop(s);
      case StmtKind::kLet:
        return let(s);
      case StmtKind::kStore:
        return store(s);
      case StmtKind::kIf:
        return branch(s);
      case StmtKind::kBlock:
        return statements(s->body);
      case StmtKind::kAllocate:
        return allocate(s);
      case StmtKind::kPrefetch:
        return;
    }
  }

  void for_loop(const Stmt& s) {
    const std::string name = fresh();
    names_.variables[s->var] = name;
    line("for (long long {0} = 0; {0} < {1}LL; ++{0}) {{", name, s->extent);
    block(s->body);
    line("}}");
  }

  void let(const Stmt& s) {
    const std::string name = fresh();
    line("const {} {} = {};", cuda_type(s->value.type()), name, cuda_expr(s->value, names_));
    names_.variables[s->var] = name;
    statements(s->body);
  }

  void store(const Stmt& s) {
    const CudaNames::Array& array = names_.buffers.at(s->buffer);
    const std::string condition = s->predicate ? fmt::format("if ({}) ", cuda_expr(s->predicate, names_)) : "";
    line("{}{}[{}] = {};", condition, array.name, cuda_offset(s->indices, array.shape, names_),
         cuda_expr(s->value, names_));
  }

  void branch(const Stmt& s) {
    line("if ({}) {{", cuda_expr(s->predicate, names_));
    block(s->body);
    if (!s->otherwise.empty()) {
      line("}} else {{");
      block(s->otherwise);
    }
    line("}}");
  }

  void allocate(const Stmt& s) {
    const std::string name = fresh();
    names_.buffers[s->allocated.name] = {name, s->allocated.shape};
    line("{} {}[{}];", cuda_type(s->allocated.type), name, s->allocated.size());
    statements(s->body);
  }

  const loop::Kernel& kernel_;
  std::string name_;
  CudaNames names_;
  std::string text_;
  int depth_ = 0;
  int counter_ = 0;
};

}  // namespace

CudaSource emit_cuda(const loop::Program& program) {
  CudaSource source;
  source.text = cuda_prelude();
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    CudaKernel kernel{fmt::format("tw_kernel_{}", k), {}, program.kernels[k].tiles};
    for (const loop::Buffer& p : program.kernels[k].params) kernel.params.push_back(p.name);
    source.text += "\n" + KernelEmitter(program.kernels[k], kernel.name).run();
    source.kernels.push_back(std::move(kernel));
  }
  return source;
}

}  // namespace tw::codegen
