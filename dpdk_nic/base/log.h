#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace uroce::nic {

// From the most to the least important. A message is written if the limit is its level or a later
// one; kOff as a limit suppresses all.
enum class LogLevel : uint8_t { kOff, kError, kWarning, kInfo, kDebug };

// The names that UROCE_LOG takes: off, error, warning, info, debug. nullopt for any other text.
std::optional<LogLevel> ParseLogLevel(std::string_view name);

// Sets the name in front of the program's messages, and the limit where UROCE_LOG gives none.
// Optional; to be called before the first message. The defaults are "uroce" and kWarning.
void NameLog(const char* program, LogLevel default_limit);

// Whether messages of this level are written. Reads UROCE_LOG when first called.
bool Logs(LogLevel level);

// Writes "PROGRAM: SENTENCE.\n" to standard error in one call if the limit allows it. `sentence`
// has no full stop at its end and says what to do. Returns false if standard error is full at the
// moment, like a pipe without a reader: the line is dropped, because a log must not stop the data
// path. Any thread, but never under the engine lock: it makes system calls.
bool Log(LogLevel level, std::string_view sentence);

}  // namespace uroce::nic
