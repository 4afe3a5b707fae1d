"""The second bookkeeper: a bill worked out in the dumbest way, to be compared with the engine's.

It walks through every second of every instance, asks of each card from the full list of facts which class, plan and
price it has, counts, and does the money straight from the rules in exact fractions. It shares no code with the engine.
Stretches of seconds in which nothing can change are stepped over at once; `every_second=True` forbids even that.

Time is whole seconds since 1970 in UTC, intervals are half-open.
"""

import calendar
import fnmatch
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

Json = dict[str, Any]
Event = Json | str | bytes

CLASSES = ("billable", "failure", "migration", "maintenance", "idle", "unknown")
PRECEDENCE = ("failure", "migration", "maintenance", "unknown", "idle")  # R6
DOWN = ("failure", "migration", "maintenance", "unknown")  # a lent card is not down under gang scope
EXCLUSIONS = ("failure", "migration", "maintenance", "idle")
DECISIONS = ("event.retracted", "conflict.resolved", "incident.judged")
KNOWN_TYPES = frozenset(
    ["instance.started", "instance.resized", "instance.stopped", "instance.heartbeat", *DECISIONS]
    + [f"{kind}.{edge}" for kind in EXCLUSIONS for edge in ("started", "ended")]
)
XIDS: Json = {
    "user": [13, 31, 43, 45, 106, 107],
    "platform": [48, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143, 154],
    "no_outage": [63],
}
MINOR_UNITS = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3}
EARLIEST = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp())
LATEST = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
EVER = 10**12
LATER = 10**9  # the window of what comes back of an earlier month's pack: no credit has paid it
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def rate(
    events: list[Event],
    book: Json,
    contract: Json | None,
    as_of: datetime | None = None,
    *,
    every_second: bool = False,
) -> Json:
    """The object that `gpu-billing rate` prints: bills, rejects, duplicates, anomalies."""
    door = Door()
    for event in events:
        door.receive(event)
    instant = last_second(door) if as_of is None else math.floor(as_of.timestamp())
    notes = Notes(list(door.rejects), [])
    facts = [f for f in standing_facts(door, instant, notes) if f.second <= instant]
    terms = Terms(book, contract)
    counts = Counts()
    for instance in sorted({f.instance for f in facts if f.type not in DECISIONS}):
        own = [f for f in facts if f.instance == instance]
        later_beats = [f for f in door.beats if f.instance == instance and f.second > instant]
        Walker(instance, own, later_beats, instant, terms, counts, notes).walk(every_second)
    bills = [
        bill for account in sorted(counts.accounts()) for bill in AccountBooks(account, terms, counts, instant).bills()
    ]
    return {"bills": bills, "rejects": notes.rejects, "duplicates": door.duplicates, "anomalies": notes.anomalies}


# --- small arithmetic ------------------------------------------------------------------------------------------------


def exact(value: object) -> Fraction:
    """An exact number from a decimal or fraction string or an integer; a float is refused (R11)."""
    if isinstance(value, str | int | Decimal | Fraction) and not isinstance(value, bool):
        return Fraction(value)
    raise TypeError(f"not an exact number: {value!r}")


def half_up(value: Fraction, places: int) -> Fraction:
    """Rounded to so many decimals, halves away from zero (R16)."""
    scaled = abs(value) * 10**places
    rounded = Fraction(math.floor(scaled + Fraction(1, 2)), 10**places)
    return rounded if value >= 0 else -rounded


def money(value: Fraction, places: int) -> str:
    """An amount of whole minor units as text."""
    minor = value * 10**places
    assert minor.denominator == 1, value
    digits = str(abs(minor.numerator)).rjust(places + 1, "0")
    sign = "-" if minor < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def largest_remainder(total: Fraction, weights: list[Fraction], places: int) -> list[Fraction]:
    """A rounded total split in proportion to weights; the rest goes to the largest remainders, then to earlier ones."""
    minor = abs(total) * 10**places
    assert minor.denominator == 1, total
    weight = sum((abs(w) for w in weights), Fraction(0))
    if not weight:
        return [total if i == 0 else Fraction(0) for i in range(len(weights))]
    shares = [minor * abs(w) / weight for w in weights]
    parts = [math.floor(s) for s in shares]
    order = sorted(range(len(shares)), key=lambda i: (parts[i] - shares[i], i))
    for i in order[: int(minor) - sum(parts)]:
        parts[i] += 1
    sign = -1 if total < 0 else 1
    return [Fraction(sign * p, 10**places) for p in parts]


def second_of(value: str | datetime) -> int:
    """The first whole second not before an instant of the terms."""
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    if instant.tzinfo is None:
        raise ValueError(f"an instant without a time zone: {value!r}")
    return math.floor(instant.timestamp()) + (1 if instant.microsecond else 0)


@cache
def local(second: int, zone: str) -> datetime:
    return datetime.fromtimestamp(second, ZoneInfo(zone))


@cache
def midnight(day: date, zone: str) -> int:
    """The first second of a billing day."""
    return math.ceil(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).timestamp())


def month_of(day: date) -> str:
    return f"{day.year:04d}-{day.month:02d}"


def month_bounds(month: str, zone: str) -> tuple[int, int]:
    year, number = (int(part) for part in month.split("-"))
    after = date(year + number // 12, number % 12 + 1, 1)
    return midnight(date(year, number, 1), zone), midnight(after, zone)


def anniversary(anchor: int, months: int, zone: str) -> int:
    """The anchor's day and time of day so many months later, the day clamped to the month (R12)."""
    first = local(anchor, zone)
    year, month = first.year + (first.month - 1 + months) // 12, (first.month - 1 + months) % 12 + 1
    day = min(first.day, calendar.monthrange(year, month)[1])
    return math.floor(first.replace(year=year, month=month, day=day, fold=0).timestamp())


# --- the door --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fact:
    second: int
    source: str
    id: str
    type: str
    instance: str
    data: Json

    @property
    def order(self) -> tuple[int, str, str]:
        return (self.second, self.source, self.id)

    @property
    def session(self) -> str | None:
        return self.data.get("session")


class Malformed(Exception):
    """What cannot be read."""


def json_value(value: object) -> object:
    """A value that is equal exactly where two JSON values are."""
    if isinstance(value, dict):
        return ("object", frozenset((k, json_value(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(json_value(v) for v in value))
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type(value).__name__, value)
    return ("number", Decimal(str(value)))


@dataclass
class Door:
    """Accepts, recognises a duplicate, or rejects with a reason; once and for ever (R25, R26)."""

    bodies: dict[tuple[str, str], list[tuple[object, Fact]]] = field(default_factory=dict)  # accepted one first
    beats: list[Fact] = field(default_factory=list)
    rejects: list[Json] = field(default_factory=list)
    duplicates: int = 0
    refused: set[object] = field(default_factory=set)

    def receive(self, event: Event) -> None:
        raw = read(event)
        name = raw.get("id") if isinstance(raw, dict) and isinstance(raw.get("id"), str) else None
        try:
            fact, body = understand(raw)
        except Malformed as problem:
            self.refuse(("malformed", json_value(raw)), name, "malformed", str(problem))
            return
        if fact.type not in KNOWN_TYPES:
            self.refuse(("unknown_type", json_value(raw)), name, "unknown_type", fact.type)
        elif fact.type == "instance.heartbeat":
            self.beats.append(fact)
        else:
            self.identify(fact, body)

    def identify(self, fact: Fact, body: object) -> None:
        known = self.bodies.setdefault((fact.source, fact.id), [])
        if not known:
            known.append((body, fact))
        elif known[0][0] == body:
            self.duplicates += 1
        else:
            if all(body != other for other, _ in known):
                known.append((body, fact))
            self.refuse(("conflict", fact.source, fact.id, body), fact.id, "conflict", "same identity, other body")

    def refuse(self, key: object, name: str | None, reason: str, detail: str) -> None:
        if key not in self.refused:
            self.refused.add(key)
            self.rejects.append({"id": name, "reason": reason, "detail": detail})


def read(event: Event) -> object:
    """The JSON value of an event, or its raw text where it has none."""
    if isinstance(event, dict):
        return event
    try:
        text = event.decode("utf-8") if isinstance(event, bytes) else event
        return json.loads(text, parse_float=Decimal, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return event.decode("utf-8", "replace") if isinstance(event, bytes) else event


def no_constant(name: str) -> object:
    raise ValueError(name)


def understand(raw: object) -> tuple[Fact, object]:
    """The fact an event tells and the body it is compared by."""
    check(isinstance(raw, dict), "not an object")
    assert isinstance(raw, dict)
    check(raw.get("specversion") == "1.0", "specversion")
    for name in ("id", "source", "type", "subject"):
        check(text(raw.get(name)), name)
    when, data = raw.get("time"), raw.get("data", {})
    check(isinstance(when, str) and INSTANT.fullmatch(when) is not None, "time")
    try:
        second = math.floor(datetime.fromisoformat(str(when).upper()).timestamp())
    except ValueError:
        raise Malformed("time") from None
    check(EARLIEST <= second < LATEST, "time")
    check(isinstance(data, dict), "data")
    if raw["type"] in KNOWN_TYPES:
        check_data(raw["type"], data)
    body = json_value([raw["type"], raw["subject"], when, data])
    return Fact(second, raw["source"], raw["id"], raw["type"], raw["subject"], data), body


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Malformed(what)


def text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_data(kind: str, data: Json) -> None:
    family, edge = kind.split(".")
    if kind in DECISIONS:
        check_decision(kind, data)
    elif family == "instance":
        needed = {"started": ["account", "sku", "cards"]}.get(edge, [])
        check(all(data.get(name) is not None for name in needed), "a field is missing")
        if edge == "resized":
            check(any(data.get(name) is not None for name in ("cards", "sku", "plan")), "nothing is resized")
        check_terms(data)
    else:
        check_incident(family, data)


def check_terms(data: Json) -> None:
    for name in ("account", "sku", "plan", "project", "region", "session"):
        check(data.get(name) is None or text(data[name]), name)
    cards = data.get("cards")
    check(cards is None or (whole(cards) and 0 <= cards <= 100_000), "cards")


def check_incident(family: str, data: Json) -> None:
    check(text(data.get("incident")), "incident")
    cards = data.get("cards")
    if cards is not None:
        check(isinstance(cards, list) and cards != [] and all(whole(c) and c >= 0 for c in cards), "cards")
    if family == "failure":
        check(data.get("xid") is None or whole(data["xid"]), "xid")
        check(data.get("fault") in (None, "platform", "user"), "fault")


def check_decision(kind: str, data: Json) -> None:
    needed = ["incident", "class", "fault"] if kind == "incident.judged" else ["source", "id"]
    check(all(text(data.get(name)) for name in [*needed, "by", "why"]), "a field is missing")
    if kind == "incident.judged":
        check(data["class"] in EXCLUSIONS and data["fault"] in ("platform", "user"), "class or fault")
    if kind == "conflict.resolved":
        check(whole(data.get("body")) or isinstance(data.get("body"), dict), "body")


# --- which facts stand -----------------------------------------------------------------------------------------------


@dataclass
class Notes:
    rejects: list[Json]
    anomalies: list[Json]

    def reject(self, fact: Fact, reason: str) -> None:
        self.rejects.append({"id": fact.id, "reason": reason, "detail": f"{fact.instance} at {fact.second}"})

    def anomaly(self, kind: str, instance: str, **more: object) -> None:
        self.anomalies.append({"kind": kind, "instance": instance, **more})


def last_second(door: Door) -> int:
    seconds = [known[0][1].second for known in door.bodies.values()] + [b.second for b in door.beats]
    return max(seconds, default=EARLIEST)


def standing_facts(door: Door, instant: int, notes: Notes) -> list[Fact]:
    """Every fact that stands after the decisions known at the instant, heartbeats included."""
    first = [known[0][1] for known in door.bodies.values()]
    withdrawn = retracted(first, instant)
    standing: dict[tuple[str, str], Fact] = {(f.source, f.id): f for f in first}
    for decision in sorted((f for f in first if f.type == "conflict.resolved"), key=lambda f: f.order):
        meant = (decision.data["source"], decision.data["id"])
        if decision.second > instant or (decision.source, decision.id) in withdrawn:
            continue
        chosen = body_meant(door.bodies.get(meant, []), decision.data["body"])
        if chosen is None:
            notes.anomaly("resolved_unknown", decision.instance, id=decision.id)
        else:
            standing[meant] = chosen
    withdrawn = retracted(standing.values(), instant)
    for decision in standing.values():
        if decision.type == "event.retracted" and (decision.data["source"], decision.data["id"]) not in standing:
            notes.anomaly("retracted_unknown", decision.instance, id=decision.id)
    return [f for identity, f in standing.items() if identity not in withdrawn] + door.beats


def body_meant(known: list[tuple[object, Fact]], meant: object) -> Fact | None:
    """The body told in full (type, subject, time, data), or by its number in order of arrival."""
    if isinstance(meant, dict):
        wanted = json_value([meant.get(name) for name in ("type", "subject", "time", "data")])
        return next((fact for body, fact in known if body == wanted), None)
    assert isinstance(meant, int)
    return known[meant][1] if 0 <= meant < len(known) else None


def retracted(facts: Iterable[Fact], instant: int) -> set[tuple[str, str]]:
    """Identities withdrawn; a decision withdrawn by a later one withdraws nothing."""
    gone: set[tuple[str, str]] = set()
    decisions = [f for f in facts if f.type == "event.retracted" and f.second <= instant]
    for decision in sorted(decisions, key=lambda f: f.order, reverse=True):
        if (decision.source, decision.id) not in gone:
            gone.add((decision.data["source"], decision.data["id"]))
    return gone


# --- the terms -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Credit:
    id: str
    amount: Fraction
    begins: int
    expires: int
    skus: tuple[str, ...] | None

    def covers(self, sku: str) -> bool:
        return self.skus is None or any(fnmatch.fnmatchcase(sku, pattern) for pattern in self.skus)

    @property
    def width(self) -> tuple[int, int]:
        """Narrower first: exact names (fewer first), patterns (longer first), everything."""
        if self.skus is None or "*" in self.skus:
            return (2, 0)
        patterns = [s for s in self.skus if any(c in s for c in "*?[")]
        return (1, -min(len(p) for p in patterns)) if patterns else (0, len(self.skus))


class Terms:
    """The price book and one account's contract."""

    def __init__(self, book: Json, contract: Json | None) -> None:
        self.book = book
        self.contract = contract or {}
        self.account: str | None = self.contract.get("account")
        self.currency: str = book["currency"]
        self.places = MINOR_UNITS.get(self.currency, 2)
        self.timeout = int(book.get("heartbeat_timeout_s", 180))
        self.xids: Json = book.get("xids", XIDS)
        self.plans: dict[str, Json] = {name: plan or {} for name, plan in book["plans"].items()}
        self.credits = [credit_of(c) for c in self.contract.get("credits") or []]
        self.rows = [(second_of(row["from"]) if "from" in row else 0, row) for row in book["prices"]]
        self.edges = sorted({s for c in self.credits for s in (c.begins, c.expires)})

    def zone(self, account: str) -> str:
        default = self.book.get("time_zone", "Asia/Shanghai")
        return str(self.of(account).get("time_zone", default))

    def of(self, account: str) -> Json:
        """The contract of an account; without one it has no terms of its own."""
        return self.contract if account == self.account else {}

    def day(self, account: str, second: int) -> date:
        return local(second, self.zone(account)).date()

    def month(self, account: str, second: int) -> str:
        return month_of(self.day(account, second))

    def window(self, account: str, second: int) -> int:
        """How many credits' edges lie at or before a second: the number of its window."""
        return sum(edge <= second for edge in self.edges) if account == self.account else 0

    def price(self, sku: str, plan: str, region: str | None, second: int) -> Fraction | None:
        """Per card-hour, or per card and pack for a pack: a row with the region first, then the latest (R11)."""
        if plan not in self.plans:
            return None
        unit = "per_card_pack" if "pack" in self.plans[plan] else "per_card_hour"
        best: tuple[tuple[bool, int, int], Fraction] | None = None
        for number, (begins, row) in enumerate(self.rows):
            if (row["sku"], row["plan"]) != (sku, plan) or unit not in row or begins > second:
                continue
            if row.get("region") not in (None, region):
                continue
            rank = (row.get("region") is not None, begins, number)
            if best is None or rank > best[0]:
                best = (rank, exact(row[unit]))
        return None if best is None else best[1]

    def is_pack(self, plan: str) -> bool:
        return "pack" in self.plans[plan]

    def renews(self, plan: str) -> bool:
        return bool(self.plans[plan].get("renew", True))

    def fallback(self, plan: str) -> str:
        return str(self.plans[plan].get("falls_back_to", "on_demand"))

    def has_price(self, rented: "Rented", second: int) -> bool:
        if self.price(rented.sku, rented.plan, rented.region, second) is None:
            return False
        if not self.is_pack(rented.plan) or self.renews(rented.plan):
            return True
        return self.price(rented.sku, self.fallback(rented.plan), rented.region, second) is not None

    def tax(self, sku: str, plan: str) -> tuple[Fraction, bool]:
        """Rate and whether prices include it: the plan's wins, then the SKU's, then the book's (R18)."""
        of_sku = (self.book.get("skus", {}).get(sku) or {}).get("tax")
        tax = self.plans[plan].get("tax") or of_sku or self.book.get("tax") or {"rate": "0.06"}
        return exact(tax["rate"]), bool(tax.get("included", True))

    def price_changes(self) -> list[int]:
        return [begins for begins, _ in self.rows]


def credit_of(row: Json) -> Credit:
    begins = second_of(row["from"]) if row.get("from") else 0
    expires = second_of(row["expires"]) if row.get("expires") else EVER
    skus = tuple(row["skus"]) if row.get("skus") else None
    return Credit(row["id"], exact(row["amount"]), begins, expires, skus)


# --- what runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rented:
    """The terms of a session."""

    account: str
    project: str | None
    region: str | None
    sku: str
    cards: int
    plan: str


def rented_of(data: Json) -> Rented:
    plan = data.get("plan") or "on_demand"
    return Rented(data["account"], data.get("project"), data.get("region"), data["sku"], data["cards"], plan)


@dataclass(eq=False)
class Rental:
    """Sessions that overlap: one rounding, one minimum, one rental."""

    instance: str
    start: int
    end: int | None = None
    known_until: int = 0  # its end, or how far it is allocated so far


@dataclass(eq=False)
class Session:
    name: str | None
    start: int
    opened: Rented
    now: Rented
    rental: Rental
    end: int | None = None
    watched_from: int | None = None


@dataclass(frozen=True, eq=False)
class State:
    """What runs from a second on, until the next state."""

    second: int
    running: tuple[Session, ...]
    rented: Rented | None
    rental: Rental | None


class Timeline:
    """Sessions of one instance from its facts, in order (R3, R4 and their settled questions)."""

    def __init__(self, instance: str, facts: list[Fact], terms: Terms, notes: Notes) -> None:
        self.instance, self.terms, self.notes = instance, terms, notes
        self.facts = sorted((f for f in facts if f.type.startswith("instance.")), key=lambda f: f.order)
        self.running: list[Session] = []
        self.sessions: list[Session] = []
        self.rentals: list[Rental] = []
        self.states: list[State] = []
        self.had_session = False
        self.quarantined: set[tuple[str, str]] = set()
        self.beats_priceless = 0
        self.beats_lost: set[int] = set()
        for second in sorted({f.second for f in self.facts}):
            self.live_through(second)
        self.note_heartbeats()

    def live_through(self, second: int) -> None:
        """Stops of what runs, starts, stops of those starts, resizes."""
        now = [f for f in self.facts if f.second == second]
        of_type = {kind: [f for f in now if f.type == f"instance.{kind}"] for kind in ("started", "stopped", "resized")}
        beats = [f for f in now if f.type == "instance.heartbeat"]
        waiting = [stop for stop in of_type["stopped"] if not self.stop(stop)]
        for start in of_type["started"]:
            self.start(start)
        for beat in beats:
            self.open_by_heartbeat(beat)
        for stop in waiting:
            if not self.stop(stop):
                self.stop_unexplained(stop)
        for resize in of_type["resized"]:
            self.resize(resize)
        self.watch(beats)
        speaker = self.running[0] if self.running else None
        rented, rental = (speaker.now, speaker.rental) if speaker else (None, None)
        self.states.append(State(second, tuple(self.running), rented, rental))

    def named(self, name: str | None) -> Session | None:
        return next((s for s in self.running if s.name == name), None)

    def open(self, fact: Fact, rented: Rented) -> None:
        if not self.running:
            self.rentals.append(Rental(self.instance, fact.second))
        session = Session(fact.session, fact.second, rented, rented, self.rentals[-1])
        self.running.append(session)
        self.sessions.append(session)
        self.had_session = True

    def end(self, session: Session, second: int) -> None:
        session.end = second
        self.running.remove(session)
        if not self.running:
            session.rental.end = second

    def stop(self, fact: Fact) -> bool:
        session = self.named(fact.session)
        if session is not None:
            self.end(session, fact.second)
        return session is not None

    def stop_unexplained(self, fact: Fact) -> None:
        """A stop before its own start quarantines both; any other is an anomaly."""
        name = fact.session
        starts = [f for f in self.facts if f.type == "instance.started" and f.session == name]
        explained = any(f.second <= fact.second for f in starts) or any(s.name == name for s in self.sessions)
        if name is None or explained or not starts:
            self.notes.anomaly("stop_without_session", self.instance, id=fact.id)
        else:
            self.notes.reject(fact, "negative_session")
            self.quarantined.add((starts[0].source, starts[0].id))

    def start(self, fact: Fact) -> None:
        if (fact.source, fact.id) in self.quarantined:
            self.had_session = True
            return
        rented, same_name = rented_of(fact.data), self.named(fact.session)
        if same_name is not None and rented in (same_name.now, same_name.opened):
            self.notes.anomaly("second_start", self.instance, id=fact.id)
        elif not self.terms.has_price(rented, fact.second):
            self.notes.reject(fact, "no_price")
        else:
            if same_name is not None:
                self.end(same_name, fact.second)
                self.notes.anomaly("stop_missing", self.instance, id=fact.id)
            self.open(fact, rented)

    def open_by_heartbeat(self, fact: Fact) -> None:
        """Only an instance that never had a session is opened by a full description (R9)."""
        if self.had_session or any(fact.data.get(name) is None for name in ("account", "sku", "cards")):
            return
        rented = rented_of(fact.data)
        if self.terms.has_price(rented, fact.second):
            self.open(fact, rented)
        else:
            self.beats_priceless += 1
            if self.beats_priceless == 1:
                self.notes.reject(fact, "no_price")

    def resize(self, fact: Fact) -> None:
        session = self.named(fact.session)
        if session is None:
            self.notes.anomaly("resize_without_session", self.instance, id=fact.id)
            return
        old, new = session.now, fact.data
        cards = old.cards if new.get("cards") is None else new["cards"]
        sku, plan = new.get("sku") or old.sku, new.get("plan") or old.plan
        rented = Rented(old.account, old.project, old.region, sku, cards, plan)
        if self.terms.has_price(rented, fact.second):
            session.now = rented
        else:
            self.notes.reject(fact, "no_price")

    def watch(self, beats: list[Fact]) -> None:
        for beat in beats:
            session = self.named(beat.session)
            if session is None:
                self.beats_lost.add(beat.second)
            elif session.watched_from is None:
                session.watched_from = beat.second

    def note_heartbeats(self) -> None:
        if self.beats_lost:
            first, last = min(self.beats_lost), max(self.beats_lost)
            count = len(self.beats_lost)
            self.notes.anomaly("heartbeat_without_session", self.instance, first=first, last=last, count=count)

    def at(self, second: int) -> State:
        states = [s for s in self.states if s.second <= second]
        return states[-1] if states else State(second, (), None, None)

    def cards_at(self, second: int) -> int | None:
        rented = self.at(second).rented
        return None if rented is None else rented.cards


# --- what is proven --------------------------------------------------------------------------------------------------


def proofs(facts: list[Fact], later_beats: list[Fact], instant: int, timeout: int) -> list[int]:
    """Seconds that prove life: facts of the instance, and the instant itself inside a run of heartbeats (R9)."""
    seconds = {f.second for f in facts if f.type not in DECISIONS}
    beats = [f for f in facts if f.type == "instance.heartbeat"]
    for name in {b.session for b in later_beats}:
        before = [b.second for b in beats if b.session == name]
        after = min(b.second for b in later_beats if b.session == name)
        if before and after - max(before) <= timeout:
            seconds.add(instant)
    return sorted(seconds)


def watched(session: Session, second: int) -> bool:
    return session.watched_from is not None and session.watched_from <= second


def allocated_until(timeline: Timeline, proven: list[int], instant: int) -> int:
    """Time of an instance that is only watched ends at its latest proof; any other is trusted."""
    running = timeline.at(instant).running
    if running and all(watched(s, instant) for s in running):
        return proven[-1]
    return instant


def is_unknown(state: State, proven: list[int], second: int, timeout: int) -> bool:
    """In a silence longer than the time-out, all that runs being watched."""
    if not all(watched(s, second) for s in state.running):
        return False
    before = max((p for p in proven if p <= second), default=None)
    after = min((p for p in proven if p > second), default=None)
    return before is not None and after is not None and after - before > timeout


# --- what is excluded ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hit:
    """The cards an incident hits from a second on: those named, or all but those named."""

    second: int
    everything: bool
    named: frozenset[int]

    def has(self, card: int) -> bool:
        return (card in self.named) != self.everything


class Incident:
    """One name within a class of one instance, for ever."""

    def __init__(self, kind: str, name: str, facts: list[Fact], timeline: Timeline, notes: Notes) -> None:
        self.kind, self.name, self.notes, self.timeline = kind, name, notes, timeline
        mine = [f for f in facts if f.data.get("incident") == name]
        edges = [f for f in mine if f.type in (f"{kind}.started", f"{kind}.ended")]
        self.edges = sorted(edges, key=lambda f: (f.second, f.type.endswith(".ended"), f.source, f.id))
        self.judged = [f for f in mine if f.type == "incident.judged" and f.data["class"] == kind]
        self.hits: list[Hit] = []
        for edge in self.edges:
            self.follow(edge)
        self.excluded = self.is_excluded(timeline.terms.xids)
        if self.hits[-1].everything or self.hits[-1].named:
            notes.anomaly("open_incident", timeline.instance, incident=name, **{"class": kind})

    def follow(self, edge: Fact) -> None:
        now = self.hits[-1] if self.hits else Hit(0, False, frozenset())
        starts = edge.type.endswith(".started")
        if not starts and not now.everything and not now.named:
            self.notes.anomaly("end_without_start", self.timeline.instance, id=edge.id)
        if edge.data.get("cards") is None:
            self.hits.append(Hit(edge.second, starts, frozenset()))
            return
        cards = self.cards_that_exist(edge)
        named = now.named | cards if starts != now.everything else now.named - cards
        self.hits.append(Hit(edge.second, now.everything, named))

    def cards_that_exist(self, edge: Fact) -> frozenset[int]:
        cards, held = frozenset(edge.data["cards"]), self.timeline.cards_at(edge.second)
        if held is None or max(cards) < held:
            return cards
        self.notes.anomaly("unknown_card", self.timeline.instance, id=edge.id)
        return frozenset(c for c in cards if c < held)

    def is_excluded(self, table: Json) -> bool:
        """A person's word, then the latest fault said, then the first XID (R7)."""
        if self.judged:
            return bool(max(self.judged, key=lambda f: f.order).data["fault"] == "platform")
        if self.kind != "failure":
            return True
        faults = [f for f in self.edges if f.data.get("fault") is not None]
        if faults:
            return bool(max(faults, key=lambda f: f.order).data["fault"] == "platform")
        return self.is_excluded_by_xid(table)

    def is_excluded_by_xid(self, table: Json) -> bool:
        said = [f.data["xid"] for f in self.edges if f.data.get("xid") is not None]
        outages = [x for x in said if x not in table.get("no_outage", [])]
        if said and not outages:
            return False
        if outages and outages[0] not in [*table.get("user", []), *table.get("platform", [])]:
            self.notes.anomaly("unlisted_xid", self.timeline.instance, incident=self.name, xid=outages[0])
        return not outages or outages[0] not in table.get("user", [])

    def hits_card(self, card: int, second: int) -> bool:
        past = [h for h in self.hits if h.second <= second]
        return self.excluded and bool(past) and past[-1].has(card)


def incidents_of(facts: list[Fact], timeline: Timeline, notes: Notes) -> list[Incident]:
    edges = [f for f in facts if f.type.split(".")[0] in EXCLUSIONS]
    names = sorted({(f.type.split(".")[0], f.data["incident"]) for f in edges})
    for fact in facts:
        if fact.type == "incident.judged" and (fact.data["class"], fact.data["incident"]) not in names:
            notes.anomaly("judged_unknown", fact.instance, id=fact.id)
    return [Incident(kind, name, facts, timeline, notes) for kind, name in names]


# --- the walk --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Pack:
    """One card's pack: charged at its start, covering to its end (R12)."""

    instance: str
    rented: Rented
    price: Fraction
    start: int
    end: int
    anchor: int
    number: int  # from 1 at the anchor
    stopped: int | None = None
    excluded: Counter[str] = field(default_factory=Counter)  # seconds, by month


@dataclass(frozen=True)
class Slot:
    """What on-demand seconds are counted under."""

    account: str
    month: str
    day: date
    window: int
    instance: str
    rental: Rental
    sku: str
    plan: str
    region: str | None
    price: Fraction
    padding: bool


@dataclass
class Counts:
    """All that the walk leaves behind: whole seconds and packs, no money."""

    classes: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # account, month, class
    usage: Counter[Slot] = field(default_factory=Counter)
    card_seconds: Counter[tuple[str, str, date]] = field(default_factory=Counter)  # account, instance, day
    seconds: Counter[tuple[str, str, date]] = field(default_factory=Counter)  # likewise, with at least one card
    packs: list[Pack] = field(default_factory=list)
    rentals: list[Rental] = field(default_factory=list)

    def accounts(self) -> set[str]:
        return (
            {account for account, _, _ in self.classes}
            | {slot.account for slot in self.usage}
            | {pack.rented.account for pack in self.packs}
        )


class Walker:
    """Walks through the seconds of one instance."""

    def __init__(
        self,
        instance: str,
        facts: list[Fact],
        later_beats: list[Fact],
        instant: int,
        terms: Terms,
        counts: Counts,
        notes: Notes,
    ) -> None:
        self.instance, self.facts, self.terms, self.counts = instance, facts, terms, counts
        self.timeline = Timeline(instance, facts, terms, notes)
        self.incidents = incidents_of(facts, self.timeline, notes)
        self.proven = proofs(facts, later_beats, instant, terms.timeout)
        self.until = allocated_until(self.timeline, self.proven, instant)
        self.packs: dict[int, Pack] = {}  # by card, those that run
        self.fallen: set[int] = set()  # cards whose pack did not renew
        self.last: State | None = None  # of the second before
        self.last_second = 0
        self.covered_at_last_second: set[int] = set()
        self.billable: Counter[int] = Counter()  # by card, of the rental, not under a pack

    def walk(self, every_second: bool) -> None:
        begin = min((s.start for s in self.timeline.sessions), default=self.until)
        boundaries = sorted(b for b in self.boundaries(begin) if begin <= b < self.until)
        second = begin
        while second < self.until:
            after = min([b for b in boundaries if b > second] + [self.until])
            self.change(self.timeline.at(second), second)
            after = min([after, *(pack.end for pack in self.cover(second))])
            after = second + 1 if every_second else after
            self.count(second, after)
            second = after
        self.change(self.timeline.at(self.until), self.until)
        for rental in self.timeline.rentals:
            rental.known_until = self.until if rental.end is None else rental.end
        self.counts.rentals += self.timeline.rentals

    def boundaries(self, begin: int) -> set[int]:
        """Every second at which anything but a pack can change."""
        found = {begin, *(f.second for f in self.facts), *self.proven}
        found |= {*self.terms.price_changes(), *self.terms.edges}
        for account in {s.opened.account for s in self.timeline.sessions}:
            zone = self.terms.zone(account)
            first, last = local(begin, zone).date(), local(self.until, zone).date()
            found |= {midnight(date.fromordinal(n), zone) for n in range(first.toordinal(), last.toordinal() + 1)}
        return found

    # What ends at a second, before anything new begins there

    def change(self, state: State, second: int) -> None:
        """Ends packs and the rental where they end, at the state that holds from this second on."""
        old = self.last
        if old is not None and old.rental is not state.rental:
            self.stop_packs(lambda _: True, second)
            self.pad()
            self.billable.clear()
        elif old is not None and state.rented is not None:
            assert old.rented is not None
            moved = pack_terms(old.rented) != pack_terms(state.rented)
            cards = state.rented.cards
            self.stop_packs(lambda card: moved or card >= cards, second)
        self.last = state if state.rental is not None else None

    def stop_packs(self, leaves: Callable[[int], bool], second: int) -> None:
        for card in [c for c in self.packs if leaves(c)]:
            self.packs.pop(card).stopped = second
        self.fallen = {c for c in self.fallen if not leaves(c)}

    def pad(self) -> None:
        """Rounds up each card's billable seconds by the plan and price of the rental's last second (R10)."""
        assert self.last is not None
        rented, rental, second = self.last.rented, self.last.rental, self.last_second
        assert rented is not None
        assert rental is not None
        if rental.end == rental.start:
            return
        plan = self.plan_at_last_second(rented)
        if plan is None:
            return
        terms = self.terms.plans[plan]
        for card, seconds in self.billable.items():
            if card in self.covered_at_last_second:
                continue
            unit, minimum = int(terms.get("unit_s", 1)), int(terms.get("minimum_s", 0))
            padding = max(-(-seconds // unit) * unit, minimum) - seconds
            self.use(rental, rented, plan, second, padding, padding=True)

    def plan_at_last_second(self, rented: Rented) -> str | None:
        """The plan of the cards that are in no pack; none if all are."""
        if not self.terms.is_pack(rented.plan):
            return rented.plan
        in_no_pack = [c for c in range(rented.cards) if c not in self.covered_at_last_second]
        return self.terms.fallback(rented.plan) if in_no_pack else None

    # What holds in a second

    def cover(self, second: int) -> list[Pack]:
        """Starts and renews packs; those that run."""
        state = self.last
        if state is None or state.rented is None or not self.terms.is_pack(state.rented.plan):
            return []
        for card in range(state.rented.cards):
            old = self.packs.get(card)
            if card in self.fallen or (old is not None and old.end > second):
                continue
            if old is None:
                self.packs[card] = self.new_pack(state.rented, second, second, 1)
            elif self.terms.renews(state.rented.plan):
                self.packs[card] = self.new_pack(state.rented, second, old.anchor, old.number + 1)
            else:
                del self.packs[card]
                self.fallen.add(card)
        return list(self.packs.values())

    def new_pack(self, rented: Rented, second: int, anchor: int, number: int) -> Pack:
        price = self.terms.price(rented.sku, rented.plan, rented.region, second)
        assert price is not None
        if self.terms.plans[rented.plan]["pack"] == "day":
            end = second + 86_400
        else:
            end = anniversary(anchor, number, self.terms.zone(rented.account))
        pack = Pack(self.instance, rented, price, second, end, anchor, number)
        self.counts.packs.append(pack)
        return pack

    def plan_of(self, card: int, rented: Rented) -> str:
        return self.terms.fallback(rented.plan) if card in self.fallen else rented.plan

    def classes(self, state: State, cards: int, second: int) -> list[str]:
        """The class of each card (R5, R6)."""
        assert state.rented is not None
        silent = is_unknown(state, self.proven, second, self.terms.timeout)
        own = [self.own_class(card, second, silent) for card in range(cards)]
        down = [c for c in DOWN if c in own]
        for card in range(cards):
            plan = self.terms.plans[self.plan_of(card, state.rented)]
            if down and plan.get("exclusions") == "gang":
                own[card] = down[0]
        return own

    def own_class(self, card: int, second: int, silent: bool) -> str:
        causes = {i.kind for i in self.incidents if i.hits_card(card, second)}
        causes |= {"unknown"} if silent else set()
        return next((c for c in PRECEDENCE if c in causes), "billable")

    def count(self, second: int, after: int) -> None:
        """Counts the seconds of a stretch in which every second is like its first."""
        state, length = self.last, after - second
        if state is None or state.rented is None or state.rental is None:
            return
        rented, account = state.rented, state.rented.account
        day = self.terms.day(account, second)
        self.last_second = after - 1
        self.covered_at_last_second = set(self.packs)
        if rented.cards:
            self.counts.card_seconds[account, self.instance, day] += rented.cards * length
            self.counts.seconds[account, self.instance, day] += length
        for card, kind in enumerate(self.classes(state, rented.cards, second)):
            self.counts.classes[account, month_of(day), kind] += length
            if card in self.packs:
                self.packs[card].excluded[month_of(day)] += 0 if kind == "billable" else length
            elif kind == "billable":
                self.billable[card] += length
                self.use(state.rental, rented, self.plan_of(card, rented), second, length, padding=False)

    def use(self, rental: Rental, rented: Rented, plan: str, second: int, seconds: int, *, padding: bool) -> None:
        account, price = rented.account, self.terms.price(rented.sku, plan, rented.region, second)
        assert price is not None
        if seconds == 0:
            return
        day, window = self.terms.day(account, second), self.terms.window(account, second)
        where = (account, month_of(day), day, window, self.instance, rental)
        self.counts.usage[Slot(*where, rented.sku, plan, rented.region, price, padding)] += seconds


def pack_terms(rented: Rented) -> tuple[str, str, str]:
    """What a running pack hangs on."""
    return (rented.account, rented.sku, rented.plan)


# --- the money, in the order of R15 ----------------------------------------------------------------------------------


@dataclass(eq=False)
class Use:
    """Seconds of one slot with their exact amounts."""

    slot: Slot
    seconds: int
    list: Fraction
    charge: Fraction


Key = tuple[str, str, str, Fraction]  # SKU, plan, region, unit price


@dataclass(eq=False)
class Line:
    """One line of a bill: exact amounts by credit window, each rounded once."""

    kind: str
    key: Key
    lists: dict[int, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    charges: dict[int, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    seconds: Counter[str] = field(default_factory=Counter)
    paid: Fraction = Fraction(0)

    def add(self, window: int, at_list: Fraction, charge: Fraction) -> None:
        self.lists[window] += at_list
        self.charges[window] += charge

    def list(self, places: int) -> Fraction:
        return half_up(sum(self.lists.values(), Fraction(0)), places)

    def charge(self, places: int) -> Fraction:
        return half_up(sum(self.charges.values(), Fraction(0)), places)

    def by_window(self, places: int) -> dict[int, Fraction]:
        windows = sorted(self.charges)
        parts = largest_remainder(self.charge(places), [self.charges[w] for w in windows], places)
        return dict(zip(windows, parts, strict=True))


class AccountBooks:
    """The bills of one account, month after month."""

    def __init__(self, account: str, terms: Terms, counts: Counts, instant: int) -> None:
        self.account, self.terms, self.counts, self.instant = account, terms, counts, instant
        self.contract, self.zone, self.places = terms.of(account), terms.zone(account), terms.places
        self.packs = [p for p in counts.packs if p.rented.account == account]
        self.keep = 1 - exact(self.contract.get("discount", 0))
        self.credits = terms.credits if account == terms.account else []
        self.left = {c.id: c.amount for c in self.credits}
        self.cash_share: dict[tuple[str, Key, int], Fraction] = {}
        self.charged: dict[tuple[Rental, str], Fraction] = defaultdict(Fraction)  # exact base of the rebate
        self.long = self.long_rentals()

    def bills(self) -> list[Json]:
        return [bill for month in sorted(self.months()) if (bill := self.bill(month)) is not None]

    def months(self) -> set[str]:
        found = {month for account, month, _ in self.counts.classes if account == self.account}
        found |= {slot.month for slot in self.counts.usage if slot.account == self.account}
        return found | set(self.long.values())

    def bill(self, month: str) -> Json | None:
        """Exclude and round up were the walk's; the rest of R15 follows."""
        uses = self.price_uses(month)
        self.apply_tiers(uses)
        for use in uses:
            use.charge *= self.keep
        self.net_rebate(uses, month)
        self.apply_caps(uses)
        for use in uses:
            if self.earns_rebate(use):
                self.charged[use.slot.rental, month] += use.charge
        lines = usage_lines(uses) + self.pack_lines(month)
        applied = self.pay(lines, month)
        lines += self.returned_pack_lines(month)
        vouchers = self.vouchers(month)
        seen = any(a == self.account and m == month for a, m, _ in self.counts.classes)
        if not (seen or lines or vouchers):
            return None
        return {
            "account": self.account,
            "month": month,
            "currency": self.terms.currency,
            "card_seconds": self.card_seconds(month, uses),
            "totals": self.totals(lines),
            "lines": [self.shown(line) for line in lines],
            "credits": self.shown_credits(applied, month),
            "vouchers": vouchers,
        }

    def price_uses(self, month: str) -> list[Use]:
        found = []
        for slot, seconds in self.counts.usage.items():
            if (slot.account, slot.month) == (self.account, month):
                amount = slot.price * seconds / 3600
                found.append(Use(slot, seconds, amount, amount))
        return found

    # Tiers: the words of R13

    def apply_tiers(self, uses: list[Use]) -> None:
        for tier in self.contract.get("tiers") or []:
            scope = [u for u in uses if fnmatch.fnmatchcase(u.slot.sku, tier.get("sku", "*"))]
            by_spend = tier.get("measure", "card_hours") == "spend"
            quantity = sum((u.list if by_spend else Fraction(u.seconds, 3600) for u in scope), Fraction(0))
            if quantity == 0:
                continue
            mix = band_mix(tier["bands"], quantity, volume=tier.get("mode", "graduated") == "volume")
            for use in scope:
                use.charge = sum((share * in_band(use, band) for share, band in mix), Fraction(0))

    # The long-term rebate: the words of R21

    def long_rentals(self) -> dict[Rental, str]:
        """Rentals that qualify, with the month of the second that completes the days."""
        if "long_term" not in self.contract:
            return {}
        needed = self.needed_seconds()
        mine = {s.rental for s in self.counts.usage if s.account == self.account}
        long = [r for r in self.counts.rentals if r in mine and r.known_until - r.start >= needed]
        return {r: self.terms.month(self.account, r.start + needed - 1) for r in long}

    def long_term(self) -> Json:
        return self.contract.get("long_term") or {}

    def needed_seconds(self) -> int:
        return int(self.long_term().get("min_days", 30)) * 86_400

    def earns_rebate(self, use: Use) -> bool:
        plans = self.long_term().get("plans")
        return use.slot.rental in self.long and (plans is None or use.slot.plan in plans)

    def rebate(self) -> Fraction:
        return exact(self.long_term().get("rebate", "0.15"))

    def is_netted(self) -> bool:
        return bool(self.long_term().get("settle", "voucher") == "netted")

    def net_rebate(self, uses: list[Use], month: str) -> None:
        for use in uses:
            if self.is_netted() and self.earns_rebate(use) and month >= self.long[use.slot.rental]:
                use.charge *= 1 - self.rebate()

    def vouchers(self, month: str) -> list[Json]:
        if self.is_netted():
            return []
        found = []
        for rental, qualifying in self.long.items():
            if month < qualifying:
                continue
            months = [m for r, m in self.charged if r is rental and (m == month or m < month == qualifying)]
            base = sum((self.charged[rental, m] for m in months), Fraction(0))
            amount = half_up(base * self.rebate(), self.places)
            earned = rental.start + self.needed_seconds() if month == qualifying else month_bounds(month, self.zone)[1]
            earned_at = local(earned, self.zone).isoformat()
            if amount:
                shown = money(amount, self.places)
                found.append({"instance": rental.instance, "amount": shown, "earned_at": earned_at})
        return sorted(found, key=lambda v: (v["instance"], v["earned_at"], v["amount"]))

    # Caps: the words of R14

    def apply_caps(self, uses: list[Use]) -> None:
        caps = self.contract.get("caps") or []
        for cap in [c for c in caps if c["per"] == "instance_day"]:
            self.cap_instances(uses, exact(cap["amount"]), lambda slot: slot.day)
        for cap in [c for c in caps if c["per"] == "instance_month"]:
            self.cap_instances(uses, exact(cap["amount"]), lambda slot: slot.month)
        for cap in [c for c in caps if c["per"] == "account_month"]:
            scale_down(uses, exact(cap["amount"]))

    def cap_instances(self, uses: list[Use], amount: Fraction, period: Callable[[Slot], object]) -> None:
        """A cap per card times the cards held on average over the time the instance was allocated."""
        for instance, when in {(u.slot.instance, period(u.slot)) for u in uses}:
            days = [
                (account, name, day)
                for account, name, day in self.counts.seconds
                if (account, name) == (self.account, instance) and when in (day, month_of(day))
            ]
            seconds = sum(self.counts.seconds[d] for d in days)
            scope = [u for u in uses if (u.slot.instance, period(u.slot)) == (instance, when)]
            if seconds:
                scale_down(scope, amount * sum(self.counts.card_seconds[d] for d in days) / seconds)

    # Packs: the words of R12

    def pack_lines(self, month: str) -> list[Line]:
        """Charges of the month's packs and what excluded time takes off: of an earlier month's packs the cash share."""
        lines = LineBook()
        for pack in self.packs:
            charged_in = self.terms.month(self.account, pack.start)
            if charged_in > month:
                continue
            window = self.terms.window(self.account, pack.start)
            off = pack.price * pack.excluded[month] / (pack.end - pack.start)
            if charged_in == month:
                lines.get("pack", pack_key(pack)).add(window, pack.price, pack.price * self.keep)
            else:
                off *= self.cash_share[charged_in, pack_key(pack), window]
                window = LATER
            if off:
                lines.get("pack_exclusion", pack_key(pack)).add(window, -off, -off * self.keep)
        return lines.lines

    def returned_pack_lines(self, month: str) -> list[Line]:
        """Refunds of packs: their cash share alone."""
        lines = LineBook()
        for pack in self.packs:
            charged_in = self.terms.month(self.account, pack.start)
            if charged_in > month:
                continue
            window = self.terms.window(self.account, pack.start)
            cash = pack.price * self.cash_share[charged_in, pack_key(pack), window]
            unused = cash * unused_share(pack) if self.is_refunded_in(pack, month) else Fraction(0)
            if unused:
                lines.get("pack_refund", pack_key(pack)).add(0, -unused, -unused * self.keep)
        return lines.lines

    def is_refunded_in(self, pack: Pack, month: str) -> bool:
        return pack.stopped is not None and self.terms.month(self.account, pack.stopped - 1) == month

    # Credits: the words of R19

    def pay(self, lines: list[Line], month: str) -> dict[str, Fraction]:
        """The oldest usage first, window by window, packs before usage; the credits in their one order."""
        order = sorted(self.credits, key=lambda c: (c.width, c.expires, self.left[c.id], c.begins, c.id))
        applied: dict[str, Fraction] = defaultdict(Fraction)
        for (window, _, key), (line, amount) in sorted(self.payable(lines).items(), key=lambda item: item[0]):
            open_amount = max(amount, Fraction(0))
            for credit in order:
                if self.is_valid(credit, window) and credit.covers(key[0]):
                    used = min(open_amount, self.left[credit.id])
                    self.left[credit.id] -= used
                    applied[credit.id] += used
                    open_amount -= used
                    line.paid += used
            if line.kind == "pack":
                self.cash_share[month, key, window] = open_amount / amount if amount > 0 else Fraction(1)
        return applied

    def payable(self, lines: list[Line]) -> dict[tuple[int, bool, Key], tuple[Line, Fraction]]:
        """By window, usage or not, and key: a line and what of it can be paid; a pack is less its exclusion credit."""
        found: dict[tuple[int, bool, Key], tuple[Line, Fraction]] = {}
        for line in [x for x in lines if x.kind in ("usage", "pack")]:
            for window, amount in line.by_window(self.places).items():
                found[window, line.kind == "usage", line.key] = (line, amount)
        for line in [x for x in lines if x.kind == "pack_exclusion"]:
            for window, amount in line.by_window(self.places).items():
                if window != LATER:
                    pack, gross = found[window, False, line.key]
                    found[window, False, line.key] = (pack, gross + amount)
        return found

    def is_valid(self, credit: Credit, window: int) -> bool:
        begins = self.terms.edges[window - 1] if window else -1
        return credit.begins <= begins < credit.expires

    def shown_credits(self, applied: dict[str, Fraction], month: str) -> list[Json]:
        """Credits whose validity touches the month; what is left at an expiry that has come lapses."""
        start, end = month_bounds(month, self.zone)
        shown = []
        for credit in [c for c in self.credits if c.begins < end and c.expires > start]:
            lapses = credit.expires <= min(end, self.instant)
            lapsed = self.left[credit.id] if lapses else Fraction(0)
            self.left[credit.id] -= lapsed
            amounts = {"applied": applied.get(credit.id, Fraction(0)), "left": self.left[credit.id], "lapsed": lapsed}
            shown.append({"id": credit.id, **{k: money(v, self.places) for k, v in amounts.items()}})
        return shown

    # Totals

    def totals(self, lines: list[Line]) -> Json:
        """Sums of rounded lines; tax is rounded once per rate on the cash part (R18)."""
        at_list = sum((line.list(self.places) for line in lines), Fraction(0))
        charges = sum((line.charge(self.places) for line in lines), Fraction(0))
        paid = sum((line.paid for line in lines), Fraction(0))
        cash: dict[tuple[Fraction, bool], Fraction] = defaultdict(Fraction)
        for line in lines:
            cash[self.terms.tax(line.key[0], line.key[1])] += line.charge(self.places) - line.paid
        tax, added = Fraction(0), Fraction(0)
        for (part, included), amount in cash.items():
            if included:
                tax += amount - half_up(amount / (1 + part), self.places)
            else:
                added += half_up(amount * part, self.places)
        due = charges - paid + added
        amounts = {"list": at_list, "discounts": at_list - charges, "charges": charges, "credits": paid, "due": due}
        amounts |= {"net": due - tax - added, "tax": tax + added}
        return {name: money(amount, self.places) for name, amount in amounts.items()}

    def card_seconds(self, month: str, uses: list[Use]) -> Json:
        by_class = {kind: self.counts.classes[self.account, month, kind] for kind in CLASSES}
        padding = sum(u.seconds for u in uses if u.slot.padding)
        return {"allocated": sum(by_class.values()), **by_class, "padding": padding}

    def shown(self, line: Line) -> Json:
        sku, plan, region, price = line.key
        return {
            "kind": line.kind,
            "sku": sku,
            "plan": plan,
            "region": region or None,
            "unit_price": str(price),
            "seconds": line.seconds["billable"],
            "padding": line.seconds["padding"],
            "list": money(line.list(self.places), self.places),
            "charge": money(line.charge(self.places), self.places),
            "credits": money(line.paid, self.places),
        }


def band_mix(bands: list[Json], quantity: Fraction, *, volume: bool) -> list[tuple[Fraction, Json]]:
    """Which share of a quantity lies in which band; the upper bound belongs to the lower band, beyond is no band."""
    mix: list[tuple[Fraction, Json]] = []
    below = Fraction(0)
    for band in [*bands, {}]:
        bound = exact(band["up_to"]) if band.get("up_to") is not None else quantity
        if volume and quantity <= bound:
            return [(Fraction(1), band)]
        inside = max(min(quantity, bound) - below, Fraction(0))
        mix.append((inside / quantity, band))
        below += inside
    return mix


def in_band(use: Use, band: Json) -> Fraction:
    """What a use would cost if all of it lay in the band."""
    if band.get("price") is not None:
        return exact(band["price"]) * use.seconds / 3600
    return use.charge * (1 - exact(band.get("discount", 0)))


def scale_down(uses: list[Use], cap: Fraction) -> None:
    """Takes off what exceeds a cap, in proportion."""
    total = sum((u.charge for u in uses), Fraction(0))
    if total > cap:
        for use in uses:
            use.charge = use.charge * cap / total


def unused_share(pack: Pack) -> Fraction:
    """Whole days of 86,400 s not begun, of all days of the pack; a shorter last one counts as one."""
    assert pack.stopped is not None
    days = -(-(pack.end - pack.start) // 86_400)
    used = -(-(min(pack.stopped, pack.end) - pack.start) // 86_400)
    return Fraction(days - used, days)


def pack_key(pack: Pack) -> Key:
    return (pack.rented.sku, pack.rented.plan, pack.rented.region or "", pack.price)


class LineBook:
    """Lines by kind and key."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, Key], Line] = {}

    def get(self, kind: str, key: Key) -> Line:
        return self.by_key.setdefault((kind, key), Line(kind, key))

    @property
    def lines(self) -> list[Line]:
        return [line for _, line in sorted(self.by_key.items(), key=lambda item: item[0])]


def usage_lines(uses: list[Use]) -> list[Line]:
    lines = LineBook()
    for use in uses:
        slot = use.slot
        line = lines.get("usage", (slot.sku, slot.plan, slot.region or "", slot.price))
        line.add(slot.window, use.list, use.charge)
        line.seconds["padding" if slot.padding else "billable"] += use.seconds
    return lines.lines
