#include "driver/artefact/code_store.h"

#include "support/math.h"
#include "support/memory.h"
#include "support/parallel.h"
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
  LargeArray& code = out.sections[section];
  code.resize(round_up(static_cast<int64_t>(code.size()), kAlignment), 0);
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
  const int64_t bytes = num_elements(layout.storage_shape(value.type.shape)) * value.type.type.bytes();
  require_memory(bytes, fmt::format("constant '{}'", value.name));
  const Place place{round_up(end_, kAlignment), bytes};
  end_ = place.offset + bytes;
  stored_.push_back({value.constant, value.type, layout, place});
  return known->second = place;
}

LargeArray WeightStore::take() {
  LargeArray section(static_cast<size_t>(end_));
  parallel_for(stored_.size(), 0, [&](size_t i) {
    const Stored& s = stored_[i];
    const int64_t end = s.place.offset + s.place.bytes;
    const int64_t next = i + 1 < stored_.size() ? stored_[i + 1].place.offset : end_;
    te::materialize_into(std::as_writable_bytes(std::span(section)).subspan(s.place.offset, s.place.bytes), *s.elements,
                         static_cast<size_t>(s.type.type.bytes()), s.type.shape, s.layout);
    std::fill(section.begin() + end, section.begin() + next, 0);
  });
  return section;
}

}  // namespace tw::driver
