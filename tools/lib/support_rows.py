"""Reads tests/support/rows: what works, where, and the test that shows it.

The file says how a line looks. Lines that follow each other and are about the same make one row.
"""

import dataclasses
import os
import re
import shlex

ROWS = os.path.join("tests", "support", "rows")
ONE_HOST, HOSTS, DIRECT, RXE = WHERES = ("one host", "between hosts", "direct mode", "rdma_rxe")
NOT_TRIED = "not tried"
FIELDS = "'what | where | target | case'"


class RowError(Exception):
    """A line that cannot be read; the message is for the user."""


@dataclasses.dataclass(frozen=True)
class Proof:
    target: str  # "system:rdmacm_test", below //tests
    case: str  # "Class.test_name", "Suite.Name", or the program's name in the interop matrix
    place: str  # "path:line"


@dataclasses.dataclass
class Row:
    group: str
    what: str
    proofs: dict = dataclasses.field(default_factory=dict)  # where: a list of Proof
    why_not: str = ""  # set if it is not tried

    @property
    def command(self):
        """The words of the command line that the row begins with, if it does."""
        command = re.match(r"`([^`]+)`", self.what)
        return tuple(shlex.split(command.group(1))) if command else ()

    @property
    def program(self):
        return self.command[0] if self.command else None


@dataclasses.dataclass
class Rows:
    packages: list = dataclasses.field(default_factory=list)
    rows: list = dataclasses.field(default_factory=list)

    def commands_of(self, target, case):
        """The command lines that this case starts, according to the rows."""
        return {row.command for row in self.rows for proofs in row.proofs.values()
                for proof in proofs if row.command and (proof.target, proof.case) == (target, case)}


def _data_lines(root):
    path = os.path.join(root, ROWS)
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                yield f"{ROWS}:{number}", line.strip()


def _add(row, place, where, target, case):
    if where == NOT_TRIED:
        row.why_not = case
    elif where in WHERES:
        row.proofs.setdefault(where, []).append(Proof(target, case, place))
    else:
        raise RowError(f"{place}: '{where}' is none of {', '.join((*WHERES, NOT_TRIED))}.")


def read_rows(root):
    """Raises RowError, with a sentence that says where."""
    read = Rows()
    group = None
    for place, line in _data_lines(root):
        if line.startswith("packages "):
            read.packages += line.split()[1:]
        elif line.startswith("== "):
            group = line[3:]
        else:
            fields = [field.strip() for field in line.split(" | ")]
            if len(fields) != 4 or not all(fields) or group is None:
                raise RowError(f"{place}: not {FIELDS} below a line '== group'.")
            what, *rest = fields
            last = read.rows[-1] if read.rows else None
            if last is None or (last.group, last.what) != (group, what):
                if any((row.group, row.what) == (group, what) for row in read.rows):
                    raise RowError(f"{place}: another row is between two lines of '{what}'.")
                read.rows.append(Row(group, what))
            _add(read.rows[-1], place, *rest)
    return read
