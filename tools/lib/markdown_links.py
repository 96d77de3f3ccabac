"""Finds links of Markdown pages that lead nowhere: to a file that does not exist, to a heading that
the page does not have, or to a host on the network that ALLOWED_HOSTS does not name."""

import os
import re
import urllib.parse

# The documentation can be read without a network, so it links to no other host.
ALLOWED_HOSTS = frozenset()

FENCE = re.compile(r"^\s*(```|~~~)")
CODE = re.compile(r"`+[^`]*`+")
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$")
BARE = re.compile(r"https?://[^\s)>\"'`]+")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")


def pages(root):
    """The paths, relative to the root, of all Markdown pages of the source tree."""
    found = []
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders
                            if not folder.startswith((".", "bazel-", "__"))
                            and (parent, folder) != (root, "dist"))
        found += [os.path.relpath(os.path.join(parent, name), root)
                  for name in names if name.endswith(".md")]
    return sorted(found)


def lines_outside_code(text):
    """Yields (line number, line) of what is no code block."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and fence in (None, mark.group(1)):
            fence = None if fence else mark.group(1)
        elif fence is None:
            yield number, line


def slug(heading):
    """The anchor of a heading: GitHub's rule, which tools/docs/mkdocs.yml chooses for the site."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*]|<[^>]*>(?=.)", "", text)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def anchors(text):
    """The anchors of a page. Of several headings with one text, only the first has an anchor that
    GitHub and the site agree on."""
    headings = (HEADING.match(line) for _, line in lines_outside_code(text))
    return {slug(heading.group(1)) for heading in headings if heading}


def targets(text):
    """Yields (line number, target) of every link and of every address that is written out."""
    for number, line in lines_outside_code(text):
        plain = CODE.sub(lambda code: " " * len(code.group()), line)
        found = [match.group(1) for match in LINK.finditer(plain)]
        found += [match.group(1) for match in REFERENCE.finditer(plain)]
        yield from ((number, target) for target in found)
        yield from ((number, address) for address in BARE.findall(plain) if address not in found)


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _what_is_wrong(root, page, target):
    address = urllib.parse.urlsplit(target)
    if address.scheme or address.netloc:
        is_allowed = address.scheme == "https" and address.hostname in ALLOWED_HOSTS
        return None if is_allowed else "is an address on the network that no page may name"
    if address.path.startswith("/"):
        return "is an absolute path"
    path = os.path.join(root, os.path.dirname(page), urllib.parse.unquote(address.path))
    path = os.path.normpath(path) if address.path else os.path.join(root, page)
    if os.path.relpath(path, root).startswith(".."):
        return "leads out of the source tree"
    if not os.path.exists(path):
        return "does not exist"
    if not address.fragment:
        return None
    if not path.endswith(".md"):
        return "names a heading of a file that is no page"
    is_there = urllib.parse.unquote(address.fragment) in anchors(_read(path))
    return None if is_there else "names a heading that the page does not have"


def complaints(root):
    """Yields a sentence for each link of the source tree that leads nowhere."""
    for page in pages(root):
        for number, target in targets(_read(os.path.join(root, page))):
            wrong = _what_is_wrong(root, page, target)
            if wrong:
                yield f"{page}:{number}: '{target}' {wrong}."
