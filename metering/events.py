"""Usage events at the door: CloudEvents JSON bytes become facts, or a reason why not (R25, R26).

Times are cut down to whole seconds here (R1); from then on an instant is an integer.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from hashlib import blake2b, sha256
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from core.calendar import FIRST_SECOND, LAST_SECOND

MAX_EVENT_BYTES: Final = 1 << 20
"""A longer line or message is refused unread."""

MAX_CARDS: Final = 100_000

MAX_NESTING: Final = 64
"""Deeper JSON is refused: whether it can be read must not depend on who reads it, and how far down the stack."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=256)]
Cards = Annotated[int, Meta(ge=0, le=MAX_CARDS)]
CardNumbers = Annotated[list[Annotated[int, Meta(ge=0, le=MAX_CARDS)]], Meta(min_length=1, max_length=MAX_CARDS)]
Xid = Annotated[int, Meta(ge=0, le=1_000_000)]


class Started(Struct):
    """A session opens with these terms."""

    account: Name
    sku: Name
    cards: Cards
    plan: Name = "on_demand"
    project: Text = ""
    region: Text = ""
    session: Name | None = None


class Resized(Struct):
    """Some terms of a running session change (R4)."""

    cards: Cards | None = None
    sku: Name | None = None
    plan: Name | None = None
    session: Name | None = None

    def __post_init__(self) -> None:
        if self.cards is None and self.sku is None and self.plan is None:
            raise ValueError("a resize names cards, sku or plan")


class Stopped(Struct):
    """A session closes."""

    session: Name | None = None
    reason: str | None = None


class Heartbeat(Struct):
    """Proof of life; with account, sku and cards it describes the instance in full (R9)."""

    account: Name | None = None
    sku: Name | None = None
    cards: Cards | None = None
    plan: Name = "on_demand"
    project: Text = ""
    region: Text = ""
    session: Name | None = None

    def describes(self) -> Started | None:
        """The terms of a session that this heartbeat could open."""
        if self.account is None or self.sku is None or self.cards is None:
            return None
        return Started(self.account, self.sku, self.cards, self.plan, self.project, self.region, self.session)


class ExclusionStarted(Struct):
    """Cards (all where none are named) are out of service from now on (R6, R7)."""

    incident: Name
    cards: CardNumbers | None = None
    xid: Xid | None = None
    fault: Literal["platform", "user"] | None = None
    cause: str | None = None


class ExclusionEnded(ExclusionStarted):
    """Cards (all where none are named) are back."""


class Retracted(Struct):
    """A person withdraws an event."""

    source: Name
    id: Name
    by: Name
    why: Name


class Resolved(Retracted):
    """A person says which body of a conflict stands, by the SHA-256 of its canonical form or the body itself."""

    body: str | dict[str, Any] = ""


class Judged(Struct):
    """A person says whose fault an incident was."""

    incident: Name
    fault: Literal["platform", "user"]
    by: Name
    why: Name
    klass: Literal["failure", "migration", "maintenance", "idle"] = msgspec.field(name="class", default="failure")


Data = (
    Started | Resized | Stopped | Heartbeat | ExclusionStarted | ExclusionEnded | Retracted | Resolved | Judged
)  # fmt: skip

START, RESIZE, STOP, HEARTBEAT = 1, 2, 3, 4
FAILURE, MIGRATION, MAINTENANCE, UNKNOWN, IDLE, BILLABLE = 10, 11, 12, 13, 14, 15
"""Classes of time in order of precedence (R6); an event that opens one has the same number, its end 10 more."""
RETRACTED, RESOLVED, JUDGED = 31, 32, 33

CLASS_NAMES: Final = {
    FAILURE: "failure", MIGRATION: "migration", MAINTENANCE: "maintenance",
    UNKNOWN: "unknown", IDLE: "idle", BILLABLE: "billable",
}  # fmt: skip
CLASS_NUMBERS: Final = {name: number for number, name in CLASS_NAMES.items()}
EXCLUSIONS: Final = (FAILURE, MIGRATION, MAINTENANCE, IDLE)

KIND_NAMES: Final = {
    START: "instance.started", RESIZE: "instance.resized", STOP: "instance.stopped", HEARTBEAT: "instance.heartbeat",
    **{number: f"{CLASS_NAMES[number]}.started" for number in EXCLUSIONS},
    **{number + 10: f"{CLASS_NAMES[number]}.ended" for number in EXCLUSIONS},
    RETRACTED: "event.retracted", RESOLVED: "conflict.resolved", JUDGED: "incident.judged",
}  # fmt: skip

_DATA_TYPES: dict[int, type[Any]] = {
    START: Started, RESIZE: Resized, STOP: Stopped, HEARTBEAT: Heartbeat,
    **dict.fromkeys(EXCLUSIONS, ExclusionStarted), **{number + 10: ExclusionEnded for number in EXCLUSIONS},
    RETRACTED: Retracted, RESOLVED: Resolved, JUDGED: Judged,
}  # fmt: skip
_KINDS = {KIND_NAMES[kind]: (kind, msgspec.json.Decoder(data)) for kind, data in _DATA_TYPES.items()}


def is_decision(kind: int) -> bool:
    """Whether an event is a person's decision, which proves nothing of the instance (R9)."""
    return kind >= RETRACTED


class Envelope(Struct):
    """The CloudEvents attributes that billing reads; others are kept with the raw event."""

    specversion: Literal["1.0"]
    id: Name
    source: Name
    type: str
    subject: Name
    time: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Fact:
    """One readable event: where and when it happened, what it says, and who said it.

    ``name`` is the session or the incident that it speaks of (None: the unnamed session). ``seq`` is its number in
    the stream or ledger and serves as evidence.
    """

    __slots__ = ("_identity", "data", "id", "kind", "name", "raw", "second", "seq", "source", "subject")

    def __init__(
        self, subject: str, second: int, kind: int, source: str, id: str, data: Any, raw: bytes, seq: int = 0
    ) -> None:
        self.subject, self.second, self.kind, self.source, self.id = subject, second, kind, source, id
        self.data, self.raw, self.seq = data, raw, seq
        self._identity: bytes | None = None
        self.name: str | None = data.incident if (kind >= FAILURE and kind < RETRACTED) or kind == JUDGED else (
            data.session if kind < FAILURE else None
        )  # fmt: skip

    def order(self) -> tuple[int, str, str]:
        """The total order of an instance's facts: by time, then source and id."""
        return (self.second, self.source, self.id)

    def identity(self) -> bytes:
        """16 bytes that stand for (source, id), for ever (R25)."""
        if self._identity is None:
            self._identity = identity(self.source, self.id)
        return self._identity

    def __repr__(self) -> str:
        return f"Fact({KIND_NAMES[self.kind]} {self.subject} @{self.second} {self.source}#{self.id} {self.data})"


class Unreadable(Exception):
    """An event that cannot be read: ``reason`` is ``malformed`` or ``unknown_type``, ``detail`` names the field."""

    def __init__(self, reason: Literal["malformed", "unknown_type"], detail: str, id: str | None = None) -> None:
        self.reason, self.detail = reason, detail
        self.id = None if id is None else _CONTROL.sub("\ufffd", id)
        super().__init__(f"{reason}: {detail}")


_envelope = msgspec.json.Decoder(Envelope)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.\d{1,30})?([Zz]|[+-]\d\d:\d\d)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def read_event(raw: bytes) -> Fact:
    """The fact in one event's bytes; raises ``Unreadable``."""
    if len(raw) > MAX_EVENT_BYTES:
        raise Unreadable("malformed", f"an event of {len(raw)} bytes; at most {MAX_EVENT_BYTES} are read")
    _check_text(raw)
    try:
        event = _envelope.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Unreadable("malformed", _told(str(error), "event", ""), _id_in(raw)) from None
    known = _KINDS.get(event.type)
    if known is None:
        raise Unreadable("unknown_type", f"type: {_short(event.type)} is not an event of this service", event.id)
    kind, decoder = known
    try:
        second = read_second(event.time)
        data = decoder.decode(event.data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Unreadable("malformed", _told(str(error), "data", "data."), event.id) from None
    except ValueError as error:
        raise Unreadable("malformed", f"time: {error}", event.id) from None
    fact = Fact(event.subject, second, kind, event.source, event.id, data, raw)
    if _is_plain(raw):
        return fact
    if _CONTROL.search(f"{event.id}{event.source}{event.subject}{fact.name or ''}"):
        raise Unreadable("malformed", "id, source, subject or name: control characters are refused", event.id)
    if isinstance(data, (Started, Heartbeat)) and _CONTROL.search(
        f"{data.account}{data.sku}{data.plan}{data.project}{data.region}"
    ):
        raise Unreadable("malformed", "data: control characters are refused", event.id)
    return fact


def _is_plain(raw: bytes) -> bool:
    """Whether no text in it can hold a control character: JSON has them escaped, as DEL, or beyond ASCII only."""
    return raw.isascii() and b"\\" not in raw and b"\x7f" not in raw


def _check_text(raw: bytes) -> None:
    """What the decoder skips in fields that it does not know must be sound too: others read the raw event."""
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Unreadable("malformed", f"event: not UTF-8 (byte {error.start})", _id_in(raw)) from None
    if raw.count(b"[") + raw.count(b"{") > MAX_NESTING and _nests_deeper(raw, MAX_NESTING):
        raise Unreadable("malformed", f"event: nested more than {MAX_NESTING} deep", _id_in(raw))


def _nests_deeper(raw: bytes, most: int) -> bool:
    depth = 0
    for sign in _BRACKET.findall(_STRING.sub(b"", raw)):
        depth += 1 if sign in b"[{" else -1
        if depth > most:
            return True
    return False


def read_second(text: str) -> int:
    """An RFC 3339 instant with an offset, cut down to its second; raises ``ValueError`` with the reason."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{_short(text)} is not an ISO 8601 instant like 2026-03-01T00:00:00Z")
    day, clock, offset = match.groups()
    if offset is None:
        raise ValueError(f"{_short(text)} has no offset from UTC (R1)")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if offset in 'Zz' else offset}")
    except ValueError as error:
        raise ValueError(f"{_short(text)}: {error}") from None
    second = (moment - _EPOCH) // _SECOND
    if not FIRST_SECOND <= second < LAST_SECOND:
        raise ValueError(f"{_short(text)} lies outside the years 2000 to 2099")
    return second


def identity(source: str, id: str) -> bytes:
    """16 bytes that stand for (source, id): a BLAKE2b digest of both with their lengths."""
    text = source.encode()
    return blake2b(b"%d:%b%b" % (len(text), text, id.encode()), digest_size=16).digest()


def body(raw: bytes) -> dict[str, Any]:
    """What two events of one identity are compared by: type, subject, time as written, and data as JSON values."""
    event = json.loads(raw, parse_int=_exact, parse_float=_exact)
    return {"type": event["type"], "subject": event["subject"], "time": event["time"], "data": event.get("data", {})}


def same_body(one: bytes, other: bytes) -> bool:
    """Whether two events of one identity say the same (R25)."""
    return one == other or _plain(body(one)) == _plain(body(other))


def body_digest(raw: bytes) -> str:
    """The SHA-256 of an event's body in canonical form, by which a decision names the body that stands."""
    text = json.dumps(body(raw), sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=_number)
    return sha256(text.encode()).hexdigest()


def _exact(text: str) -> Decimal | tuple[str, str]:
    """A number as it is meant; one whose exponent nobody can count with is only as it is written."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return ("number", text.lower())


def names_body(named: str | dict[str, Any], raw: bytes) -> bool:
    """Whether a decision's ``body``, a digest or the body itself, is that of an event."""
    if isinstance(named, str):
        return named == body_digest(raw)
    return bool(_plain({"data": {}, **named}) == _plain(body(raw)))


def _number(value: Any) -> str:
    """A number in the one way of writing that a digest uses: all its digits, and no exponent where it is short."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    short = text.rstrip("0")
    exponent += len(text) - len(short)
    if not short:
        return "0"
    if abs(exponent) > 100:
        return f"{'-' * sign}{short}E{exponent}"
    return f"{Decimal((sign, tuple(map(int, short)), exponent)):f}"


def _plain(value: Any) -> Any:
    """JSON values in a form in which true is not 1."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return ("bool", value) if isinstance(value, bool) else value


def _told(message: str, whole: str, prefix: str) -> str:
    """Msgspec's message with the field in front: ``data.cards: expected `int` >= 0``."""
    what, _, path = message.partition(" - at `$")
    field = f"{prefix}{path.rstrip('`').lstrip('.')}" if path else whole
    return f"{field}: {what if what.startswith('JSON') else what[:1].lower() + what[1:]}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _id_in(raw: bytes) -> str | None:
    """The id of an event that is unreadable otherwise, for the person who looks for it."""
    match = re.search(rb'"id"\s*:\s*"([^"\\]{1,256})"', raw[:4096])
    return match.group(1).decode("utf-8", "replace") if match else None
