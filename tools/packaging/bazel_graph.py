"""How Bazel builds a target: its compile and link commands, asked from `bazel aquery`.

The commands name files relative to the source tree, so that they can be run elsewhere.
"""

import json
import subprocess
from typing import List, NamedTuple


class Command(NamedTuple):
    """A command of the graph. `output` is below bazel-out."""
    arguments: List[str]
    output: str


class Graph(NamedTuple):
    """The commands that make the linked files; each input of a link is the output of a compile."""
    compiles: List[Command]
    links: List[Command]


class GraphError(Exception):
    """Bazel does not give the graph; the message is a sentence that says what to do."""


def _output_of(arguments):
    return arguments[arguments.index("-o") + 1]


def read_graph(text, linked):
    """The part of `bazel aquery --output=jsonproto` that makes the files `linked`.

    They are named by the end of their paths, as in "tools/uroce".
    """
    compiles, links = {}, []
    for action in json.loads(text)["actions"]:
        arguments = action.get("arguments", ())
        if "-o" not in arguments:
            continue
        # Bazel shows a link's arguments in full, and after them the file that holds them.
        arguments = [word for word in arguments if not word.startswith("@")]
        output = _output_of(arguments)
        if action["mnemonic"] == "CppCompile":
            compiles[output] = Command(arguments, output)
        elif output.split("/bin/", 1)[-1] in linked:
            links.append(Command(arguments, output))
    if len(links) != len(linked):
        raise GraphError(f"Bazel has rules for only {len(links)} of {', '.join(linked)}: "
                         "see tools/packaging/contents.py")
    wanted = {word for link in links for word in link.arguments if word in compiles}
    return Graph([compiles[name] for name in sorted(wanted)], sorted(links, key=lambda c: c.output))


def query_graph(targets, linked):
    """Asks Bazel in the current folder, which is the source tree."""
    expression = f'mnemonic("CppCompile|CppLink", deps({" + ".join(targets)}))'
    run = subprocess.run(["bazel", "aquery", expression, "--output=jsonproto"], check=False,
                         text=True, capture_output=True)
    if run.returncode != 0:
        raise GraphError(f"bazel aquery failed: {run.stderr.strip()}")
    return read_graph(run.stdout, linked)
