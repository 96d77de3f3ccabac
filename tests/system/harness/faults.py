"""When faults happen: at moments derived from a seed, which is printed and can be given anew."""

import os
import random
import time

REPETITIONS = 200  # of every fault


class FaultTimes:

    _MAX_DELAY_SECONDS = 0.03

    def __init__(self):
        seed = int(os.environ.get("FAULT_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"FAULT_SEED={seed}", flush=True)
        self._random = random.Random(seed)

    def pause(self, most_seconds=_MAX_DELAY_SECONDS):
        time.sleep(self._random.uniform(0, most_seconds))
