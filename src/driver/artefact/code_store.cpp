#include "driver/artefact/code_store.h"

#include "support/hash.h"
#include "support/math.h"

namespace tw::driver {

CodeStore::CodeStore(DeviceKind device, const std::vector<ProgramCode>& programs, Assembled& out)
    : device_(device), programs_(programs) {
  for (size_t p = 0; p < programs.size(); ++p) place(p, out);
}

void CodeStore::place(size_t p, Assembled& out) {
  const ProgramCode& program = programs_[p];
  const bool cubin = device_ == DeviceKind::kCuda;
  if (cubin && program.bytes.empty()) {
    first_row_.push_back(0);  // library calls: no step asks for a row
    return;
  }
  const std::string section = cubin ? fmt::format("cubin.{}", p) : "code";
  std::vector<uint8_t>& code = out.sections[section];
  code.resize(round_up(static_cast<int64_t>(code.size()), kAlignment));
  const auto base = static_cast<int64_t>(code.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(program.bytes.data());
  code.insert(code.end(), bytes, bytes + program.bytes.size());
  first_row_.push_back(static_cast<int64_t>(out.manifest.kernels.size()));
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const ProgramCode::Entry& kernel = program.kernels[k];
    const std::string name = cubin ? kernel.name : fmt::format("p{}.k{}", p, k);
    const auto size = cubin ? static_cast<int64_t>(program.bytes.size()) : kernel.bytes;
    out.manifest.kernels.push_back({name, section, base + kernel.offset, size});
  }
}

int64_t WeightStore::add(std::span<const std::byte> bytes) {
  const std::string content = content_hash(bytes);
  if (const auto known = offset_.find(content); known != offset_.end()) return known->second;
  bytes_.resize(round_up(static_cast<int64_t>(bytes_.size()), kAlignment));
  const auto offset = static_cast<int64_t>(bytes_.size());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  bytes_.insert(bytes_.end(), data, data + bytes.size());
  return offset_[content] = offset;
}

}  // namespace tw::driver
