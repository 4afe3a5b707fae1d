"""A believable month of a GPU cloud as usage events, the same for the same seed.

One CloudEvent a line, in the order of arrival: a little jitter, some events hours or days late, some twice. No event is
dated after the month's end; a few rentals begin up to ten days before its start. Instants are whole seconds since 1970
until they are written. Floats are used for chance alone, never for time that is billed or for money.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metering.fleet_instance import Fleet, Instance, pick
from metering.fleet_profiles import DAY, HOUR, MINUTE, TENANTS, USER_FAULTS, Tenant

INSTANCES_MIN = 20  # below that the staged stories alone would be the fleet


def fleet_events(month: str, seed: int, instances: int = 320, zone: str = "Asia/Shanghai") -> Iterator[bytes]:
    """The events of a month such as `2026-03`, each a line of JSON without its line feed, in order of arrival."""
    if instances < INSTANCES_MIN:
        raise ValueError(f"a fleet has at least {INSTANCES_MIN} instances, not {instances}")
    fleet = Fleet(month, seed, zone)
    staged = _stage(fleet)
    for number in range(staged, instances):
        tenant = pick(fleet.random, {tenant: tenant.share for tenant in TENANTS})
        habit = pick(fleet.random, tenant.habits)
        _LIVES[habit](Instance(fleet, tenant, habit, number))
    for _, _, line in sorted(fleet.arrivals):
        yield line


# --- how instances live ---------------------------------------------------------------------------------------------
def _train(instance: Instance) -> None:
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


def _serve(instance: Instance) -> None:
    """A service: it comes up early and stays; some follow the day with their size, some lend at night."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(-10, 12), chance.randrange(DAY))
    end = fleet.last + DAY if chance.random() < 0.7 else start + chance.randrange(8 * DAY, 24 * DAY)
    instance.run(start, end)
    if instance.plan == "on_demand" and chance.random() < 0.35:
        instance.resize(start, min(end, fleet.last), times=chance.randrange(1, 5))
    elif instance.tenant.lends and instance.cards >= 4:
        instance.lend(start, min(end, fleet.last), nights=10)


def _work(instance: Instance) -> None:
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


def _render(instance: Instance) -> None:
    """Short jobs at any hour, minutes to a day long."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(12), chance.randrange(DAY))
    for _ in range(chance.randrange(3, 22)):
        end = start + int(chance.lognormvariate(9, 1))
        if start >= fleet.last - HOUR:
            return
        instance.run(start, min(end, start + DAY))
        start = end + chance.randrange(10 * MINUTE, 2 * DAY)


def _rent(instance: Instance) -> None:
    """Day packs: a few whole days, given back a little early."""
    fleet, chance = instance.fleet, instance.random
    start = fleet.at(chance.randrange(fleet.days - 2), 9 * HOUR + chance.randrange(9 * HOUR))
    instance.run(start, start + chance.randrange(1, 9) * DAY - chance.randrange(20 * HOUR))


_LIVES = {"training": _train, "serving": _serve, "office": _work, "batch": _render, "rental": _rent}


# --- stories that every month has -----------------------------------------------------------------------------------
def _stage(fleet: Fleet) -> int:
    """Long rentals, watched sessions, lost stops, user faults and one stray stop; returns how many instances."""
    tenants = {tenant.account: tenant for tenant in TENANTS}
    staged = [
        *_long_rentals(fleet, tenants),
        *_watched(fleet, tenants["xinghe-games"]),
        *_lost_stops(fleet, tenants["qingmu-robotics"]),
        *_user_faults(fleet, tenants["hailan-llm"]),
    ]
    stray = Instance(fleet, tenants["baita-studio"], "office", len(staged))
    stray.emit("instance.stopped", fleet.at(6, 11 * HOUR), {"reason": "reconciled by the host"})
    return len(staged) + 1


def _long_rentals(fleet: Fleet, tenants: Mapping[str, Tenant]) -> Iterator[Instance]:
    """Rentals of more than thirty days at the month's end (R21), begun up to ten days before the month."""
    accounts = ("hailan-llm", "chengyu-search", "chengyu-search", "jinsha-finance", "tianxing-drive", "minghe-biotech")
    for number, account in enumerate(accounts):
        instance = Instance(fleet, tenants[account], "serving", number, plan="on_demand", cards=8)
        latest = min(fleet.first - 6 * HOUR, fleet.last - 31 * DAY)
        start = instance.random.randrange(fleet.first - 10 * DAY, latest)
        instance.run(start, fleet.last + DAY)
        if number == 1:
            instance.lend(start, fleet.last, nights=12)
        yield instance


def _watched(fleet: Fleet, tenant: Tenant) -> Iterator[Instance]:
    """Sessions with heartbeats (R9): a whole day, a silence, a host lost for good, a start that was never heard of."""
    steady, silent, lost, unheard = (
        Instance(fleet, tenant, "office", 6 + n, sku="gpu.rtx4090", plan="on_demand", cards=1 + n % 2)
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


def _lost_stops(fleet: Fleet, tenant: Tenant) -> Iterator[Instance]:
    """The stop never came, and the next start has other terms: it ends what ran."""
    for number in range(10, 13):
        instance = Instance(fleet, tenant, "office", number, sku="gpu.a100-80g", plan="on_demand", cards=1)
        start = fleet.at(number, 10 * HOUR)
        instance.run(start, start + 9 * HOUR, stopped=False)
        instance.cards = 2
        instance.run(start + 9 * HOUR, start + 12 * HOUR)
        yield instance


def _user_faults(fleet: Fleet, tenant: Tenant) -> Iterator[Instance]:
    """Programs that crash on healthy cards: recorded, and billed (R7)."""
    for number, cause in enumerate(USER_FAULTS, start=13):
        instance = Instance(fleet, tenant, "training", number, plan="gang", cards=16)
        start = fleet.at(number - 8, instance.random.randrange(DAY))
        instance.run(start, start + 6 * DAY)
        instance.fail(start + instance.random.randrange(HOUR, 5 * DAY), cause)
        yield instance
