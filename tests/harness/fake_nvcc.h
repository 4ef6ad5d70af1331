// An nvcc for tests: a script that counts its runs and writes a cubin and a host program, and headers beside it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace tw {

struct FakeNvcc {
  std::filesystem::path folder;  // of all that it has

  std::filesystem::path path() const { return folder / "nvcc"; }
  /// What it calls CUTLASS's headers; made by write().
  std::filesystem::path headers() const { return folder / "headers"; }
  int64_t runs() const;

  struct Behaviour {
    std::string first = {};             ///< shell commands before it writes anything
    std::string version = "V13.0.1";    ///< that it says
    std::string program = "program\n";  ///< the host program
  };
  /// Makes it, or puts another one into its place.
  void write(const Behaviour& behaviour) const;
};

}  // namespace tw
