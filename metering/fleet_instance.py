"""One instance of the generated fleet and what befalls it: sessions, failures, migrations, lending, resizes.

Instants are whole seconds since 1970 until an event is written. Chance comes from seeded generators alone, one for the
fleet and one for every instance, so that the life of one does not disturb another's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from core.calendar import calendar, instant_of, month_name, month_number
from metering.fleet_profiles import (
    CARDS,
    CAUSES,
    DAY,
    FAILURES_PER_CARD_DAY,
    HOUR,
    MINUTE,
    PLANS,
    TENANTS,
    Cause,
    Habit,
    Tenant,
)

LATE_SHARE = DOUBLED_SHARE = 0.02
MIGRATIONS_PER_DAY = 1 / 12
HEARTBEAT_S = 60

_Choice = TypeVar("_Choice")
_Arrival = tuple[int, int, bytes]


class Fleet:
    """The month, its bounds and nights, and what has been sent so far."""

    def __init__(self, month: str, seed: int, zone: str) -> None:
        self.random = random.Random(f"{month_name(month_number(month))}/{seed}")
        self._calendar = calendar(zone)
        self.first = self._calendar.month_start(month_number(month))
        self.last = self._calendar.month_start(month_number(month) + 1)
        self._first_day = self._calendar.day_of(self.first)
        self.days = self._calendar.day_of(self.last - 1) - self._first_day + 1
        self.arrivals: list[_Arrival] = []
        regions = sorted({tenant.region for tenant in TENANTS})
        self.maintenance = {region: self.at(self.random.randrange(7, 21), 2 * HOUR) for region in regions}

    def at(self, day: int, second: int = 0) -> int:
        """A second of the day that lies `day` days after the month's first."""
        return self._calendar.day_start(self._first_day + day) + second

    def is_workday(self, day: int) -> bool:
        """Whether that day of the month is no Saturday or Sunday."""
        return (self._first_day + day + 3) % 7 < 5  # day 0 of the calendar, 1970-01-01, was a Thursday

    def send(self, chance: random.Random, at: int, line: bytes) -> None:
        """Puts a line into the stream: seconds later, 2 % of them up to two days later, 2 % of them a second time."""
        late = chance.randrange(10 * MINUTE, 2 * DAY) if chance.random() < LATE_SHARE else 0
        arrival = at + late + int(chance.expovariate(1 / 8))
        self.arrivals.append((arrival, len(self.arrivals), line))
        if chance.random() < DOUBLED_SHARE:
            self.arrivals.append((arrival + chance.randrange(1, HOUR), len(self.arrivals), line))


class Instance:
    """One instance: its terms, its own chance, and the numbering of its events and incidents."""

    def __init__(self, fleet: Fleet, tenant: Tenant, habit: Habit, number: int, **terms: Any) -> None:
        self.fleet, self.tenant = fleet, tenant
        self.random = random.Random(fleet.random.getrandbits(64))
        self.name = f"i-{number:04d}{self.random.getrandbits(16):04x}"
        self.cards: int = terms.get("cards") or pick(self.random, CARDS[habit])
        self.sku: str = terms.get("sku") or pick(self.random, tenant.skus)
        self.plan: str = terms.get("plan") or pick(self.random, PLANS[habit])
        self.project = self.random.choice(tenant.projects)
        self._host = self._new_host()
        self._events = 0

    def _new_host(self) -> str:
        family = self.sku.removeprefix("gpu.").split("-")[0]
        return f"/regions/{self.tenant.region}/hosts/{family}-{self.random.randrange(1, 90):03d}"

    def terms(self) -> dict[str, object]:
        """The full description, as a start or a first heartbeat carries it."""
        return {
            "account": self.tenant.account, "project": self.project, "sku": self.sku, "cards": self.cards,
            "plan": self.plan, "region": self.tenant.region,
        }  # fmt: skip

    def emit(self, kind: str, at: int, data: Mapping[str, object]) -> None:
        """Sends one event; what would lie after the month's end has not happened yet."""
        if at >= self.fleet.last:
            return
        self._events += 1
        event = {
            "specversion": "1.0",
            "id": f"{self.name}.{self._events}",
            "source": self._host,
            "type": kind,
            "subject": self.name,
            "time": f"{instant_of(at):%Y-%m-%dT%H:%M:%S}.{self.random.randrange(1000):03d}Z",
            "data": data,
        }
        self.fleet.send(self.random, at, json.dumps(event, separators=(",", ":")).encode())

    def run(self, start: int, end: int, stopped: bool = True) -> None:
        """One session with what befalls it; an end after the month's leaves it running."""
        self.emit("instance.started", start, self.terms())
        if stopped:
            self.emit("instance.stopped", end, {"reason": "user"})
        end = min(end, self.fleet.last)
        self._fail(start, end)
        self._migrate(start, end)
        self._maintain(start, end)

    def exclude(self, klass: str, start: int, end: int, **data: object) -> None:
        """An incident of a class, with both its ends."""
        incident = f"{klass[:2]}-{self.name[2:]}-{self._events + 1}"
        self.emit(f"{klass}.started", start, {"incident": incident, **data})
        self.emit(f"{klass}.ended", end, {"incident": incident})

    def fail(self, at: int, cause: Cause) -> None:
        """A failure of that cause, repaired before the month ends."""
        data: dict[str, object] = {"cause": cause.cause}
        if cause.xids:
            data["xid"] = self.random.choice(cause.xids)
        if 0 < cause.cards < self.cards:
            data["cards"] = sorted(self.random.sample(range(self.cards), cause.cards))
        shortest, longest = cause.repair
        repaired = at + int(self.random.triangular(shortest, longest, shortest + (longest - shortest) / 4))
        self.exclude("failure", at, min(repaired, self.fleet.last - 1), **data)

    def _fail(self, start: int, end: int) -> None:
        for at in self._moments(start, min(end, self.fleet.last - HOUR), self.cards * FAILURES_PER_CARD_DAY):
            self.fail(at, pick(self.random, {cause: cause.weight for cause in CAUSES}))

    def _migrate(self, start: int, end: int) -> None:
        for at in self._moments(start, end - MINUTE, MIGRATIONS_PER_DAY):
            self.exclude("migration", at, at + self.random.randrange(4, 29), cause="host rebalanced")
            self._host = self._new_host()

    def _maintain(self, start: int, end: int) -> None:
        at = self.fleet.maintenance[self.tenant.region]
        if start < at and at + 2 * HOUR < end and self.random.random() < 0.35:
            length = self.random.randrange(40 * MINUTE, 110 * MINUTE)
            self.exclude("maintenance", at, at + length, cause="planned driver upgrade")

    def lend(self, start: int, end: int, nights: int) -> None:
        """Lends half of the cards to the shared pool on some nights, 22:30 to 06:30."""
        for day in sorted(self.random.sample(range(self.fleet.days - 1), nights)):
            begin, back = self.fleet.at(day, 22 * HOUR + 30 * MINUTE), self.fleet.at(day + 1, 6 * HOUR + 30 * MINUTE)
            if start <= begin and back < end:
                self.exclude("idle", begin, back, cards=list(range(self.cards // 2, self.cards)))

    def resize(self, start: int, end: int, times: int) -> None:
        """Doubles the cards for the busy part of some days and gives them back."""
        for day in sorted(self.random.sample(range(self.fleet.days), times)):
            begin = self.fleet.at(day, 10 * HOUR + self.random.randrange(2 * HOUR))
            back = begin + self.random.randrange(4 * HOUR, 10 * HOUR)
            if start < begin and back < end:
                self.emit("instance.resized", begin, {"cards": self.cards * 2})
                self.emit("instance.resized", back, {"cards": self.cards})

    def beat(self, start: int, end: int, data: Mapping[str, object] | None = None) -> None:
        """Heartbeats once a minute in `[start, end)`."""
        for at in range(start, end, HEARTBEAT_S):
            self.emit("instance.heartbeat", at, data or {})

    def _moments(self, start: int, end: int, per_day: float) -> Iterator[int]:
        at = start + int(self.random.expovariate(per_day / DAY))
        while at < end:
            yield at
            at += 1 + int(self.random.expovariate(per_day / DAY))


def pick(chance: random.Random, weights: Mapping[_Choice, float]) -> _Choice:
    """One of the keys, each as likely as its weight says."""
    choices: Sequence[_Choice] = list(weights)
    return chance.choices(choices, list(weights.values()))[0]
