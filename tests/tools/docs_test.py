#!/usr/bin/python3
"""The pages of the source tree: their links, and the site and the manual pages that are made of
them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "tools", folder) for folder in ("lib", "packaging")]

# pylint: disable=wrong-import-position
import contents
import manual
import markdown_links
import stage_pages

MOST_WORDS = {"README.md": 1100, "CHANGELOG.md": 600}
MKDOCS = "/usr/bin/mkdocs"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class LinksTest(unittest.TestCase):
    """The checker of links, on a made-up tree."""

    PAGE = """# Title

[a](other.md) [b](other.md#some-words) [c](#title) [d](folder/file.cc "words") ![e](folder)
`[f](nowhere.md)`

```sh
[g](nowhere.md)
```
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write("folder/file.cc", "")
        self.write("other.md", "# Other\n\n## Some `words`!\n")
        self.write("page.md", self.PAGE)

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_right_links(self):
        self.assertEqual(list(markdown_links.complaints(self.root)), [])

    def test_each_wrong_link_is_found(self):
        for link, why in (("nowhere.md", "does not exist"),
                          ("other.md#words", "names a heading that the page does not have"),
                          ("#other", "names a heading that the page does not have"),
                          ("folder/file.cc#L3", "names a heading of a file that is no page"),
                          ("../other.md", "leads out of the source tree"),
                          ("/etc/passwd", "is an absolute path"),
                          ("https://example.org/x", "is an address on the network that no page may "
                                                    "name")):
            with self.subTest(link):
                self.write("page.md", f"{self.PAGE}\nSome [text]({link}).\n")
                self.assertEqual(list(markdown_links.complaints(self.root)),
                                 [f"page.md:10: '{link}' {why}."])

    def test_addresses_that_are_written_out_and_references_are_found(self):
        self.write("page.md", "http://example.org/\n\n[name]: nowhere.md\n")
        self.assertEqual(len(list(markdown_links.complaints(self.root))), 2)

    def test_anchors_are_those_of_github(self):
        for heading, anchor in (("`--ip ADDR` (`UROCE_IP`)", "--ip-addr-uroce_ip"),
                                ("UC, UD", "uc-ud"),
                                ("How do I add a port?", "how-do-i-add-a-port"),
                                ("[Text](other.md) here", "text-here")):
            self.assertEqual(markdown_links.slug(heading), anchor)

    def test_pages_in_folders_of_builds_are_left_out(self):
        for folder in ("bazel-bin", "dist", ".git", "x/__pycache__"):
            self.write(f"{folder}/page.md", "[a](nowhere.md)")
        self.assertEqual(markdown_links.pages(self.root), ["other.md", "page.md"])


class PagesTest(unittest.TestCase):

    def test_every_link_leads_somewhere(self):
        self.assertGreater(len(markdown_links.pages(ROOT)), 25)
        complaints = list(markdown_links.complaints(ROOT))
        self.assertFalse(complaints, "\n" + "\n".join(complaints))

    def test_short_pages_are_short(self):
        for page, most in MOST_WORDS.items():
            self.assertLessEqual(len(read(page).split()), most, page)

    def test_files_that_hacking_names_exist(self):
        named = set(re.findall(r"`((?:transport|dpdk_nic|verbs_provider|tests|tools)/[\w./*-]+)`",
                               read("HACKING.md")))
        self.assertGreater(len(named), 60)
        for path in named:
            folder, name = os.path.split(path)
            pattern = re.compile(re.escape(name).replace(r"\*", ".*") + r"\Z")
            with self.subTest(path):
                found = os.path.isdir(os.path.join(ROOT, path)) or any(
                    pattern.match(entry) for entry in os.listdir(os.path.join(ROOT, folder)))
                self.assertTrue(found)

    def test_functions_that_hacking_names_exist(self):
        sources = "".join(read(path) for path in set(re.findall(
            r"`((?:transport|dpdk_nic|verbs_provider|tools)/[\w./]+\.(?:cc|h))`",
            read("HACKING.md"))))
        for function in set(re.findall(r"`[A-Z]\w+::(\w+)`", read("HACKING.md"))):
            with self.subTest(function):
                self.assertRegex(sources, rf"\b{function}\b")

    def test_counters_that_users_read_of_exist(self):
        page = read("tools/docs/troubleshooting.md").split("### Queue pairs and counters")[1]
        counters = read("tools/docs/counters.md") + "`dropped`"
        names = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        self.assertGreater(len(names), 20)
        for name in re.findall(r"`(\w+)`", " ".join(names)):
            self.assertIn(f"`{name}`", counters)


class ManualTest(unittest.TestCase):

    def test_every_form_of_text(self):
        page = ("# Title\n\n## Name\n\nx - does y\n\n"
                "## Options\n\nA `b-c`\nof *d*, see [e](f.md).\n\n"
                "### `--g H`\n\n.hidden\n\nmore\n\n```\n.i\\j\n```\n\n- k\n  l\n\n"
                "| | |\n|---|---|\n| `m` | n |\n")
        self.assertEqual(manual.render(page, "x", "1").splitlines(), [
            '.TH X 1 "" "uroce" "User Commands"', ".SH NAME", "x \\- does y", ".SH OPTIONS",
            "A \\fBb\\-c\\fP of \\fId\\fP, see e.", ".TP", "\\fB\\-\\-g H\\fP", "\\&.hidden", ".IP",
            "more", ".IP", ".RS 4", ".nf", "\\&.i\\ej", ".fi", ".RE", ".IP \\(bu 4", "k l", ".TP",
            "\\fBm\\fP", "n", ".PP"])

    def test_what_is_not_known_is_refused(self):
        for page, complaint in (("text\n", "line 1: .* title"),
                                ("# T\n\n## Other\n", "'Name'"),
                                ("# T\n\n## Name\n\nx - y\n\n1. one\n", "line 7: .*'1. one'")):
            with self.assertRaisesRegex(manual.ManualError, complaint):
                manual.render(page, "x", "1")

    def test_the_manual_pages_are_right_roff(self):
        pages = [name for name in contents.DOCUMENTS if name.startswith("share/man/")]
        self.assertEqual(len(pages), 3)
        for name in pages:
            text = manual.page_for(name, contents.DOCUMENTS[name], read(contents.DOCUMENTS[name]))
            self.assertNotIn(b"`", text)
            if shutil.which("groff"):
                run = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=text, check=True,
                                     capture_output=True)
                self.assertEqual(run.stderr, b"")

    def test_each_option_of_run_is_below_its_variable(self):
        page = read("tools/docs/options.md")
        for option, variable in re.findall(r'Setting\{\s*"(\w+)", nic::k(\w+)Variable',
                                           read("tools/cli/run.cc")):
            self.assertRegex(page, rf"(?m)^### `--{option} .*\(`UROCE_{variable.upper()}`\)$")


class SiteTest(unittest.TestCase):

    def test_links_to_what_is_no_page_become_text(self):
        page = "[a](b.md) [c](d.md#e) [f](#g) [h](../i.cc) [j](k/)\n```sh run\n[l](m.cc)\n```\n"
        self.assertEqual(stage_pages.stage(page),
                         "[a](b.md) [c](d.md#e) [f](#g) h j\n```sh\n[l](m.cc)\n```\n")

    def test_the_site_has_every_page(self):
        named = re.findall(r"^ +- .*: (\S+\.md)$", read("tools/docs/mkdocs.yml"), re.MULTILINE)
        self.assertEqual(sorted(named), markdown_links.pages(ROOT))

    @unittest.skipUnless(os.path.exists(MKDOCS), "mkdocs is not installed")
    def test_the_site_is_made_and_asks_no_other_host(self):
        with tempfile.TemporaryDirectory() as folder:
            site = os.path.join(folder, "site")
            run = subprocess.run([os.path.join(ROOT, "tools", "docs", "build"), "--out", site],
                                 check=False, text=True, capture_output=True, timeout=200)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            with open(os.path.join(site, "tools/docs/options.html"), encoding="utf-8") as file:
                page = file.read()
            self.assertIn('id="--ip-addr-uroce_ip"', page)
            self.assertEqual(re.findall(r"<(?:link|script|img)[^>]*(?:src|href)=\"?https?:[^>]*>",
                                        page), [])
            with open(os.path.join(site, "search/search_index.json"), encoding="utf-8") as file:
                self.assertIn("UROCE_SCENARIO", file.read())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
