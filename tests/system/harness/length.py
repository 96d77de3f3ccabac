"""How much a test does: in the gate each variant once, in a long run (tools/test --long) all
combinations."""

import itertools
import os

LONG_RUN = os.environ.get("UROCE_TEST_LENGTH") == "long"  # set by tools/test --long


def combinations(*dimensions):
    """All combinations of the dimensions' values; in the gate only enough that each value
    occurs."""
    if LONG_RUN:
        return list(itertools.product(*dimensions))
    rounds = max(len(dimension) for dimension in dimensions)
    return list(itertools.islice(zip(*map(itertools.cycle, dimensions)), rounds))
