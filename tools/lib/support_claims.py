"""Finds wrong claims of tests/support/rows: tests that do not exist, programs that a test does not
run, and programs that a test runs and no row names."""

import ast
import os
import re
import subprocess
import sys

from support_rows import RXE
from test_targets import TESTS, read_cases

SCRIPT_FOLDERS = (os.path.join(TESTS, "system"), os.path.join(TESTS, "interop"))
# A formatted string names a program if one of its constant parts has so many letters.
LEAST_LETTERS = 3


def stock_programs(packages):
    """The programs of these packages of the distribution, those that are installed."""
    listed = subprocess.run(["dpkg-query", "-L", *packages], check=False, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return set(re.findall(r"^(?:/usr)?/s?bin/(\S+)$", listed, re.MULTILINE))


def _documentation(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def _pattern(formatted):
    """A pattern for the values of an f-string, or None if they may be nearly anything."""
    texts = [part.value if isinstance(part, ast.Constant) else None for part in formatted.values]
    if max((len(text) for text in texts if text), default=0) < LEAST_LETTERS:
        return None
    return "".join(r"\w+" if text is None else re.escape(text) for text in texts)


def mentioned(source, programs):
    """Which of the programs a script may run: those that its strings name."""
    tree = ast.parse(source)
    documentation = set(_documentation(tree))
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in node.values}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pattern = _pattern(node)
            found |= {name for name in programs if pattern and re.fullmatch(pattern, name)}
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in documentation and node not in parts:
            found |= programs & set(re.findall(r"[\w.-]+", node.value))
    return found


def _scripts(root):
    for folder in SCRIPT_FOLDERS:
        for parent, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(parent, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, root), file.read()


def _matrix_outcomes(root):
    """Whether all lines of the interop matrix about a program are ok, by its name there."""
    sys.path.insert(0, os.path.join(root, TESTS, "interop"))
    import matrix  # pylint: disable=import-error,import-outside-toplevel
    outcomes = {}
    for key, both in matrix.committed_outcomes().items():
        name = key.split(" | ")[0].removeprefix("| ")
        is_ok = set(both.values()) == {"ok"}
        outcomes[name] = outcomes.get(name, True) and is_ok
    return outcomes


def _wrong_proofs(root, rows, targets):
    proofs = [(row, where, proof) for row in rows for where, of_row in row.proofs.items()
              for proof in of_row]
    cases = read_cases(root, {targets[proof.target] for _, where, proof in proofs
                              if where != RXE and proof.target in targets})
    outcomes = _matrix_outcomes(root)
    for _, where, proof in proofs:
        if proof.target not in targets:
            yield f"{proof.place}: there is no test //tests/{proof.target}."
        elif where == RXE and not outcomes.get(proof.case):
            yield f"{proof.place}: '{proof.case}' is not in the interop matrix, or is not ok there."
        elif where != RXE and proof.case not in cases[proof.target]:
            yield f"{proof.place}: //tests/{proof.target} does not run {proof.case}."


def complaints(root, read, targets):
    """Yields a sentence for each claim that is wrong."""
    for row in read.rows:
        if bool(row.proofs) == bool(row.why_not):
            yield f"'{row.what}' has no test, or has one and is said not to be tried."
    yield from _wrong_proofs(root, read.rows, targets)
    programs = stock_programs(read.packages)
    named = {row.program for row in read.rows}
    for path, source in _scripts(root):
        for program in sorted(mentioned(source, programs) - named):
            yield f"{path}: runs {program}, and no row of tests/support/rows is about it."
