#!/usr/bin/python3
"""The lists of mutations say what there is: each text occurs once in the source file it names."""

import sys
import unittest

sys.dont_write_bytecode = True

import os  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import mutations as lists  # noqa: E402

LEAST_MUTATIONS = 200


class ListTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.lists = lists.read_lists()
        cls.mutations = [mutation for each in cls.lists for mutation in each.mutations]

    def test_every_text_occurs_once(self):
        complaints = []
        for path in sorted({mutation.path for mutation in self.mutations}):
            with open(os.path.join(lists.ROOT, path), encoding="utf-8") as file:
                source = file.read()
            try:
                lists.mutate(source, [m for m in self.mutations if m.path == path])
            except lists.ListError as error:
                complaints.append(str(error))
        self.assertFalse(complaints, "\n" + "\n".join(complaints))

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(self.mutations), LEAST_MUTATIONS)

    def test_every_list_names_its_tests(self):
        for each in self.lists:
            self.assertTrue(each.tests, each.name)
            self.assertTrue(each.mutations, each.name)


class SwitchTest(unittest.TestCase):
    """How a source file is changed."""

    @staticmethod
    def mutation(text, replacement, number=1, anchor=""):
        return lists.Mutation("list", 1, "a.cc", anchor, text, replacement, number)

    def changed(self, source, *mutations):
        result = lists.mutate(source, mutations)
        self.assertTrue(result.startswith(lists.PROLOGUE))
        return " ".join(result[len(lists.PROLOGUE):].replace("::uroce_mutation::", "").split())

    def test_expression(self):
        self.assertEqual(self.changed("if (a <\n   b) c();", self.mutation("a < b", "a <= b")),
                         "if ((Is(1) ? (a <= b) : (a < b))) c();")

    def test_words_are_whole(self):
        with self.assertRaises(lists.ListError):
            self.changed("return is_own ? a : b;", self.mutation("own ? a : b", "b"))
        with self.assertRaises(lists.ListError):
            self.changed("return owner;", self.mutation("return own", "return"))

    def test_statement(self):
        self.assertEqual(self.changed("a(); b();", self.mutation("b();", "")),
                         "a(); if (Is(1)) { } else { b(); }")

    def test_what_is_no_operand(self):
        for text, replacement in (("if (a)", "if (false)"), ("a &&", "true &&"),
                                  ("a && b", "|| b")):
            with self.assertRaises(lists.ListError):
                self.changed("if (a) c(); x = a && b;", self.mutation(text, replacement))

    def test_several_of_one_text(self):
        self.assertEqual(
            self.changed("x = a;", self.mutation("a", "b"), self.mutation("a", "c", 2)),
            "x = (Is(1) ? (b) : Is(2) ? (c) : (a));")

    def test_one_in_another(self):
        self.assertEqual(
            self.changed("x(a && b);", self.mutation("a", "d", 2), self.mutation("a && b", "c")),
            "x((Is(1) ? (c) : ((Is(2) ? (d) : (a)) && b)));")

    def test_after_another_text(self):
        self.assertEqual(
            self.changed("F() { a(); } G() { a(); }", self.mutation("a();", "", 1, "G()")),
            "F() { a(); } G() { if (Is(1)) { } else { a(); } }")

    def test_text_that_is_not_there_once(self):
        for source, mutation in (("b", self.mutation("a", "c")), ("a a", self.mutation("a", "c")),
                                 ("a", self.mutation("a", "c", 1, "no such anchor")),
                                 ("a(b, c)", self.mutation("b, c", "d"))):
            if mutation.text == "b, c":
                mutations = (mutation, self.mutation("a(b", "e", 2))
            else:
                mutations = (mutation,)
            with self.assertRaises(lists.ListError):
                lists.mutate(source, mutations)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
