"""Terms may come before, between and after the events: the bills are those of a dry run that knew them all."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import TermsInvalid
from metering import terms_apply
from metering.terms_apply import apply_terms, finish_rerating
from metering.terms_store import recorded_versions
from pricing.terms import Terms
from tests.ledger_kit import Books, Event, examples, latest, opened, pure, second, terms_of
from tests.streams import Scene, books, contracts, events, instants, of_pool, scenes

Json = dict[str, Any]


@pytest.fixture
def ledger(database_url: str) -> Iterator[Books]:
    with opened(database_url) as found:
        found.fresh([])
        yield found


def apply(ledger: Books, *documents: Json, correction: bool = False) -> list[tuple[str, int, bool]]:
    assert ledger.recorder
    applied = apply_terms(ledger.recorder, terms_of(*documents), correction)
    return [(each.name, each.number, each.known) for each in applied]


# --- any order gives the same ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """Events and terms in one order of arrival, and the instant of the bills."""

    steps: list[list[Event] | Json]
    as_of: datetime | None

    def events(self) -> list[Event]:
        return [event for step in self.steps if isinstance(step, list) for event in step]

    def terms(self) -> list[Json]:
        return [step for step in self.steps if isinstance(step, dict)]


@st.composite
def versions(draw: st.DrawFn, scene: Scene) -> Json:
    """Another version of a price book, from an instant in mid-stream or from ever; it may lack prices and plans."""
    book = draw(books(scene))
    if book.get("heartbeat_timeout_s") == 60:  # runs of beats that are stored cannot be parted by a shorter one
        del book["heartbeat_timeout_s"]
    book["id"] = draw(st.sampled_from(["standard", "standard", "other"]))
    if draw(st.booleans()):
        book["from"] = scene.text(draw(of_pool(scene)), scene.zone)
    if draw(st.booleans()):
        gone = draw(st.sampled_from(["gang", "by_hour", "at_least", "pack_month"]))
        del book["plans"][gone]
        book["prices"] = [row for row in book["prices"] if row["plan"] != gone]
    return book


@st.composite
def stories(draw: st.DrawFn) -> Story:
    scene = draw(scenes())
    told = draw(events(scene))
    named = {"account": draw(contracts(scene))["account"], "price_book": "other"}
    terms = [draw(versions(scene)) for _ in range(draw(st.integers(1, 3)))]
    terms = [{**terms[0], "id": "standard"}, *terms[1:]]
    terms[0].pop("from", None)
    if draw(st.booleans()):
        terms.append({**draw(contracts(scene)), "price_book": "standard"})
        terms[-1].pop("time_zone", None)
    if draw(st.booleans()):
        terms += [{**terms[0], **draw(versions(scene)), "id": "other"}, named]
        terms[-2].pop("from", None)
    steps: list[list[Event] | Json] = []
    places = sorted(draw(st.lists(st.integers(0, len(told)), min_size=len(terms), max_size=len(terms))))
    before = 0
    for place, each in zip(places, terms, strict=True):
        steps += [told[before:place], each]
        before = place
    return Story([step for step in [*steps, told[before:]] if step], draw(st.one_of(st.none(), instants(scene))))


@given(story=stories())
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_terms_in_any_order_give_the_bills_of_the_dry_run(ledger: Books, story: Story) -> None:
    ledger.fresh([])
    for step in story.steps:
        if isinstance(step, list):
            ledger.record(step)
        else:
            apply(ledger, step)
    as_of = second(story.as_of) if story.as_of else latest(story.events())
    assert as_of is not None

    assert ledger.bills(as_of) == pure(story.events(), terms_of(*story.terms()), as_of)
    assert ledger.differences() == []
