"""How much a test does: in the gate each difference once, in a long run (tools/test --long) all of
their combinations."""

import itertools
import os

LONG_RUN = os.environ.get("UROCE_TEST_LENGTH") == "long"  # as tools/test --long says it


def combinations(*dimensions):
    """All combinations of a value of each; in the gate so few that every value is in one."""
    if LONG_RUN:
        return list(itertools.product(*dimensions))
    rounds = max(len(dimension) for dimension in dimensions)
    return list(itertools.islice(zip(*map(itertools.cycle, dimensions)), rounds))
