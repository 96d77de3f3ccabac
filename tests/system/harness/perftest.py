"""Checks of the output of perftest's programs."""

ERRORS = ("Completion with error", "Failed status", "Couldn't", "Unable to", "Failed to")


def is_result(line):
    """Whether it is a line of the table: a message size, the iterations, figures."""
    words = line.split()
    return len(words) >= 4 and words[0].isdigit() and words[1].isdigit()


def check_no_error(test, output):
    for error in ERRORS:
        test.assertNotIn(error, output)


def check_figures(test, output):
    test.assertTrue(any(map(is_result, output.splitlines())), output)
