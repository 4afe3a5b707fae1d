"""A believable month of a GPU cloud as usage events, the same for the same seed.

One CloudEvent a line, in the order of arrival: a little jitter, some events hours or days late, some twice. No event is
dated after the month's end; a few rentals begin up to ten days before its start. Instants are whole seconds since 1970
until they are written. Floats are used for chance alone, never for time that is billed or for money.
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
    USER_FAULTS,
    Cause,
    Habit,
    Tenant,
)

INSTANCES_MIN = 20  # below that the staged stories alone would be the fleet
LATE_SHARE = DOUBLED_SHARE = 0.02
MIGRATIONS_PER_DAY = 1 / 12
HEARTBEAT_S = 60

_Choice = TypeVar("_Choice")
_Arrival = tuple[int, int, bytes]


def fleet_events(month: str, seed: int, instances: int = 320, zone: str = "Asia/Shanghai") -> Iterator[bytes]:
    """The events of a month such as `2026-03`, each a line of JSON without its line feed, in order of arrival."""
    if instances < INSTANCES_MIN:
        raise ValueError(f"a fleet has at least {INSTANCES_MIN} instances, not {instances}")
    fleet = _Fleet(month, seed, zone)
    staged = _stage(fleet)
    for number in range(staged, instances):
        tenant = _pick(fleet.random, {tenant: tenant.share for tenant in TENANTS})
        habit = _pick(fleet.random, tenant.habits)
        _LIVES[habit](_Instance(fleet, tenant, habit, number))
    for _, _, line in sorted(fleet.arrivals):
        yield line


class _Fleet:
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
        return (self._first_day + day + 3) % 7 < 5  # day 0 of the calendar, 1970-01-01, was a Thursday

    def send(self, chance: random.Random, at: int, line: bytes) -> None:
        """Puts a line into the stream: seconds later, 2 % of them up to two days later, 2 % of them a second time."""
        late = chance.randrange(10 * MINUTE, 2 * DAY) if chance.random() < LATE_SHARE else 0
        arrival = at + late + int(chance.expovariate(1 / 8))
        self.arrivals.append((arrival, len(self.arrivals), line))
        if chance.random() < DOUBLED_SHARE:
            self.arrivals.append((arrival + chance.randrange(1, HOUR), len(self.arrivals), line))


class _Instance:
    """One instance: its terms, its own chance, and the numbering of its events and incidents."""

    def __init__(self, fleet: _Fleet, tenant: Tenant, habit: Habit, number: int, **terms: Any) -> None:
        self.fleet, self.tenant = fleet, tenant
        self.random = random.Random(fleet.random.getrandbits(64))
        self.name = f"i-{number:04d}{self.random.getrandbits(16):04x}"
        self.cards: int = terms.get("cards") or _pick(self.random, CARDS[habit])
        self.sku: str = terms.get("sku") or _pick(self.random, tenant.skus)
        self.plan: str = terms.get("plan") or _pick(self.random, PLANS[habit])
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
            self.fail(at, _pick(self.random, {cause: cause.weight for cause in CAUSES}))

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


# --- how instances live ---------------------------------------------------------------------------------------------
def _train(instance: _Instance) -> None:
    """One to three long jobs."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(-2, 16), chance.randrange(DAY))
    for _ in range(chance.randrange(1, 4)):
        end = start + int(chance.triangular(2 * DAY, 20 * DAY, 7 * DAY))
        if start >= fleet.last - HOUR:
            return
        instance.run(start, end)
        if instance.tenant.lends and instance.plan != "gang" and chance.random() < 0.5:
            instance.lend(start, min(end, fleet.last), nights=8)
        start = end + chance.randrange(HOUR, 2 * DAY)


def _serve(instance: _Instance) -> None:
    """A service: it comes up early and stays; some follow the day with their size, some lend at night."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(-10, 12), chance.randrange(DAY))
    end = fleet.last + DAY if chance.random() < 0.7 else start + chance.randrange(8 * DAY, 24 * DAY)
    instance.run(start, end)
    if instance.plan == "on_demand" and chance.random() < 0.35:
        instance.resize(start, min(end, fleet.last), times=chance.randrange(1, 5))
    elif instance.tenant.lends and instance.cards >= 4:
        instance.lend(start, min(end, fleet.last), nights=10)


def _work(instance: _Instance) -> None:
    """A workstation: on in the morning, off in the evening, sometimes left on, hardly ever at weekends."""
    fleet, chance = instance.fleet, instance.random
    free = fleet.first
    for day in range(fleet.days):
        start = fleet.at(day, 8 * HOUR + 40 * MINUTE + chance.randrange(2 * HOUR))
        if start < free or chance.random() > (0.85 if fleet.is_workday(day) else 0.08):
            continue
        hours = 32 if chance.random() < 0.02 else chance.randrange(4, 12)
        free = start + hours * HOUR + chance.randrange(HOUR)
        instance.run(start, free)


def _render(instance: _Instance) -> None:
    """Short jobs at any hour, minutes to a day long."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(12), chance.randrange(DAY))
    for _ in range(chance.randrange(3, 22)):
        end = start + int(chance.lognormvariate(9, 1))
        if start >= fleet.last - HOUR:
            return
        instance.run(start, min(end, start + DAY))
        start = end + chance.randrange(10 * MINUTE, 2 * DAY)


def _rent(instance: _Instance) -> None:
    """Day packs: a few whole days, given back a little early."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(fleet.days - 2), 9 * HOUR + chance.randrange(9 * HOUR))
    instance.run(start, start + chance.randrange(1, 9) * DAY - chance.randrange(20 * HOUR))


_LIVES = {"training": _train, "serving": _serve, "office": _work, "batch": _render, "rental": _rent}


# --- stories that every month has -----------------------------------------------------------------------------------
def _stage(fleet: _Fleet) -> int:
    """Long rentals, watched sessions, lost stops, user faults and one stray stop; returns how many instances."""
    tenants = {tenant.account: tenant for tenant in TENANTS}
    staged = [
        *_long_rentals(fleet, tenants),
        *_watched(fleet, tenants["xinghe-games"]),
        *_lost_stops(fleet, tenants["qingmu-robotics"]),
        *_user_faults(fleet, tenants["hailan-llm"]),
    ]
    stray = _Instance(fleet, tenants["baita-studio"], "office", len(staged))
    stray.emit("instance.stopped", fleet.at(6, 11 * HOUR), {"reason": "reconciled by the host"})
    return len(staged) + 1


def _long_rentals(fleet: _Fleet, tenants: Mapping[str, Tenant]) -> Iterator[_Instance]:
    """Rentals of more than thirty days at the month's end (R21), begun up to ten days before the month."""
    accounts = ("hailan-llm", "chengyu-search", "chengyu-search", "jinsha-finance", "tianxing-drive", "minghe-biotech")
    for number, account in enumerate(accounts):
        instance = _Instance(fleet, tenants[account], "serving", number, plan="on_demand", cards=8)
        latest = min(fleet.first - 6 * HOUR, fleet.last - 31 * DAY)
        start = instance.random.randrange(fleet.first - 10 * DAY, latest)
        instance.run(start, fleet.last + DAY)
        if number == 1:
            instance.lend(start, fleet.last, nights=12)
        yield instance


def _watched(fleet: _Fleet, tenant: Tenant) -> Iterator[_Instance]:
    """Sessions with heartbeats (R9): a whole day, a silence, an agent that is lost, a start that was never heard of."""
    steady, silent, lost, unheard = (
        _Instance(fleet, tenant, "office", 6 + n, sku="gpu.rtx4090", plan="on_demand", cards=1 + n % 2)
        for n in range(4)
    )  # fmt: skip
    begin, close = fleet.at(4, 9 * HOUR), fleet.at(4, 17 * HOUR)
    steady.run(begin, close)
    steady.beat(begin + 20, close)
    silent.run(begin, close)
    silent.beat(begin + 35, begin + 3 * HOUR)
    silent.beat(begin + 3 * HOUR + 25 * MINUTE, close)
    lost.run(begin, close, stopped=False)
    lost.beat(begin + 50, begin + 5 * HOUR + 7 * MINUTE)
    unheard.beat(begin, begin + 4 * HOUR, unheard.terms())
    unheard.emit("instance.stopped", begin + 4 * HOUR, {"reason": "user"})
    yield from (steady, silent, lost, unheard)


def _lost_stops(fleet: _Fleet, tenant: Tenant) -> Iterator[_Instance]:
    """The stop never came, and the next start has other terms: it ends what ran."""
    for number in range(10, 13):
        instance = _Instance(fleet, tenant, "office", number, sku="gpu.a100-80g", plan="on_demand", cards=1)
        start = fleet.at(number, 10 * HOUR)
        instance.run(start, start + 9 * HOUR, stopped=False)
        instance.cards = 2
        instance.run(start + 9 * HOUR, start + 12 * HOUR)
        yield instance


def _user_faults(fleet: _Fleet, tenant: Tenant) -> Iterator[_Instance]:
    """Programs that crash on healthy cards: recorded, and billed (R7)."""
    for number, cause in enumerate(USER_FAULTS, start=13):
        instance = _Instance(fleet, tenant, "training", number, plan="gang", cards=16)
        start = fleet.at(number - 8, instance.random.randrange(DAY))
        instance.run(start, start + 6 * DAY)
        instance.fail(start + instance.random.randrange(HOUR, 5 * DAY), cause)
        yield instance


def _pick(chance: random.Random, weights: Mapping[_Choice, float]) -> _Choice:
    choices: Sequence[_Choice] = list(weights)
    return chance.choices(choices, list(weights.values()))[0]
