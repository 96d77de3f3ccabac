#include "tools/cli/printable.h"

namespace uroce::cli {
namespace {

// Length in bytes of the UTF-8 character at the beginning of `text`; 0 if there is none. Rejects
// overlong forms, surrogates and characters beyond U+10FFFF (RFC 3629).
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // Not shown: control characters of ASCII and of Latin-1 (U+0080 to U+009F).
    const bool is_shown = length != 0 && first >= 0x20 && first != 0x7f &&
                          !(first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (is_shown) {
      printable += text.substr(0, length);
    } else {
      printable += '?';
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return printable;
}

}  // namespace uroce::cli
