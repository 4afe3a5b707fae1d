"""A stream of events as a busy month brings it: 10,000 instances of 1,000 accounts, seeded, in order of arrival."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from metering.lines import Line

SINCE = int(datetime(2026, 2, 28, 16, tzinfo=UTC).timestamp())
"""The first second of March in Shanghai."""
MONTH_S = 31 * 86400
SKUS = ("gpu.rtx4090", "gpu.a100-80g", "gpu.h100-80g", "gpu.c500-64g")
REGIONS = ("cn-xiamen", "cn-southwest", "cn-north")
LATE, DOUBLED = 0.02, 0.02
Told = tuple[int, bytes]
"""When an event happened, and its bytes."""


def arrivals(instances: int, accounts: int, seed: int = 1) -> list[bytes]:
    """About 22 events an instance as they arrive: 2 % late by up to six hours, 2 % a second time soon after."""
    rng = random.Random(seed)
    coming: list[Told] = []
    for number in range(instances):
        for second, raw in history(rng, number, f"acct-{number % accounts}"):
            late = rng.randrange(600, 21600) if rng.random() < LATE else 0
            coming.append((second + late, raw))
            if rng.random() < DOUBLED:
                coming.append((second + late + rng.randrange(1, 300), raw))
    coming.sort()
    return [raw for _, raw in coming]


def lines(raws: list[bytes]) -> list[Line]:
    """Events as the lines of a file."""
    return [Line(number, raw, len(raw)) for number, raw in enumerate(raws, start=1)]


def history(rng: random.Random, number: int, account: str) -> Iterator[Told]:
    """One instance's month: two sessions, each with failures, migrations and resizes on the way."""
    writer = Writer(number)
    terms = {
        "account": account, "project": f"p{rng.randrange(3)}", "sku": rng.choice(SKUS), "region": rng.choice(REGIONS),
        "plan": "hourly" if rng.random() < 0.2 else "on_demand",
    }  # fmt: skip
    second = SINCE + rng.randrange(86400)
    for _ in range(2):
        cards = rng.choice((1, 2, 4, 8, 8))
        yield writer.write(second, "instance.started", terms | {"cards": cards})
        for _ in range(5):
            second += rng.randrange(3600, 86400)
            chance = rng.random()
            if chance < 0.2:
                cards = rng.choice((1, 2, 4, 8))
                yield writer.write(second, "instance.resized", {"cards": cards})
                continue
            klass = "failure" if chance < 0.7 else "migration"
            hit: dict[str, Any] = {"incident": f"{klass}-{writer.count}", "cards": [rng.randrange(cards)]}
            told = {"xid": rng.choice((79, 48, 31, 94)), "cause": "gpu"} if klass == "failure" else {"cause": "drain"}
            yield writer.write(second, f"{klass}.started", hit | told)
            second += rng.randrange(20, 7200)
            yield writer.write(second, f"{klass}.ended", hit)
        second += rng.randrange(600, 86400)
        yield writer.write(second, "instance.stopped", {"reason": "done"})
        second += rng.randrange(600, 86400)


class Writer:
    """Writes one instance's events, each with an id of its own."""

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0

    def write(self, second: int, type_: str, data: dict[str, Any]) -> Told:
        """An event and when it happened."""
        self.count += 1
        source, id_ = f"/hosts/h{self.number % 997:03d}", f"{self.number:06d}-{self.count:06d}"
        event = {
            "specversion": "1.0", "id": id_, "source": source,
            "type": type_, "subject": f"i-{self.number:06d}",
            "time": datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z"), "data": data,
        }  # fmt: skip
        return second, msgspec.json.encode(event)


def heartbeats(instances: int, seconds: int) -> list[bytes]:
    """A heartbeat a second from each instance."""
    writers = [Writer(number) for number in range(instances)]
    return [
        writer.write(SINCE + 86400 + second, "instance.heartbeat", {})[1]
        for second in range(seconds) for writer in writers
    ]  # fmt: skip
