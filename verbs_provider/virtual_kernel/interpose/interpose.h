#pragma once

// Marks a function of ours as the definition of the libc function `symbol`. Our functions have
// names of their own in C++, so that libc's declarations, their exception specifications and the
// fortified inline versions do not get in the way. The version script exports these symbols and
// nothing else.
#define UROCE_INTERPOSE(symbol) __asm__(#symbol) __attribute__((visibility("default")))

// `symbol` is another name of `target`, which is interposed in the same file.
#define UROCE_INTERPOSE_ALIAS(symbol, target) \
  __asm__(#symbol) __attribute__((visibility("default"), alias(#target)))
