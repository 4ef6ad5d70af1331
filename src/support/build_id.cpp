#include "support/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace tw {
namespace {

constexpr uintptr_t align_note(uintptr_t size) { return (size + 3) & ~uintptr_t{3}; }

// Descriptor of the GNU build id in a segment of notes, as digits; empty when it is not there.
std::string find_in_notes(const uint8_t* at, uintptr_t size) {
  const uint8_t* const end = at + size;
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const uint8_t* const name = at + sizeof(note);
    const uint8_t* const descriptor = name + align_note(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string digits;
      for (uintptr_t i = 0; i < note.n_descsz; ++i) digits += fmt::format("{:02x}", descriptor[i]);
      return digits;
    }
    at = descriptor + align_note(note.n_descsz);
  }
  return "";
}

struct Search {
  uintptr_t address;  // inside the object that is looked for
  std::string found;
};

int look_at(dl_phdr_info* object, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  bool holds = false;
  std::string id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) holds = holds || search->address - begin < segment.p_memsz;
    if (segment.p_type == PT_NOTE && id.empty())
      id = find_in_notes(reinterpret_cast<const uint8_t*>(begin), segment.p_memsz);
  }
  if (holds) search->found = id;
  return holds ? 1 : 0;
}

}  // namespace

std::string build_id() {
  Search search = {reinterpret_cast<uintptr_t>(&build_id), ""};
  dl_iterate_phdr(&look_at, &search);
  return search.found.empty() ? "unknown" : search.found;
}

}  // namespace tw
