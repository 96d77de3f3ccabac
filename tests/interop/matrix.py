"""The interop matrix in the README: a line for each row, with its outcomes in both directions."""

import json
import os
import re

from rows import all_rows

README = os.path.join(os.path.dirname(os.path.realpath(__file__)), "README.md")
BEGIN = "<!-- matrix: written by write_matrix -->\n"
END = "<!-- end of the matrix -->\n"
HEAD = ("| | path MTU | IP | fault | uroce → rxe | rxe → uroce |\n"
        "|---|---|---|---|---|---|\n")
# The end that serves. The other end is the client, which comes first in the table's head.
DIRECTIONS = ("rxe serves", "uroce serves")


def key_of(row):
    """The line without its outcomes."""
    program = ", ".join(filter(None, (row.program, row.variant)))
    return f"| {program} | {row.path_mtu or '-'} | {row.ip} | {row.fault.name} |"


def table(outcomes):
    """The table. `outcomes`: by the line's key, the outcome by direction."""
    lines = []
    group = None
    for row in all_rows():
        if row.group != group:
            group = row.group
            lines.append(f"| **{group}** | | | | | |\n")
        both = outcomes.get(key_of(row), {})
        cells = " | ".join(both.get(direction, "not run") for direction in DIRECTIONS)
        lines.append(f"{key_of(row)} {cells} |\n")
    return HEAD + "".join(lines)


def committed():
    """The README before the table, the table, and what follows it."""
    with open(README, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    return before, inside, after


def write(outcome_file):
    """Writes the outcomes into the README. Rows that were not run keep their earlier outcomes."""
    with open(outcome_file, encoding="utf-8") as file:
        outcomes = {**committed_outcomes(), **json.load(file)}
    before, _, after = committed()
    with open(README, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + table(outcomes) + END + after)


def committed_outcomes():
    """The outcomes in the README, by the lines' keys."""
    outcomes = {}
    for line in committed()[1].splitlines():
        match = re.fullmatch(r"(\|(?:[^|]*\|){4}) ([^|]+) \| ([^|]+) \|", line)
        if match and not line.startswith(("| |", "| **")):
            outcomes[match.group(1)] = dict(zip(DIRECTIONS, match.groups()[1:]))
    return outcomes
