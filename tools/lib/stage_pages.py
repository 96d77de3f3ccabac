"""Copies all pages of the source tree, for the site that tools/docs/build makes of them.

usage: stage_pages.py FOLDER

A link to a file or folder that is no page becomes plain text, as the site has pages only. Blocks
that tests run are plain blocks of code.
"""

import os
import re
import sys

import markdown_links

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def stage(text):
    """The page's text as the site has it."""
    lines = text.splitlines(keepends=True)
    for number, _ in markdown_links.lines_outside_code(text):
        lines[number - 1] = markdown_links.LINK.sub(
            lambda link: link.group() if re.search(r"\.md(#|$)|^#", link.group(1))
            else link.group().split("](")[0].lstrip("!["), lines[number - 1])
    return re.sub(r"^```sh (run|package)$", "```sh", "".join(lines), flags=re.MULTILINE)


def main(folder):
    for page in markdown_links.pages(ROOT):
        target = os.path.join(folder, page)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            text = file.read()
        with open(target, "w", encoding="utf-8") as file:
            file.write(stage(text))


if __name__ == "__main__":
    main(sys.argv[1])
