"""The laws of a timeline: classes add up, nothing hangs on the order of events, slices of time add."""

import random
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.calendar import calendar
from metering import cards
from metering.door import accept
from metering.events import CLASS_NAMES
from metering.history import Timeline
from metering.pieces import Piece
from metering.rate import rate, timelines_of
from metering.usage import cuts_of
from pricing.terms import Terms
from tests import streams as made
from tests.ledger_kit import Event, Json, examples, latest, lines_of, pure, second, terms_of
from tests.streams import Stream, streams

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
CHANCES = st.integers(0, 2**32).map(random.Random)


def law(count: int) -> settings:
    return settings(max_examples=examples(count), suppress_health_check=SLOW)


def timelines(events: list[Event], stream: Stream, as_of: int) -> dict[str, Timeline]:
    accepted = accept(lines_of(events))
    return timelines_of(accepted, Terms.of(*terms_of(stream[1], stream[2])), as_of)


def instant(stream: Stream) -> int:
    own = second(stream[3])
    return latest(stream[0]) if own is None else own


def classed(timeline: Timeline) -> list[Piece]:
    return [piece for piece in timeline.pieces if piece.kind in CLASS_NAMES]


def held(pieces: Iterable[Piece]) -> list[tuple[int, int, int]]:
    """(card, start, end) of every stretch, in order."""
    return sorted(
        (card, piece.start, piece.end) for piece in pieces for low, high in piece.cards for card in range(low, high)
    )


@law(100)
@given(streams(resolutions=True))
def test_every_card_is_in_exactly_one_class_at_every_second(stream: Stream) -> None:
    """R5: so the classes add up to what is allocated; nothing is negative, and no card is counted twice."""
    for timeline in timelines(stream[0], stream, instant(stream)).values():
        pieces = classed(timeline)
        for piece in pieces:
            assert piece.start < piece.end
            assert piece.quantity == (piece.end - piece.start) * cards.count(piece.cards) > 0
        stretches = held(pieces)
        for (card, _, end), (other, start, _) in pairwise(stretches):
            assert card != other or end <= start


@law(100)
@given(streams(resolutions=True))
def test_allocated_is_the_sum_of_the_classes(stream: Stream) -> None:
    for bill in pure(stream[0], terms_of(stream[1], stream[2]), instant(stream))["bills"]:
        told: dict[str, int] = bill["card_seconds"]
        assert min(told.values()) >= 0
        assert told["allocated"] == sum(told[name] for name in CLASS_NAMES.values())


@law(60)
@given(streams(conflicts=False), CHANCES)
def test_order_and_duplicates_change_nothing(stream: Stream, chance: random.Random) -> None:
    """R24 for the dry run."""
    events, book, contract, _ = stream
    shuffled = [*events, *chance.choices(events, k=3)] if events else []
    chance.shuffle(shuffled)
    terms, as_of = terms_of(book, contract), instant(stream)
    one, other = pure(events, terms, as_of), pure(shuffled, terms, as_of)
    for name in ("bills", "rejects", "anomalies"):
        assert one[name] == other[name]


@law(100)
@given(streams(resolutions=True), st.lists(st.integers(-100, 400_000), max_size=5))
def test_slices_of_time_add(stream: Stream, offsets: list[int]) -> None:
    """Wherever time is cut, card-seconds and exact list amounts add up (R1)."""
    as_of = instant(stream)
    instants = sorted({as_of - offset for offset in offsets})
    days = calendar(stream[1]["time_zone"])
    for timeline in timelines(stream[0], stream, as_of).values():
        for piece in timeline.pieces:
            parts = list(cuts_of(piece, days, instants))
            assert sum(part.quantity for part in parts) == piece.quantity
            assert [part.end for part in parts[:-1]] == [part.at for part in parts[1:]]
            if piece.kind in CLASS_NAMES:
                assert (parts[0].at, parts[-1].end) == (piece.start, piece.end)
                amounts = [piece.price * part.quantity / 3600 for part in parts]
                assert sum(amounts, Fraction(0)) == piece.price * piece.quantity / 3600


@law(60)
@given(streams(conflicts=False, retractions=False, resolutions=False), CHANCES)
def test_what_is_allocated_only_grows_with_as_of(stream: Stream, chance: random.Random) -> None:
    """As of an instant nothing later is known, and a later look takes no allocated second away."""
    events = stream[0]
    if latest(events) < 0:
        return
    early = latest(events) - chance.randint(0, 100_000)
    known = [event for event in events if latest([event]) <= early]
    terms = terms_of(stream[1], stream[2])
    now, then = pure(events, terms, early), pure(known, terms, early)
    beats = any("heartbeat" in str(event) for event in events)
    if not beats:  # a later heartbeat proves an earlier instant of its run, the one exception
        assert now["bills"] == then["bills"]
        assert now["anomalies"] == then["anomalies"]
    assert seconds_until(events, stream, early) <= seconds_until(events, stream, latest(events))


def seconds_until(events: list[Event], stream: Stream, as_of: int) -> int:
    sums = [p.quantity for t in timelines(events, stream, as_of).values() for p in classed(t)]
    return sum(sums)


@law(60)
@given(st.lists(st.integers(1, 200_000), min_size=2, max_size=6, unique=True), st.integers(1, 8), made.books())
def test_splitting_a_run_under_a_one_second_plan_changes_no_charge(cuts: list[int], count: int, book: Json) -> None:
    """A stop and a start in one second, where the plan has neither unit nor minimum."""
    cuts = sorted(cuts)
    whole = pure(run_of(cuts[:1] + cuts[-1:], count), terms_of(book), None)
    split = pure(run_of(cuts, count), terms_of(book), None)
    for one, other in zip(whole["bills"], split["bills"], strict=True):
        assert one["totals"] == other["totals"]
        assert one["card_seconds"] == other["card_seconds"]


def run_of(cuts: list[int], count: int) -> list[Event]:
    """A run from the first instant to the last, stopped and started at each between."""
    scene, events = made.SCENE, list[Event]()
    data = {"account": "acct-1", "sku": "gpu.a", "cards": count, "plan": "on_demand"}
    for number, (start, end) in enumerate(pairwise(cuts)):
        for when, kind, told in ((start, "started", data), (end, "stopped", {})):
            head = {"specversion": "1.0", "id": f"{kind}-{number}", "source": "/hosts/1", "type": f"instance.{kind}"}
            events.append({**head, "subject": "i-0", "time": scene.text(when), "data": told})
    return events


@law(40)
@given(streams(resolutions=True))
def test_lines_foot_to_totals(stream: Stream) -> None:
    """R17; that cells foot to lines is a law of pricing."""
    accepted = accept(lines_of(stream[0]))
    for bill in rate(accepted, Terms.of(*terms_of(stream[1], stream[2])), instant(stream)).bills:
        assert sum((line.list for line in bill.lines), Decimal(0)) == bill.totals.list
        assert sum((line.charge for line in bill.lines), Decimal(0)) == bill.totals.charges
        assert bill.totals.charges == bill.totals.list - bill.totals.discounts
        assert bill.totals.net + bill.totals.tax == bill.totals.due
