"""The number of faults, and their moments, derived from a seed, which is printed.

FAULT_SEED gives the seed. Without it a short run always takes the same seed, so that it is
reproducible, and a long run takes a random one.
"""

import os
import random
import time

from harness.length import LONG_RUN

REPETITIONS = 200 if LONG_RUN else 25  # of every fault


class FaultTimes:

    _MAX_DELAY_SECONDS = 0.03

    def __init__(self):
        seed = random.SystemRandom().randrange(1 << 32) if LONG_RUN else 1
        seed = int(os.environ.get("FAULT_SEED", seed))
        print(f"FAULT_SEED={seed}", flush=True)
        self._random = random.Random(seed)

    def pause(self, most_seconds=_MAX_DELAY_SECONDS):
        time.sleep(self._random.uniform(0, most_seconds))
