"""Makes a manual page of a page of tools/docs, of which it knows the Markdown that these use.

The headings of the second level become sections, those of the third the terms that the text below
explains. A table becomes such a list, too: its first column are the terms. Links keep their text.
The output depends on the page alone, so that a package has the same bytes on every machine.
"""

import os
import re

SECTION_TITLES = {"1": "User Commands", "7": "Miscellaneous", "8": "System Administration"}


class ManualError(Exception):
    """A page has Markdown that is not known here; the message names the line."""


def _escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def _styled(text):
    """One paragraph's or cell's text in roff: code is bold, emphasis italic."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    styled = ""
    for part in re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)", text):
        if part.startswith(("`", "**")):
            styled += f"\\fB{_escape(part.strip('`*'))}\\fP"
        elif part.startswith("*") and len(part) > 1:
            styled += f"\\fI{_escape(part.strip('*'))}\\fP"
        else:
            styled += part.replace("\\|", "|").replace("\\", "\\e")
    return "\\&" + styled if styled.startswith((".", "'")) else styled


def _cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


class _Page:
    """The lines of the manual page so far, and whether the text belongs to a term."""

    def __init__(self):
        self.out = []
        self.is_below_term = False

    def section(self, title):
        self.out += [f".SH {_escape(title.upper())}"]
        self.is_below_term = False

    def term(self, title):
        self.out += [".TP", _styled(title)]
        if not title.startswith("`"):
            self.out[-1] = f"\\fB{self.out[-1]}\\fP"
        self.is_below_term = True

    def paragraph(self, text):
        follows_title = self.out[-1].startswith(".SH") or self.out[-2:-1] == [".TP"]
        if not follows_title:
            self.out += [".IP"] if self.is_below_term else [".PP"]
        self.out += [_styled(text)]

    def item(self, text):
        self.out += [".IP \\(bu 2" if not self.is_below_term else ".IP \\(bu 4", _styled(text)]

    def code(self, lines):
        self.out += [".IP" if self.is_below_term else ".PP", ".RS 4", ".nf", *map(_escape, lines),
                     ".fi", ".RE"]

    def table(self, lines):
        head, _, *rows = map(_cells, lines)
        if any(head):
            self.out += [".PP", f"\\fI{_styled(': '.join(cell for cell in head if cell))}\\fP"]
        for row in rows:
            self.out += [".TP", _styled(row[0]), *(_styled(cell) for cell in row[1:] if cell)]
            if not any(row[1:]):
                self.out += [".br"]
        self.out += [".PP"]


def _take(lines, matches):
    """Removes and returns the lines at the front that match."""
    taken = []
    while lines and matches(lines[0][1]):
        taken.append(lines.pop(0)[1])
    return taken


def _render_block(page, lines):
    number, line = lines[0]
    if line.startswith("```"):
        lines.pop(0)
        page.code(_take(lines, lambda text: not text.startswith("```")))
        lines.pop(0)
    elif line.startswith(("## ", "### ")):
        lines.pop(0)
        (page.term if line.startswith("###") else page.section)(line.lstrip("#").strip())
    elif line.startswith("|"):
        page.table(_take(lines, lambda text: text.startswith("|")))
    elif line.startswith("- "):
        lines.pop(0)
        more = _take(lines, lambda text: text.startswith("  "))
        page.item(" ".join([line[2:], *more]))
    elif re.match(r"[#>*+]|\d+\. |\s|<", line):
        raise ManualError(f"line {number}: a manual page cannot be made of '{line}'")
    else:
        page.paragraph(" ".join(_take(
            lines, lambda text: text and not text.startswith(("#", "|", "```", "- ")))))


def render(markdown, name, section):
    """The manual page `name`(`section`) in roff. The page has to begin with a title, which is left
    out, and a section "Name"."""
    lines = list(enumerate(markdown.splitlines(), 1))
    if not lines or not lines[0][1].startswith("# "):
        raise ManualError("line 1: a manual page begins with a title")
    lines.pop(0)
    page = _Page()
    while lines:
        if lines[0][1]:
            _render_block(page, lines)
        else:
            lines.pop(0)
    if page.out[:1] != [".SH NAME"]:
        raise ManualError("a manual page begins with the section 'Name'")
    page.out[1] = page.out[1].replace(" - ", " \\- ", 1)
    title = f'.TH {name.upper()} {section} "" "uroce" "{SECTION_TITLES[section]}"'
    return "\n".join([title, *page.out]) + "\n"


def page_for(target, source, markdown):
    """The content of the file `target`, such as "share/man/man1/uroce.1.gz", before it is
    compressed; `source` is the path of the page."""
    name, section = os.path.basename(target).removesuffix(".gz").rsplit(".", 1)
    try:
        return render(markdown, name, section).encode()
    except ManualError as error:
        raise ManualError(f"{source}, {error}") from None
