"""Made-up streams of usage events, price books and contracts: small, and nasty.

Seconds come from a small pool, so that facts collide in one second, and lie around a month's end, so that days, months,
packs and credits begin and end in mid-run. A scene ties events, book and contract to the same time, zone and currency:
combine `events(scene)`, `books(scene)` and `contracts(scene)` freely, or take `streams()`, which draws all of them.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

Json = dict[str, Any]
Event = dict[str, Any] | str | bytes
Stream = tuple[list[Event], Json, Json | None, datetime | None]

HOUR = 3600
DAY = 86_400
ACCOUNTS = ("acct-1", "acct-2")  # a contract is the first one's
SKUS = ("gpu.a", "gpu.b")
REGIONS = (None, "north")
CLASSES = ("failure", "migration", "maintenance", "idle")
TIMEOUT = 180
PLANS: dict[str, Json] = {
    "on_demand": {"unit_s": 1},
    "by_minute": {"unit_s": 60},
    "by_quarter": {"unit_s": 900},
    "by_hour": {"unit_s": 3600},
    "at_least": {"unit_s": 1, "minimum_s": 3600},
    "at_least_ten": {"unit_s": 60, "minimum_s": 600},
    "gang": {"unit_s": 1, "exclusions": "gang"},
    "gang_hour": {"unit_s": 3600, "exclusions": "gang"},
    "pack_day": {"pack": "day", "renew": True, "falls_back_to": "on_demand"},
    "pack_once": {"pack": "day", "renew": False, "falls_back_to": "by_minute"},
    "pack_month": {"pack": "month", "renew": True, "falls_back_to": "on_demand"},
}
PACKS = ("pack_day", "pack_once", "pack_month")
USUAL_PLANS = ("on_demand", "by_minute", "by_quarter", "by_hour", "at_least", "at_least_ten", "gang")
STARTS = (
    ("Asia/Shanghai", "2026-03-31T20:00:00"),
    ("Asia/Shanghai", "2026-01-30T22:30:00"),
    ("America/New_York", "2026-10-31T16:00:00"),
    ("Asia/Kolkata", "2028-02-28T23:30:00"),
    ("UTC", "2026-02-27T23:59:00"),
)


@dataclass(frozen=True)
class Scene:
    """When and where a stream plays: seconds of the pool are counted from t0."""

    zone: str
    t0: datetime
    pool: tuple[int, ...]
    currency: str

    def text(self, second: int, zone: str = "UTC") -> str:
        return (self.t0 + timedelta(seconds=second)).astimezone(ZoneInfo(zone)).isoformat().replace("+00:00", "Z")


def scene_at(start: tuple[str, str], pool: list[int], currency: str) -> Scene:
    zone, local = start
    t0 = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return Scene(zone, t0, tuple(sorted(set(pool))), currency)


@cache
def one_in(many: int) -> st.SearchStrategy[bool]:
    """True once in so many times."""
    return st.integers(1, many).map(lambda n: n == many)


@cache
def seconds(span: int) -> st.SearchStrategy[int]:
    """Any second of a span, or one near a mark at which something may change."""
    marks = [m for m in range(0, span + 1, 1800) if m % HOUR == 0 or m < DAY]
    near = st.sampled_from([0, 0, 0, 1, -1, 59, TIMEOUT, TIMEOUT + 1])
    return st.one_of(
        st.integers(0, span),
        st.builds(lambda mark, off: max(mark + off, 0), st.sampled_from(marks), near),
    )


@st.composite
def scenes(draw: st.DrawFn, longest: int = 33 * DAY) -> Scene:
    usual = [30 * HOUR, 75 * HOUR, 12 * HOUR, 75 * HOUR, 30 * HOUR, 2 * HOUR, 600, 33 * DAY]
    span = draw(st.sampled_from([s for s in usual if s <= longest] or [longest]))
    pool = draw(st.lists(seconds(span), min_size=4, max_size=10))
    currency = draw(st.sampled_from(["CNY", "CNY", "JPY", "USD"]))
    return scene_at(draw(st.sampled_from(STARTS)), [0, *pool, span], currency)


SCENE = scene_at(STARTS[0], [0, 1, 600, 780, 781, 3600, 14399, 14400, 18000, 43200, 86400, 90000, 200000], "CNY")


# --- terms -----------------------------------------------------------------------------------------------------------


@cache
def taxes() -> st.SearchStrategy[Json]:
    rate = st.sampled_from(["0.06", "0.06", "0.13", "0", "0.005"])
    return st.fixed_dictionaries({"rate": rate, "included": st.sampled_from([True, True, False])})


@cache
def amounts(currency: str) -> st.SearchStrategy[str]:
    """Amounts of whole minor units."""
    whole = ["1", "3", "20", "150"]
    return st.sampled_from(whole if currency == "JPY" else [*whole, "0.05", "2.50", "7.77"])


@cache
def hour_prices() -> st.SearchStrategy[str]:
    return st.sampled_from(["3.60", "1.00", "0.0049", "1.005", "7.3", "19000/48000", "2.80", "55"])


@cache
def pack_prices() -> st.SearchStrategy[str]:
    return st.sampled_from(["24.00", "20.01", "720", "100/3", "0.03"])


@st.composite
def books(draw: st.DrawFn, scene: Scene = SCENE) -> Json:
    """A price book in which a price may change, have a row for a region, or be missing."""
    book: Json = {
        "id": "standard",
        "currency": scene.currency,
        "time_zone": scene.zone,
        "tax": draw(taxes()),
        "skus": {sku: {"name": {"en": sku}} for sku in SKUS},
        "plans": {name: dict(plan) for name, plan in PLANS.items()},
        "prices": draw(price_rows(scene)),
    }
    if draw(st.booleans()):
        book["heartbeat_timeout_s"] = draw(st.sampled_from([60, TIMEOUT, 600]))
    if draw(one_in(4)):
        book["skus"]["gpu.b"]["tax"] = draw(taxes())
    if draw(one_in(4)):
        book["plans"]["by_minute"]["tax"] = draw(taxes())
    if draw(one_in(6)):
        book["xids"] = {"user": [31, 500], "platform": [48, 79], "no_outage": [63]}
    return book


@st.composite
def price_rows(draw: st.DrawFn, scene: Scene) -> list[Json]:
    """One row for every SKU and plan but one, and a few that change a price or are a region's."""
    hour = draw(st.lists(hour_prices(), min_size=2, max_size=2))
    pack = draw(st.lists(pack_prices(), min_size=2, max_size=2))
    first = "2015-01-01T00:00:00Z"
    rows: list[Json] = []
    for number, (sku, plan) in enumerate((sku, plan) for sku in SKUS for plan in PLANS):
        amount = {"per_card_pack": pack[number % 2]} if plan in PACKS else {"per_card_hour": hour[number % 2]}
        if (sku, plan) != ("gpu.b", "by_hour"):
            rows.append({"sku": sku, "plan": plan, **amount, "from": first})
    keys = {(row["sku"], row["plan"], None, first) for row in rows}
    for _ in range(draw(st.integers(0, 4))):
        row = draw(special_price(scene, first))
        key = (row["sku"], row["plan"], row.get("region"), row["from"])
        if key not in keys:
            keys.add(key)
            rows.append(row)
    return rows


@st.composite
def special_price(draw: st.DrawFn, scene: Scene, first: str) -> Json:
    sku, plan = draw(st.sampled_from(SKUS)), draw(st.sampled_from([*PLANS, "on_demand"]))
    amount = {"per_card_pack": draw(pack_prices())} if plan in PACKS else {"per_card_hour": draw(hour_prices())}
    region = draw(st.sampled_from(REGIONS))
    where = {} if region is None else {"region": region}
    begins = first if draw(st.booleans()) else scene.text(draw(of_pool(scene)), scene.zone)
    return {"sku": sku, "plan": plan, **amount, **where, "from": begins}


@st.composite
def contracts(draw: st.DrawFn, scene: Scene = SCENE) -> Json:
    """The first account's terms."""
    contract: Json = {"account": ACCOUNTS[0]}
    if draw(one_in(2)):
        contract["tiers"] = draw(st.lists(tiers(), min_size=1, max_size=2))
    if draw(one_in(2)):
        contract["discount"] = draw(st.sampled_from(["0.12", "0.5", "1/3", "0"]))
    if draw(one_in(2)):
        contract["caps"] = draw(st.lists(caps(), min_size=1, max_size=3, unique_by=lambda c: str(c["per"])))
    if draw(one_in(2)):
        contract["long_term"] = draw(long_terms())
    if not draw(one_in(4)):
        rows = draw(st.lists(grants(scene), min_size=1, max_size=4))
        contract["credits"] = [{**row, "id": f"C{number}"} for number, row in enumerate(rows)]
    if draw(one_in(8)):
        contract["time_zone"] = draw(st.sampled_from(["Asia/Tokyo", "UTC", "America/New_York"]))
    return contract


@st.composite
def tiers(draw: st.DrawFn) -> Json:
    spend = draw(st.booleans())
    bounds = draw(st.lists(st.sampled_from([1, 2, 5, 10, 24, 100, 500]), min_size=1, max_size=3, unique=True))
    bands: list[Json] = [{"up_to": bound} for bound in sorted(bounds)]
    if not draw(one_in(4)):
        bands.append({})
    discounts = st.sampled_from(["0.10", "0.25", "1/3"]).map(lambda d: {"discount": d})
    prices = st.sampled_from(["3.60", "3.00", "0.5"]).map(lambda p: {"price": p})
    bands = [band | draw(st.one_of(discounts, prices, st.just({}))) for band in bands]
    sku = draw(st.sampled_from(["*", "gpu.a", "gpu.b", "gpu.*"]))
    mode = draw(st.sampled_from(["graduated", "graduated", "volume"]))
    return {"sku": sku, "mode": mode, "measure": "spend" if spend else "card_hours", "bands": bands}


@cache
def caps() -> st.SearchStrategy[Json]:
    per = st.sampled_from(["instance_day", "instance_month", "account_month"])
    return st.fixed_dictionaries({"per": per, "amount": st.sampled_from(["0.50", "5.00", "10.00", "60", "100/3"])})


@cache
def long_terms() -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {"min_days": st.sampled_from([1, 1, 1, 2, 30]), "settle": st.sampled_from(["voucher", "voucher", "netted"])},
        optional={
            "rebate": st.sampled_from(["0.15", "0.1", "1/3"]),
            "plans": st.sampled_from([["on_demand"], [plan for plan in PLANS if plan != "gang"]]),
        },
    )


@st.composite
def grants(draw: st.DrawFn, scene: Scene) -> Json:
    """A credit without its id, that begins or ends in mid-stream or not."""
    begins = draw(st.sampled_from([-30 * DAY, -30 * DAY, *scene.pool[:4]]))
    ends = draw(st.sampled_from([90 * DAY, 90 * DAY, 90 * DAY, *scene.pool]))
    grant = {
        "kind": draw(st.sampled_from(["voucher", "trial"])),
        "amount": draw(amounts(scene.currency)),
        "from": scene.text(begins, scene.zone),
        "expires": scene.text(ends if ends > begins else begins + HOUR, scene.zone),
    }
    skus = draw(st.sampled_from([None, None, ["gpu.a"], ["gpu.b"], ["gpu.a", "gpu.b"], ["gpu.*"], ["*"]]))
    return grant if skus is None else {**grant, "skus": skus}


# --- events ----------------------------------------------------------------------------------------------------------


SOURCES = st.sampled_from(["/hosts/1", "/hosts/1", "/hosts/0"])
ZONES = st.sampled_from(["UTC", "UTC", "UTC", None])  # none is the scene's


@dataclass(frozen=True)
class Told:
    """A fact before it gets an envelope."""

    second: int
    type: str
    data: Json


@cache
def of_pool(scene: Scene) -> st.SearchStrategy[int]:
    return st.sampled_from(scene.pool)


@cache
def card_counts() -> st.SearchStrategy[int]:
    return st.sampled_from([1, 1, 2, 3, 4, 5, 0])


@cache
def plans() -> st.SearchStrategy[str]:
    return st.sampled_from([*USUAL_PLANS, "gang_hour", *PACKS, "pack_day", "pack_once", "nowhere"])


@cache
def session_names() -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, None, None, "a", "b"])


def without_nothing(data: Json) -> Json:
    return {key: value for key, value in data.items() if value is not None}


@st.composite
def starts(draw: st.DrawFn, account: str, region: str | None) -> Json:
    return without_nothing(
        {
            "account": ACCOUNTS[1] if draw(one_in(12)) else account,
            "project": draw(st.sampled_from([None, None, "llm"])),
            "region": region,
            "sku": draw(st.sampled_from(["gpu.a", "gpu.a", "gpu.a", "gpu.b"])) if not draw(one_in(12)) else "gpu.none",
            "cards": draw(card_counts()),
            "plan": None if draw(one_in(6)) else draw(plans()),
        }
    )


@st.composite
def session_facts(draw: st.DrawFn, scene: Scene, start: Json) -> list[Told]:
    """A start, resizes, heartbeats and a stop, of which the start or the stop may be lost and the order may be odd."""
    name = draw(session_names())
    named: Json = {} if name is None else {"session": name}
    first, last = draw(spans(scene))
    told = [Told(first, "instance.started", {**start, **named})] if not draw(one_in(12)) else []
    if not draw(one_in(5)):
        told.append(Told(last, "instance.stopped", dict(named)))
    within = [s for s in scene.pool if first <= s <= last]
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        second = draw(st.one_of(st.sampled_from(within or [first]), of_pool(scene)))
        told += [Told(second, "instance.resized", {**draw(resizes()), **named})]
    if draw(one_in(3)):
        described = start if draw(st.booleans()) else {}
        told += draw(heartbeats(draw(st.sampled_from([first, first, last])), {**described, **named}))
    return told


@st.composite
def spans(draw: st.DrawFn, scene: Scene) -> tuple[int, int]:
    """The whole pool, or two seconds of it, now and then in the wrong order."""
    if draw(one_in(3)):
        return scene.pool[0], scene.pool[-1]
    first, last = draw(of_pool(scene)), draw(of_pool(scene))
    if draw(one_in(10)):
        return first, last
    return min(first, last), max(first, last)


@cache
def resizes() -> st.SearchStrategy[Json]:
    sku = st.sampled_from([*SKUS, *SKUS, "gpu.none"])
    return st.one_of(
        st.fixed_dictionaries({"cards": card_counts()}),
        st.fixed_dictionaries({"cards": card_counts()}, optional={"sku": sku, "plan": plans()}),
        st.fixed_dictionaries({"plan": plans()}, optional={"sku": sku}),
        st.fixed_dictionaries({"sku": sku}),
    )


@st.composite
def heartbeats(draw: st.DrawFn, first: int, data: Json) -> list[Told]:
    """A train of beats whose gaps are below, at and above the time-out."""
    steps = draw(st.lists(st.sampled_from([60, 60, 150, TIMEOUT, TIMEOUT + 1, 700, 2 * HOUR]), min_size=0, max_size=6))
    told, second = [], first + draw(st.sampled_from([0, 0, 30, 60]))
    for step in [0, *steps]:
        second += step
        told.append(Told(second, "instance.heartbeat", data))
    return told


@st.composite
def incident_facts(draw: st.DrawFn, scene: Scene) -> list[Told]:
    """A start and an end, each told never, once or twice, with cards, XIDs and faults said or not."""
    kind, name = draw(st.sampled_from([*CLASSES, "failure", "failure"])), draw(st.sampled_from(["x", "y"]))
    first, last = draw(spans(scene))
    edges = [(first, "started")] if not draw(one_in(10)) else []
    edges += [(last, "ended")] if not draw(one_in(6)) else []
    if draw(one_in(3)):
        edges.append((draw(of_pool(scene)), draw(st.sampled_from(["started", "ended"]))))
    told = []
    for second, edge in edges:
        cards = st.lists(st.integers(0, 5), min_size=1, max_size=3)
        data: Json = {"incident": name, "cards": draw(st.one_of(st.none(), st.none(), cards))}
        if kind == "failure":
            data["xid"] = draw(st.sampled_from([None, None, 31, 48, 79, 63, 500]))
            data["fault"] = draw(st.sampled_from([None, None, None, None, "user", "platform"]))
        told.append(Told(second, f"{kind}.{edge}", without_nothing(data)))
    return told


@st.composite
def judgements(draw: st.DrawFn, scene: Scene) -> Told:
    data = {"incident": draw(st.sampled_from(["x", "y"])), "class": draw(st.sampled_from(CLASSES))}
    data |= {"fault": draw(st.sampled_from(["user", "platform"])), "by": "ops", "why": "looked at it"}
    return Told(draw(of_pool(scene)), "incident.judged", data)


@st.composite
def instance_facts(draw: st.DrawFn, scene: Scene) -> list[Told]:
    """All that one instance tells; its terms vary little, so that starts are told again with the same."""
    account, region = draw(st.sampled_from([ACCOUNTS[0], ACCOUNTS[0], *ACCOUNTS])), draw(st.sampled_from(REGIONS))
    usual = draw(starts(account, region))
    told: list[Told] = []
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        told += draw(session_facts(scene, usual if draw(st.booleans()) else draw(starts(account, region))))
    for _ in range(draw(st.sampled_from([0, 1, 1, 2, 3]))):
        told += draw(incident_facts(scene))
    if draw(one_in(6)):
        told.append(draw(judgements(scene)))
    return told


@st.composite
def events(
    draw: st.DrawFn,
    scene: Scene = SCENE,
    *,
    conflicts: bool = True,
    resolutions: bool = False,
    broken: bool = True,
    retractions: bool = True,
) -> list[Event]:
    """Events in order of arrival, which is not that of time: some twice, some broken, some at odds with another."""
    found: list[Json] = []
    for number in range(draw(st.sampled_from([1, 1, 2, 3]))):
        for told in draw(instance_facts(scene)):
            found.append(envelope(draw, scene, told, f"i-{number}", len(found)))
    identified = [e for e in found if e["type"] != "instance.heartbeat"]
    if retractions and identified and draw(one_in(5)):
        meant = draw(st.sampled_from(identified))
        told = decision(draw, scene, "event.retracted", meant)
        found.append(envelope(draw, scene, told, meant["subject"], len(found)))
    others: list[Json] = []
    if conflicts and identified and draw(one_in(5)):
        others = [draw(conflicting(scene, draw(st.sampled_from(identified))))]
    if others and resolutions and draw(st.booleans()):
        told = decision(draw, scene, "conflict.resolved", others[0])
        told.data["body"] = {name: others[0][name] for name in ("type", "subject", "time", "data")}
        found.append(envelope(draw, scene, told, others[0]["subject"], len(found)))
    arrived = draw(st.one_of(st.just(found), st.permutations(found)))
    again = draw(st.lists(st.sampled_from(found), max_size=2)) if found else []
    result: list[Event] = [*arrived, *again, *others]
    return result + draw(broken_events(scene)) if broken else result


def envelope(draw: st.DrawFn, scene: Scene, told: Told, instance: str, number: int) -> Json:
    """The event of a fact; its time may be written in another zone or with a fraction of a second."""
    when = scene.text(told.second, draw(ZONES) or scene.zone)
    if when.endswith("Z") and draw(one_in(8)):
        when = when[:-1] + ".75Z"
    source = draw(SOURCES)
    head = {"specversion": "1.0", "id": f"e{number}", "source": source, "type": told.type}
    return {**head, "subject": instance, "time": when, "data": told.data}


def decision(draw: st.DrawFn, scene: Scene, kind: str, meant: Json) -> Told:
    data = {"source": meant["source"], "id": meant["id"], "by": "ops", "why": "looked at it"}
    return Told(draw(of_pool(scene)), kind, data)


@st.composite
def conflicting(draw: st.DrawFn, scene: Scene, event: Json) -> Json:
    """The same identity with another body."""
    if draw(st.booleans()):
        return {**event, "data": {**event["data"], "reason": "told otherwise"}}
    return {**event, "time": scene.text(draw(of_pool(scene)) + 7, "UTC")}


@st.composite
def broken_events(draw: st.DrawFn, scene: Scene) -> list[Event]:
    whole: Json = {"specversion": "1.0", "id": "b1", "source": "/broken", "type": "instance.stopped", "subject": "i-0"}
    whole |= {"time": scene.text(scene.pool[-1]), "data": {}}
    incident = {"incident": "x", "cards": []}
    choices: list[Event] = [
        "{not json",
        b"\xff\xfe",
        {**whole, "type": "instance.exploded"},
        {**whole, "time": "2026-03-01T00:00:00"},
        {**whole, "time": "1999-12-31T23:59:59Z"},
        {**whole, "type": "instance.resized", "data": {"reason": "none"}},
        {**whole, "type": "instance.started", "data": {"account": "acct-1", "sku": "gpu.a", "cards": -1}},
        {**whole, "type": "failure.started", "data": incident},
        {**whole, "type": "failure.started", "data": {"incident": "x", "fault": "nobody"}},
    ]
    if not draw(one_in(5)):
        return []
    return draw(st.lists(st.sampled_from(choices), max_size=2))


# --- all together ----------------------------------------------------------------------------------------------------


@cache
def instants(scene: Scene) -> st.SearchStrategy[datetime]:
    """An instant to look at, in the pool, near it or anywhere."""
    second = st.one_of(of_pool(scene), seconds(scene.pool[-1] + 400))
    return second.map(lambda s: scene.t0 + timedelta(seconds=s))


@st.composite
def streams(
    draw: st.DrawFn,
    *,
    conflicts: bool = True,
    resolutions: bool = False,
    broken: bool = True,
    retractions: bool = True,
    longest: int = 33 * DAY,
) -> Stream:
    """Events in order of arrival, a price book, a contract or none, and an instant or none."""
    scene = draw(scenes(longest))
    told = draw(
        events(scene, conflicts=conflicts, resolutions=resolutions, broken=broken, retractions=retractions),
    )
    contract = draw(contracts(scene)) if not draw(one_in(6)) else None
    return told, draw(books(scene)), contract, draw(st.one_of(st.none(), instants(scene)))
