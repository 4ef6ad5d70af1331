// An LLVM module that holds the kernels of a program.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tw::codegen::cpu {

/// Whether two parameters of one kernel may share memory (an output computed in place of an input).
enum class ParamAliasing : uint8_t { kDistinct, kMayOverlap };

struct EmitOptions {
  ParamAliasing aliasing = ParamAliasing::kDistinct;
  int64_t param_alignment = 64;  // bytes, a power of two: alignment of every parameter's base
};

struct KernelInfo {
  std::string name;
  int64_t scratch_bytes = 0;  // size of the scratch area that one thread needs; a multiple of 64
};

/// An LLVM module that holds the kernels of one program. Owns its LLVM context: different modules may be worked on by
/// different threads.
class Module {
 public:
  struct Impl;  // module_impl.h
  explicit Module(std::unique_ptr<Impl> impl);
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  ~Module();

  /// LLVM assembly text.
  std::string text() const;
  /// One row per kernel, in the program's order.
  const std::vector<KernelInfo>& kernels() const;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::codegen::cpu
