"""How often faults happen, and when: at moments derived from a seed, which is printed.

FAULT_SEED gives the seed. Without it a short run always takes the same one, so that it tests the
same today and tomorrow, and a long run one of its own.
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
