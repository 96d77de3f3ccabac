"""The list of mutations, and a source file in which all of its own stand behind one switch."""

import dataclasses
import glob
import os
import re

FOLDER = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))

# What a mutated file begins with. uroce_mutation::Is(n) is true if the environment chose number n;
# it is read once. With a file of bytes in UROCE_MUTATION_REACHED, byte n becomes 1 as soon as the
# question is asked, by whatever process of a test. Constant expressions keep their meaning.
#
# System calls are made directly: the file may be one that replaces open().
PROLOGUE = """\
#ifndef UROCE_MUTATION_SWITCH
#define UROCE_MUTATION_SWITCH
#include <sys/syscall.h>
#include <cstdlib>
#include <type_traits>
extern "C" long syscall(long number, ...) noexcept(true);
namespace uroce_mutation {
struct Switch {
  unsigned long chosen = 0;
  unsigned char* reached = nullptr;
  Switch() noexcept {
    if (const char* number = getenv("UROCE_MUTATION")) chosen = strtoul(number, nullptr, 10);
    const char* path = getenv("UROCE_MUTATION_REACHED");
    const char* bytes = getenv("UROCE_MUTATION_REACHED_BYTES");
    if (path == nullptr || bytes == nullptr) return;
    const long fd = syscall(SYS_openat, -100, path, 2, 0);
    if (fd < 0) return;
    const long map = syscall(SYS_mmap, 0l, strtoul(bytes, nullptr, 10), 3l, 1l, fd, 0l);
    if (map > 0) reached = reinterpret_cast<unsigned char*>(map);
    syscall(SYS_close, fd);
  }
};
inline bool IsChosen(unsigned long number) noexcept {
  static const Switch the_switch;
  if (the_switch.reached != nullptr) the_switch.reached[number] = 1;
  return the_switch.chosen == number;
}
constexpr bool Is(unsigned long number) noexcept {
  if (std::is_constant_evaluated()) return false;
  return IsChosen(number);
}
}  // namespace uroce_mutation
#endif
#pragma GCC diagnostic warning "-Wall"
#pragma GCC diagnostic warning "-Wextra"
#pragma GCC diagnostic warning "-Wconversion"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wextra"
#line 1
"""


class ListError(Exception):
    """A sentence about a line of a list."""


@dataclasses.dataclass
class Mutation:
    list_name: str
    line: int  # in the list
    path: str  # of the source file
    anchor: str  # the text before it that occurs once; may be empty
    text: str
    replacement: str  # of a statement: may be empty
    number: int = 0  # from 1 on, over all lists

    def __str__(self):
        replacement = " ".join(self.replacement.split()) or "(left out)"
        return (f"{self.list_name}:{self.line}: {self.path}: {' '.join(self.text.split())}"
                f"  =>  {replacement}")


@dataclasses.dataclass
class MutationList:
    name: str
    tests: list  # patterns of Bazel targets
    mutations: list


def read_list(path):
    """Reads one list; README.md describes its form."""
    result = MutationList(os.path.basename(path), [], [])
    source = anchor = text = kind = ""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        before, kind, rest = kind, line[:1], line[2:]
        if kind in ("", "#"):
            continue
        if line.startswith("tests "):
            result.tests += line.split()[1:]
        elif line.startswith("file "):
            source, anchor, text = line.split()[1], "", ""
        elif kind == "@":
            anchor = rest
        elif kind == "-":
            if before == "+":
                anchor = ""
            text = text + "\n" + rest if before == "-" else rest
            if before == "@":
                text = rest
        elif kind == "+" and source and before in ("-", "+"):
            result.mutations.append(Mutation(result.name, number, source, anchor, text, rest))
        else:
            raise ListError(f"{result.name}:{number}: not understood: {line}")
    return result


def read_lists():
    lists = [read_list(path) for path in sorted(glob.glob(os.path.join(FOLDER, "*.txt")))]
    for number, mutation in enumerate((m for each in lists for m in each.mutations), 1):
        mutation.number = number
    return lists


def occurrences(text, source):
    """Where `text` is in `source`, whatever the white space: a list of (begin, end).

    Words are whole: `own` is not in `is_own`.
    """
    pattern = r"\s+".join(re.escape(word) for word in text.split())
    pattern = (r"\b" if re.match(r"\w", text) else "") + pattern
    pattern += r"\b" if re.search(r"\w$", text) else ""
    return [match.span() for match in re.finditer(pattern, source)]


def place_of(mutation, source):
    """The place of the mutation's text in its source file: (begin, end)."""
    begin = 0
    if mutation.anchor:
        anchors = occurrences(mutation.anchor, source)
        if len(anchors) != 1:
            raise ListError(f"{mutation}: the text after '@' occurs {len(anchors)} times")
        begin = anchors[0][0]
    places = [place for place in occurrences(mutation.text, source) if place[0] >= begin]
    if not places or (len(places) > 1 and not mutation.anchor):
        raise ListError(f"{mutation}: the text occurs {len(places)} times")
    return places[0]


def is_statement(source, begin, end):
    """Whether that is a statement, or several, and not an expression."""
    text = source[begin:end].rstrip()
    return text.endswith(";") or text.endswith("}") and ";" in text


def behind_switch(source, begin, end, placed):
    """source[begin:end] with the mutations of `placed`, which lie in there, behind the switch.

    `placed` has (begin, end, mutation), sorted so that outer places come before inner ones.
    """
    result = ""
    at = begin
    while placed:
        first, last, _ = placed[0]
        here = [mutation for b, e, mutation in placed if (b, e) == (first, last)]
        inner = [entry for entry in placed
                 if first <= entry[0] and entry[1] <= last and entry[:2] != (first, last)]
        placed = [entry for entry in placed if entry[0] >= last]
        original = behind_switch(source, first, last, inner)
        if is_statement(source, first, last):
            choice = "".join(f"if (::uroce_mutation::Is({m.number})) {{ {m.replacement} }} else "
                             for m in here) + "{ " + original + " }"
        else:
            choice = "(" + "".join(f"::uroce_mutation::Is({m.number}) ? ({m.replacement}) : "
                                   for m in here) + "(" + original + "))"
        result += source[at:first] + choice
        at = last
    return result + source[at:end]


# A part of a statement, or an operator that lost an operand: the copy would not compile.
NO_OPERAND = re.compile(r"(if|for|while|return)\b|&&|\|\||.*(&&|\|\||[-+=<,!(])$", re.DOTALL)


def mutate(source, mutations):
    """The text of a source file with all of its mutations behind the switch."""
    placed = []
    for mutation in mutations:
        begin, end = place_of(mutation, source)
        is_expression = not is_statement(source, begin, end)
        if is_expression and (";" in mutation.text + mutation.replacement
                              or not mutation.replacement.strip()
                              or NO_OPERAND.match(mutation.text.strip())
                              or NO_OPERAND.match(mutation.replacement.strip())):
            raise ListError(f"{mutation}: neither a statement nor an expression for another")
        placed.append((begin, end, mutation))
    placed.sort(key=lambda entry: (entry[0], -entry[1], entry[2].number))
    for (_, end, outer), (begin, inner_end, inner) in zip(placed, placed[1:]):
        if begin < end < inner_end:
            raise ListError(f"{inner}: overlaps {outer}")
    return PROLOGUE + behind_switch(source, 0, len(source), placed)
