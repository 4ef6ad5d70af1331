// The calls of libraries that the steps of one context make.
#pragma once
#include <map>
#include <string>

#include "runtime/device/cuda/gpu.h"
#include "runtime/device/cuda/library.h"

namespace tw::runtime::cuda {

class Calls {
 public:
  explicit Calls(const Gpu& gpu) : gpu_(gpu) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() {
    release_on(gpu_, [this] { calls_.clear(), cublaslt_.reset(), cudnn_.reset(); });
  }
  /// Opens the library that a LibraryCall, as text, names. Throws Error(kDevice) where there is none.
  static void open(const Driver& driver, const std::string& text);

  /// Makes the call ready for at(). The GPU is current. Throws Error(kDevice) where the library does not compute it.
  void add(const std::string& text);
  const Call& at(const std::string& text) const { return *calls_.at(text); }
  /// Of whichever call runs.
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  const Gpu& gpu_;
  LibraryObject cublaslt_{nullptr, nullptr}, cudnn_{nullptr, nullptr};  // handles
  std::map<std::string, std::unique_ptr<Call>> calls_;
  size_t workspace_bytes_ = 0;
};

}  // namespace tw::runtime::cuda
