// What all entries of an artefact share: the table of kernels with their code, and the weights.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/target_info.h"
#include "driver/artefact/compiled.h"

namespace tw::driver {

/// One cache line, one vector: code and weights begin at multiples of it, in bytes.
inline constexpr int64_t kAlignment = 64;

/// Lays the code of all programs out: on a CPU in one section, each cubin in a section of its own.
class CodeStore {
 public:
  CodeStore(DeviceKind device, const std::vector<ProgramCode>& programs, Assembled& out);
  /// Row of the kernel table for kernel `kernel` of program `program`.
  int64_t row(int program, size_t kernel) const { return first_row_[program] + static_cast<int64_t>(kernel); }
  const ProgramCode::Entry& entry(int program, size_t kernel) const { return programs_[program].kernels[kernel]; }

 private:
  void place(size_t program, Assembled& out);
  DeviceKind device_;
  const std::vector<ProgramCode>& programs_;
  std::vector<int64_t> first_row_;  // of each program
};

/// Constants as they are stored, equal ones of one layout once.
class WeightStore {
 public:
  /// Where the constant `value` lies in the section "weights" when it is stored as `layout` says.
  struct Place {
    int64_t offset = 0, bytes = 0;
  };
  Place add(const graph::Value& value, const Layout& layout);
  /// The section's bytes.
  LargeArray take();
  graph::ContentHashes& hashes() { return hashes_; }

 private:
  struct Stored {
    graph::Bytes elements;
    TensorType type;
    Layout layout;
    Place place;
  };
  int64_t end_ = 0;
  std::vector<Stored> stored_;
  graph::ContentHashes hashes_;
  std::map<std::string, Place> places_;  // by content and layout
};

}  // namespace tw::driver
