// The cubins of a model on a GPU.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/device/cuda/gpu.h"
#include "runtime/format/manifest.h"

namespace tw::runtime::cuda {

class Modules {
 public:
  using Sections = std::function<format::Bytes(const std::string& name)>;

  /// Loads the cubin of every kernel of `manifest`; its steps then have the shared memory that they ask for. The GPU is
  /// current. Throws Error, kIncompatible where the GPU cannot run a cubin.
  Modules(const Gpu& gpu, const format::Manifest& manifest, const Sections& sections) : gpu_(gpu) {
    load(manifest, sections);
    prepare_steps(manifest);
  }

  /// Of Manifest::kernels.
  const std::vector<FunctionHandle>& functions() const { return functions_; }

 private:
  void load(const format::Manifest& manifest, const Sections& sections);
  void prepare_steps(const format::Manifest& manifest);

  const Gpu& gpu_;
  std::map<std::string, Owned<ModuleHandle, &Driver::module_unload>> modules_;  // by section
  std::vector<FunctionHandle> functions_;
};

}  // namespace tw::runtime::cuda
