"""Which rounds of a measurement can be compared."""


def comparable_rounds(measure, cache_line, wanted):
    """Measures until `wanted` rounds had the processors near each other before and after, three
    times as often at most. A virtual machine moves its processors: then small messages are at a
    third of their rate, and no two figures can be compared. Returns values, the cache line's time
    and its class of those rounds; of all, if none was so."""
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
