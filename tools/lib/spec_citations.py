"""The rules of the specification, where code and tests cite them, and which lack one of the two.

A citation is the word IBA and one or more references: 'IBA C9-92', 'IBA 9.7.5.1.4', 'IBA table 38',
'IBA 9.9.3.1 class D', 'IBA 11.6.3.2 CQ_ERR', 'IBA C10-72, C10-75', 'IBA 10.8.3 and 11.4.1'. It may
go on in the next line of a comment. tools/spec/README.md says which reference to choose.
"""

import dataclasses
import os
import re

CODE_FOLDERS = ("transport", "dpdk_nic", "verbs_provider")
TEST_FOLDERS = ("tests",)

CATALOGUE = os.path.join("tools", "spec", "catalogue")
ALLOWED = os.path.join("tools", "spec", "missing")

# A compliance id; a section, perhaps with a class of errors or an event; a table.
REFERENCE = (r"(?:[Co]A?\d+-\d+(?:\.\d+)*"
             r"|A?\d+(?:\.\d+)+(?: class [A-Z]\d?| [A-Z]+(?:_[A-Z]+)+)?"
             r"|table \d+)")
# Blanks, and the end of a line with what opens the comment of the next.
GAP = r"(?:[ \t]|\n[ \t]*(?://+|#|\*)?)"
CITATION = re.compile(
    rf"\bIBA{GAP}+({REFERENCE}(?:(?:{GAP}*[,;]|{GAP}+and\b){GAP}+{REFERENCE})*)")

# Text that looks like a citation and would be overlooked.
MALFORMED = re.compile(rf"\bIBA{GAP}+(tables|sections?|chapters?|annex|§)")

LACKS = ("code", "test")


class SpecError(Exception):
    """A file that cannot be read as what it should be; the message is for the user."""


@dataclasses.dataclass
class Rule:
    title: str
    section: str
    source: str
    code: list = dataclasses.field(default_factory=list)  # Places: "path:line".
    tests: list = dataclasses.field(default_factory=list)

    def lacks(self):
        return {what for what, places in zip(LACKS, (self.code, self.tests)) if not places}


def references(text):
    """Yields (line number, reference) for every reference of every citation in the text."""
    for citation in CITATION.finditer(text):
        for match in re.finditer(REFERENCE, citation.group(1)):
            line = text.count("\n", 0, citation.start(1) + match.start()) + 1
            yield line, match.group()


def data_lines(path):
    """Yields (number, line) for each line that is neither empty nor a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise SpecError(f"Cannot read {path}: {error.strerror}.") from error
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def read_catalogue(path):
    """Reads 'reference | section | source | title' lines into a dictionary of rules."""
    rules = {}
    for number, line in data_lines(path):
        columns = [column.strip() for column in line.split("|")]
        if len(columns) != 4 or not all(columns):
            raise SpecError(f"{path}:{number}: not 'reference | section | source | title'.")
        reference, section, source, title = columns
        if not re.fullmatch(REFERENCE, reference):
            raise SpecError(f"{path}:{number}: '{reference}' is no reference.")
        if reference in rules:
            raise SpecError(f"{path}:{number}: {reference} is there twice.")
        rules[reference] = Rule(title, section, source)
    return rules


def read_allowed(path):
    """Reads 'reference: code' / 'reference: test' / 'reference: code, test  # why' lines."""
    allowed = {}
    for number, line in data_lines(path):
        match = re.fullmatch(r"([^:]+):\s*(\w+(?:\s*,\s*\w+)*)\s*(?:#.*)?", line)
        lacks = set(re.split(r"\s*,\s*", match.group(2))) if match else set()
        if not lacks or not lacks <= set(LACKS):
            raise SpecError(f"{path}:{number}: not 'reference: code' or 'reference: test'.")
        if match.group(1) in allowed:
            raise SpecError(f"{path}:{number}: {match.group(1)} is there twice.")
        allowed[match.group(1)] = lacks
    return allowed


def text_files(root, folders):
    """Yields (path relative to the root, text) of every file that is text."""
    for folder in folders:
        for parent, subfolders, names in os.walk(os.path.join(root, folder)):
            subfolders.sort()
            for name in sorted(names):
                path = os.path.join(parent, name)
                try:
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, root), file.read()
                except (OSError, UnicodeDecodeError):
                    continue  # A dangling link, a capture, a compiled file: nothing to cite from.


def collect(root, rules):
    """Fills in where each rule is cited; returns a sentence for each invalid citation."""
    wrong = []
    for folders, kind in ((CODE_FOLDERS, "code"), (TEST_FOLDERS, "tests")):
        for path, text in text_files(root, folders):
            for line, reference in references(text):
                place = f"{path}:{line}"
                if reference not in rules:
                    wrong.append(f"{place}: IBA {reference} is not in {CATALOGUE}.")
                elif not path.endswith(".md"):  # Prose implements nothing and proves nothing.
                    getattr(rules[reference], kind).append(place)
            for match in MALFORMED.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                wrong.append(f"{path}:{line}: 'IBA {match.group(1)}' begins no citation.")
    return wrong


def complaints(rules, allowed):
    """Yields a sentence for every lack that is not allowed, and every allowance without need."""
    for reference, rule in rules.items():
        lacks = rule.lacks()
        for what in LACKS:
            if what in lacks - allowed.get(reference, set()):
                places = rule.code + rule.tests
                at = f" (cited at {places[0]})" if places else ""
                yield f"{reference} lacks a citation in {what}{at}: {rule.title}"
            elif what in allowed.get(reference, set()) - lacks:
                yield f"{reference} no longer lacks a citation in {what}: take it off {ALLOWED}."
    for reference in allowed:
        if reference not in rules:
            yield f"{reference} of {ALLOWED} is not in {CATALOGUE}."
