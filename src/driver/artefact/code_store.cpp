#include "driver/artefact/code_store.h"

#include "support/math.h"
#include "support/memory.h"
#include "te/materialize.h"

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

WeightStore::Place WeightStore::add(const graph::Value& value, const Layout& layout) {
  std::string key = hashes_.of(value.constant);
  if (!layout.is_identity())
    key += fmt::format(" {} {} {}", value.type.type.bytes(), to_string(value.type.shape), to_string(layout));
  const auto [known, fresh] = places_.try_emplace(std::move(key));
  if (!fresh) return known->second;
  require_memory(num_elements(layout.storage_shape(value.type.shape)) * value.type.type.bytes(),
                 fmt::format("constant '{}'", value.name));
  bytes_.resize(round_up(static_cast<int64_t>(bytes_.size()), kAlignment));
  const auto offset = static_cast<int64_t>(bytes_.size());
  const auto append = [&](const std::vector<std::byte>& stored) {
    const auto* data = reinterpret_cast<const uint8_t*>(stored.data());
    bytes_.insert(bytes_.end(), data, data + stored.size());
  };
  if (layout.is_identity()) {
    append(*value.constant);
  } else {
    append(te::materialize(*value.constant, value.type.type.bytes(), value.type.shape, layout));
  }
  return known->second = {offset, static_cast<int64_t>(bytes_.size()) - offset};
}

}  // namespace tw::driver
