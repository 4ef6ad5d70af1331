// Built templates: nvcc makes each a cubin and a host program, once for each text; a folder keeps them, which can be
// copied to machines without nvcc.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "support/error.h"
#include "templates/source.h"

namespace tw::templates {

struct TemplateOptions {
  std::string folder;               ///< of the library; it need not exist
  std::string nvcc = {};            ///< empty: $TILEWRIGHT_NVCC, then nvcc of PATH, then that of /usr/local/cuda
  std::string headers = {};         ///< CUTLASS's include folder; empty: $TILEWRIGHT_CUTLASS, then
                                    ///< .third_party/cutlass/include beside this program or above it
  int processes = 0;                ///< at the same time; 0: one for each CPU, fewer where memory is short
  double seconds = 1200;            ///< for one text; then nvcc counts as hanging
  std::function<bool()> stop = {};  ///< true: nvcc ends at once
};

/// The library's folder where none is named: "templates" in the cache folder; empty: there is none.
std::string template_folder();
/// Differs when what a library holds differs.
std::string library_revision(const std::string& folder);

struct BuiltTemplate {
  std::string cubin, host;  ///< paths; `host` is a program (templates/host.h)
  int64_t bytes = 0;        ///< of the cubin
  int registers = 0;        ///< of a thread
  double seconds = 0;       ///< that nvcc took
  std::string toolchain;    ///< what made it
};

class TemplateLibrary {
 public:
  explicit TemplateLibrary(TemplateOptions options) : options_(std::move(options)) {}

  /// The built instance, or that it is not built (or damaged: as if it were not).
  Result<BuiltTemplate> find(const Instance& instance) const;
  /// Texts that nvcc was given in this process until now.
  static int64_t compilations();
  /// Whether there are a compiler and CUTLASS's headers.
  bool can_build() const;

  /// Builds those of `instances` that this toolchain has not built, several at the same time; `done(i, built)` is
  /// called for each, one after the other, with a reason where nvcc refuses the text, where it spills registers or
  /// serializes instructions, or where nvcc is stopped, killed or short of something: then ResourceError at the end.
  /// UserError without nvcc or CUTLASS's headers, ResourceError where no process can be had.
  using Done = std::function<void(size_t i, const Result<BuiltTemplate>& built)>;
  void build_all(const std::vector<Instance>& instances, const Done& done);

 private:
  struct Toolchain {
    std::string nvcc, headers;
    std::string name;  // nvcc's version and a hash of the headers
  };
  const Toolchain& toolchain();
  Result<BuiltTemplate> compile(const std::string& key, const Instance& instance);

  TemplateOptions options_;
  Toolchain toolchain_;
};

}  // namespace tw::templates
