#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/Endian.h>

#include <unordered_map>

#include "codegen/llvm/machine.h"
#include "support/error.h"
#include "support/math.h"

namespace tw::codegen::cpu {
namespace {

namespace ELF = ::llvm::ELF;
using ::llvm::object::ELF64LEObjectFile;
using ::llvm::object::ELFSymbolRef;
using ::llvm::object::SectionRef;

constexpr int64_t kSectionAlignment = 64;  // bytes

template <typename T>
T checked(::llvm::Expected<T> expected) {
  if (!expected) throw InternalError("LLVM object: " + ::llvm::toString(expected.takeError()));
  return std::move(*expected);
}

class Linker {
 public:
  explicit Linker(const ELF64LEObjectFile& object) : object_(object) {}

  LinkedBlob run() {
    for (const bool code : {true, false}) {
      for (const SectionRef& section : object_.sections()) place(section, code);
    }
    blob_.bytes.resize(static_cast<size_t>(round_up(static_cast<int64_t>(blob_.bytes.size()), kSectionAlignment)));
    for (const SectionRef& section : object_.sections()) relocate(section);
    for (const ELFSymbolRef symbol : object_.symbols()) export_function(symbol);
    return std::move(blob_);
  }

 private:
  void place(const SectionRef& section, bool code) {
    const uint64_t flags = ::llvm::object::ELFSectionRef(section).getFlags();
    const bool is_code = (flags & ELF::SHF_EXECINSTR) != 0;
    if (!(flags & ELF::SHF_ALLOC) || is_code != code || section.getSize() == 0) return;
    const std::string name = checked(section.getName()).str();
    TW_CHECK(!(flags & (ELF::SHF_WRITE | ELF::SHF_TLS)), "section {} is writable", name);
    TW_CHECK(section.getAlignment().value() <= kSectionAlignment, "section {} is aligned to {}", name,
             section.getAlignment().value());
    const int64_t offset = round_up(static_cast<int64_t>(blob_.bytes.size()), kSectionAlignment);
    blob_.bytes.resize(static_cast<size_t>(offset));
    const ::llvm::StringRef contents = checked(section.getContents());
    const auto* bytes = reinterpret_cast<const std::byte*>(contents.data());
    blob_.bytes.insert(blob_.bytes.end(), bytes, bytes + contents.size());
    offsets_[section.getIndex()] = offset;
  }

  // `section` holds the relocations of another one.
  void relocate(const SectionRef& section) {
    const auto target = checked(section.getRelocatedSection());
    if (target == object_.section_end()) return;
    const auto placed = offsets_.find(target->getIndex());
    if (placed == offsets_.end()) return;
    for (const ::llvm::object::ELFRelocationRef relocation : section.relocations()) {
      const int64_t place = placed->second + static_cast<int64_t>(relocation.getOffset());
      const int64_t value = address_of(relocation) + checked(relocation.getAddend()) - place;
      patch(relocation.getType(), place, value);
    }
  }

  int64_t address_of(const ::llvm::object::ELFRelocationRef& relocation) {
    const ELFSymbolRef symbol = *relocation.getSymbol();
    const auto section = checked(symbol.getSection());
    const bool known = section != object_.section_end() && offsets_.contains(section->getIndex());
    TW_CHECK(known, "a relocation refers to {}", checked(symbol.getName()).str());
    return offsets_.at(section->getIndex()) + static_cast<int64_t>(checked(symbol.getValue()));
  }

  void patch(uint64_t type, int64_t place, int64_t value) {
    std::byte* at = blob_.bytes.data() + place;
    object_.getArch() == ::llvm::Triple::aarch64 ? patch_arm(type, at, value) : patch_x86(type, at, value);
  }

  // Distances in bytes or instructions, of 19, 21 or 26 bits (ELF for the Arm 64-bit Architecture, 5.7).
  void patch_arm(uint64_t type, std::byte* at, int64_t value) const {
    const auto check = [&](int bits) {
      TW_CHECK(value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1),
               "code of {} bytes is too large", blob_.bytes.size());
    };
    const auto put = [&](int64_t number, int bits, int shift) {
      const uint32_t mask = ((uint32_t{1} << bits) - 1) << shift;
      const uint32_t word = ::llvm::support::endian::read32le(at) & ~mask;
      ::llvm::support::endian::write32le(at, word | ((static_cast<uint32_t>(number) << shift) & mask));
    };
    switch (type) {
      case ELF::R_AARCH64_ADR_PREL_LO21:
        check(21);
        put(value >> 2, 19, 5);
        return put(value, 2, 29);
      case ELF::R_AARCH64_LD_PREL_LO19:
        check(21);
        return put(value >> 2, 19, 5);
      case ELF::R_AARCH64_CALL26:
      case ELF::R_AARCH64_JUMP26:
        check(28);
        return put(value >> 2, 26, 0);
      case ELF::R_AARCH64_PREL32:
        check(32);
        return ::llvm::support::endian::write32le(at, static_cast<uint32_t>(value));
      case ELF::R_AARCH64_PREL64:
        return ::llvm::support::endian::write64le(at, static_cast<uint64_t>(value));
      default:
        refuse(ELF::EM_AARCH64, type);
    }
  }

  void patch_x86(uint64_t type, std::byte* at, int64_t value) const {
    switch (type) {
      case ELF::R_X86_64_PC32:
      case ELF::R_X86_64_PLT32:
        TW_CHECK(value == static_cast<int32_t>(value), "code of {} bytes is too large", blob_.bytes.size());
        return ::llvm::support::endian::write32le(at, static_cast<uint32_t>(value));
      case ELF::R_X86_64_PC64:
        return ::llvm::support::endian::write64le(at, static_cast<uint64_t>(value));
      default:
        refuse(ELF::EM_X86_64, type);
    }
  }

  [[noreturn]] static void refuse(uint32_t machine, uint64_t type) {
    throw InternalError("relocation " +
                        ::llvm::object::getELFRelocationTypeName(machine, static_cast<uint32_t>(type)).str() +
                        " is not relative to the code");
  }

  void export_function(const ELFSymbolRef& symbol) {
    if (symbol.getELFType() != ELF::STT_FUNC || symbol.getBinding() != ELF::STB_GLOBAL) return;
    const auto section = checked(symbol.getSection());
    const int64_t offset = offsets_.at(section->getIndex()) + static_cast<int64_t>(checked(symbol.getValue()));
    blob_.functions[checked(symbol.getName()).str()] = {offset, static_cast<int64_t>(symbol.getSize())};
  }

  const ELF64LEObjectFile& object_;
  std::unordered_map<uint64_t, int64_t> offsets_;  // section index -> offset in the blob
  LinkedBlob blob_;
};

ELF64LEObjectFile open(::llvm::ArrayRef<char> object) {
  const ::llvm::StringRef text(object.data(), object.size());
  return checked(ELF64LEObjectFile::create(::llvm::MemoryBufferRef(text, "object")));
}

// The closed list of imports is empty.
void check_no_imports(const ELF64LEObjectFile& object) {
  for (const ELFSymbolRef symbol : object.symbols()) {
    const uint32_t flags = checked(symbol.getFlags());
    if (!(flags & ::llvm::object::SymbolRef::SF_Undefined)) continue;
    const std::string name = checked(symbol.getName()).str();
    if (!name.empty())
      throw InternalError("generated code needs the external symbol " + name + ": no import is allowed");
  }
}

}  // namespace

LinkedBlob link(::llvm::ArrayRef<char> object) {
  const ELF64LEObjectFile file = open(object);
  check_no_imports(file);
  return Linker(file).run();
}

}  // namespace tw::codegen::cpu
