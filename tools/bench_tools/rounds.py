"""Selects the rounds of a measurement that can be compared."""


def comparable_rounds(measure, cache_line, wanted):
    """Measures until `wanted` rounds had the processors near each other before and after, but at
    most three times as many rounds. A virtual machine moves its processors: then small messages
    are at a third of their rate, and no two figures can be compared. Returns the values, the cache
    line's time and its class for those rounds, or for all rounds if there are none of those."""
    rounds, before = [], cache_line()
    while len(rounds) < 3 * wanted:
        values = measure()
        after = cache_line()
        distance = before[1] if before[1] != "near" else after[1]
        rounds.append((values, after[0], distance))
        before = after
        near = [one for one in rounds if one[2] == "near"]
        if len(near) == wanted or distance == "one cpu":
            break
    return near or rounds
