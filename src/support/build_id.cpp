#include "support/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

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
  uintptr_t address;  // inside this compiler's own object
  std::string own;
  std::string others;  // of the code generator, where it is an object of its own
};

bool is_code_generator(const char* path) {
  const std::string_view name = path == nullptr ? "" : path;
  return name.substr(name.rfind('/') + 1).starts_with("libLLVM");
}

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
  if (holds) search->own = id;
  if (!holds && is_code_generator(object->dlpi_name)) search->others += id.empty() ? object->dlpi_name : id;
  return 0;
}

}  // namespace

std::string build_id() {
  Search search = {reinterpret_cast<uintptr_t>(&build_id), "", ""};
  dl_iterate_phdr(&look_at, &search);
  return (search.own.empty() ? "unknown" : search.own) + search.others;
}

// What the loader was told may be a relative path; what is mapped is known by its whole one.
std::string own_file() {
  const auto address = reinterpret_cast<uintptr_t>(&own_file);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    const size_t path = line.find('/');
    const bool holds = std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) == 2 && begin <= address && address < end;
    if (holds) return path == std::string::npos ? "" : line.substr(path);
  }
  return "";
}

}  // namespace tw
