// What calls of NVIDIA's libraries have in common, and how the libraries are found.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/cuda/handles.h"
#include "runtime/format/problem.h"

namespace tw::runtime::cuda {

/// An object of a library, with the function that destroys it.
using LibraryObject = std::unique_ptr<void, int (*)(void*)>;

/// An open library.
class SharedLibrary {
 public:
  /// Opens the first of `files` that there is: in the folders that TILEWRIGHT_LIBRARY_PATH lists, then where the system
  /// looks for libraries. Throws Error(kDevice) without one; `name` and `remedy` are for messages.
  SharedLibrary(const char* name, const std::vector<const char*>& files, const char* remedy);
  template <typename Function>
  void resolve(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  const char* name_;
  void* library_ = nullptr;  // open until the process ends
};

/// A step that a library computes. The GPU is current while it is used.
class Call {
 public:
  virtual ~Call() = default;
  /// Puts the step on a stream: addresses of ProblemDescriptor::operands(), in their order, and workspace_bytes() of
  /// memory.
  virtual void run(std::span<const DevicePtr> operands, DevicePtr workspace, StreamHandle stream) const = 0;
  virtual size_t workspace_bytes() const = 0;
};

}  // namespace tw::runtime::cuda
