"""The tables that are made of tests/support/rows, and the files that they are in."""

import itertools
import os

from support_rows import ONE_HOST, RXE, WHERES

README = "README.md"
SHORT = os.path.join("tools", "docs", "support.md")
LONG = os.path.join("tests", "support", "README.md")
# The lines before and behind a table that is part of a page.
SHORT_MARKS = ("<!-- what works: written by tools/support_report -->\n\n",
               "\n<!-- end of what works -->\n")
COUNT_MARKS = ("<!-- what works, counted: written by tools/support_report -->\n\n",
               "\n<!-- end of what works, counted -->\n")
EMPTY = "| " * (len(WHERES) + 1) + "|\n"


def head(*more):
    columns = ["", *WHERES, *more]
    return f"| {' | '.join(columns)} |\n".replace("|  |", "| |") + "|---" * len(columns) + "|\n"


def count_table(rows):
    """How many rows of each group a test shows at work, by place."""
    lines = [head()]
    for group, of_group in itertools.groupby(rows, lambda row: row.group):
        shown = list(of_group)
        counts = [sum(where in row.proofs for row in shown) for where in WHERES]
        lines.append(f"| {group} | {' | '.join(str(count or '') for count in counts)} |\n"
                     .replace("  ", " "))
    return "".join(lines)


def short_table(rows):
    """Rows that are shown in the same places share a line."""
    lines = [head()]
    for group, of_group in itertools.groupby(rows, lambda row: row.group):
        lines.append(f"| **{group}** {EMPTY[2:]}")
        shared = {}
        for row in of_group:
            if row.proofs:
                marks = tuple("yes" if where in row.proofs else "" for where in WHERES)
                shared.setdefault(marks, []).append(row.what)
        for marks, whats in shared.items():
            lines.append(f"| {'; '.join(whats)} | {' | '.join(marks)} |\n".replace("  ", " "))
    return "".join(lines)


def _cell(where, proofs, targets):
    if where == RXE:
        return ", ".join(f"[{proof.case}](../interop/README.md#the-matrix)" for proof in proofs)
    words = []
    for proof in proofs:
        target = targets.get(proof.target)
        late = " (long run)" if target and target.is_long else ""
        words.append(f"{proof.target} {proof.case}{late}")
    return "<br>".join(words)


def long_table(rows, targets):
    lines = [head()]
    for group, of_group in itertools.groupby(rows, lambda row: row.group):
        lines.append(f"| **{group}** {EMPTY[2:]}")
        for row in of_group:
            cells = [_cell(where, row.proofs.get(where, ()), targets) for where in WHERES]
            if row.proofs:
                lines.append(f"| {row.what} | {' | '.join(cells)} |\n".replace("  ", " "))
    return "".join(lines)


def not_tried(rows):
    return "".join(f"| {row.what} | {row.why_not} |\n" for row in rows if row.why_not)


def long_page(rows, targets):
    return f"""# What works, and the test that shows it

Written by `tools/support_report --write` from [rows](rows), which says how a row is added;
`//tests/tools:support_report_test` fails when a case that is named here is not run any more, when
a test runs a stock program that has no row, or when this page is another one. A case
passes only if it has started the command of its row.

* {ONE_HOST}: processes on a fabric, through shared memory, if the case does not say otherwise.
* between hosts: network namespaces with a veth pair between them; by the uplink's UDP sockets, or
  by a uroced that has the NIC.
* direct mode: a program with a port of its own: memif, UDP sockets, a veth interface, a PCI NIC.
* rdma_rxe: Linux's Soft-RoCE as the peer, in both directions, by the rows of that name.

Names are those of Bazel below `//tests`; what is marked as a long run is run by
`tools/test --long` only.

{long_table(rows, targets)}
## Not tried

| | why |
|---|---|
{not_tried(rows)}"""


def _with_table(root, path, marks, table):
    """The page's text with this table between the marks."""
    begin, end = marks
    with open(os.path.join(root, path), encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    after = rest.split(end)[1]
    return before + begin + table + end + after


def pages(root, rows, targets):
    """The text that each file should have, by its path."""
    return {README: _with_table(root, README, COUNT_MARKS, count_table(rows)),
            SHORT: _with_table(root, SHORT, SHORT_MARKS, short_table(rows)),
            LONG: long_page(rows, targets)}
