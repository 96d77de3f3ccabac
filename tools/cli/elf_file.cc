#include "tools/cli/elf_file.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace uroce::cli {
namespace {

// Limits of a plausible file.
constexpr uint16_t kMaxSegments = 256;
constexpr uint64_t kMaxDynamicBytes = 64 << 10;

template <typename T>
bool ReadAt(std::ifstream& file, uint64_t offset, T* values, size_t count = 1) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(values), static_cast<std::streamsize>(count * sizeof(T)));
  return static_cast<bool>(file);
}

// The offset in the file of the byte at `address` in the loaded program.
std::optional<uint64_t> OffsetOf(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz) {
      return address - segment.p_vaddr + segment.p_offset;
    }
  }
  return std::nullopt;
}

std::vector<std::string> ReadNeeded(std::ifstream& file, const std::vector<Elf64_Phdr>& segments,
                                    const Elf64_Phdr& dynamic) {
  if (dynamic.p_filesz > kMaxDynamicBytes) return {};
  std::vector<Elf64_Dyn> entries(dynamic.p_filesz / sizeof(Elf64_Dyn));
  if (!ReadAt(file, dynamic.p_offset, entries.data(), entries.size())) return {};
  const auto strings = std::find_if(entries.begin(), entries.end(), [](const Elf64_Dyn& entry) {
    return entry.d_tag == DT_STRTAB;
  });
  if (strings == entries.end()) return {};
  const auto offset = OffsetOf(segments, strings->d_un.d_ptr);
  std::vector<std::string> needed;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_NEEDED || !offset) continue;
    file.seekg(static_cast<std::streamoff>(*offset + entry.d_un.d_val));
    std::string name;
    if (!std::getline(file, name, '\0')) return {};
    needed.push_back(name);
  }
  return needed;
}

}  // namespace

std::optional<ElfFile> ReadElfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!ReadAt(file, 0, &header)) return std::nullopt;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phnum > kMaxSegments) return std::nullopt;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!ReadAt(file, header.e_phoff, segments.data(), segments.size())) return std::nullopt;

  ElfFile elf;
  elf.is_static = true;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) elf.is_static = false;
    if (segment.p_type == PT_DYNAMIC) elf.needed = ReadNeeded(file, segments, segment);
  }
  return elf;
}

}  // namespace uroce::cli
