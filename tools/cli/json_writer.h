#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace uroce::cli {

// Writes a JSON text (RFC 8259), indented. Members have keys, elements of an array have none.
class JsonWriter {
 public:
  void BeginObject() { Begin('{'); }
  void BeginObject(std::string_view key) { Begin(key, '{'); }
  void EndObject() { End('}'); }
  void BeginArray(std::string_view key) { Begin(key, '['); }
  void EndArray() { End(']'); }

  void Number(std::string_view key, uint64_t value);
  void Bool(std::string_view key, bool value);
  void Null(std::string_view key);
  // Bytes that are no UTF-8 become replacement characters.
  void String(std::string_view key, std::string_view value);
  void String(std::string_view value);  // an element

  // The text so far, complete when everything was ended.
  const std::string& text() const { return text_; }

 private:
  void Begin(char bracket);
  void Begin(std::string_view key, char bracket);
  void End(char bracket);
  void NewLine();
  void Key(std::string_view key);
  void Quoted(std::string_view value);

  std::string text_;
  int depth_ = 0;
  bool is_first_ = true;  // of what was begun last
};

// The text with what is no printable character or no UTF-8 replaced by question marks: names that
// other processes choose may not disturb a terminal.
std::string Printable(std::string_view text);

}  // namespace uroce::cli
