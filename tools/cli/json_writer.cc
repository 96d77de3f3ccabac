#include "tools/cli/json_writer.h"

#include <array>
#include <cstdio>

namespace uroce::cli {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// How many bytes the UTF-8 character at the beginning of `text` has; 0 if there is none. Rejects
// what is longer than need be, surrogates and what is beyond U+10FFFF (RFC 3629).
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

void JsonWriter::NewLine() {
  if (!is_first_) text_ += ',';
  is_first_ = false;
  if (!text_.empty()) text_ += '\n';
  text_.append(static_cast<size_t>(2 * depth_), ' ');
}

void JsonWriter::Key(std::string_view key) {
  NewLine();
  Quoted(key);
  text_ += ": ";
}

void JsonWriter::Begin(char bracket) {
  NewLine();
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonWriter::Begin(std::string_view key, char bracket) {
  Key(key);
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonWriter::End(char bracket) {
  --depth_;
  if (!is_first_) {
    is_first_ = true;  // no comma
    NewLine();
  }
  is_first_ = false;
  text_ += bracket;
}

void JsonWriter::Number(std::string_view key, uint64_t value) {
  Key(key);
  text_ += std::to_string(value);
}

void JsonWriter::Bool(std::string_view key, bool value) {
  Key(key);
  text_ += value ? "true" : "false";
}

void JsonWriter::Null(std::string_view key) {
  Key(key);
  text_ += "null";
}

void JsonWriter::String(std::string_view key, std::string_view value) {
  Key(key);
  Quoted(value);
}

void JsonWriter::String(std::string_view value) {
  NewLine();
  Quoted(value);
}

void JsonWriter::Quoted(std::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    const size_t length = CharacterBytes(value);
    const char first = value[0];
    if (length == 0) {
      text_ += kReplacement;
    } else if (first == '"' || first == '\\') {
      text_ += '\\';
      text_ += first;
    } else if (static_cast<unsigned char>(first) < 0x20) {
      std::array<char, 7> escaped;
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", first);
      text_ += escaped.data();
    } else {
      text_ += value.substr(0, length);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // The second row: control characters of ASCII and of Latin-1 (U+0080 to U+009F).
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
