"""One late event on an instance with a long history: what it costs must not grow with the history."""

import random
from contextlib import closing
from statistics import quantiles
from time import perf_counter

from benchmarks.recording import BATCH
from benchmarks.stream import SINCE, Told, Writer, lines
from metering.recorder import Recorder

STEP_S = 600
"""Between two events: a hundred thousand of them take most of two years, the last of which ends in February 2026."""


def late_event(url: str, events: int, tries: int = 200, seed: int = 1) -> tuple[float, float]:
    """Milliseconds, median and 99th percentile, that a recorder takes for one late event as a batch of its own."""
    history, held_back = long_history(random.Random(seed), events, tries)
    with closing(Recorder(url)) as recorder:
        for start in range(0, len(history), BATCH):
            recorder.record("file:history", lines(history[start : start + BATCH]))
        seconds = []
        for raw in held_back:
            begun = perf_counter()
            outcome = recorder.record("file:late", lines([raw]))
            seconds.append(perf_counter() - begun)
            assert outcome.accepted == 1
    cuts = quantiles(seconds, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000


def long_history(rng: random.Random, events: int, tries: int) -> tuple[list[bytes], list[bytes]]:
    """An instance's failures and resizes over a long time, and starts of failures that come only when all is told."""
    writer = Writer(0)
    second = SINCE - (events + tries) * STEP_S
    terms = {"account": "acct-0", "sku": "gpu.a100-80g", "cards": 8, "region": "cn-xiamen"}
    told: list[Told] = [writer.write(second, "instance.started", terms)]
    pairs: list[tuple[Told, Told]] = []
    while len(told) + 2 * len(pairs) < events + tries:
        second += 2 * STEP_S
        if len(pairs) % 10 == 9 and len(told) <= len(pairs) // 10:
            told.append(writer.write(second, "instance.resized", {"cards": rng.choice((6, 7, 8))}))
        hit = {"incident": f"failure-{writer.count}", "cards": [rng.randrange(6)], "xid": 79}
        begin = writer.write(second + 60, "failure.started", hit)
        pairs.append((begin, writer.write(second + STEP_S, "failure.ended", hit)))
    held_back = rng.sample(pairs, tries)
    kept = {begin for begin, _ in pairs} - {begin for begin, _ in held_back}
    told += [each for pair in pairs for each in pair if each in kept or each == pair[1]]
    return [raw for _, raw in sorted(told)], [begin[1] for begin, _ in held_back]
