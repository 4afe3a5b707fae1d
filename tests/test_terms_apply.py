"""Terms may come before, between and after the events: the bills are those of a dry run that knew them all."""

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
from pricing.terms import NEVER, Terms
from pricing.terms_change import Changes
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
    told = draw(events(scene, retractions=False))
    named = {"account": draw(contracts(scene))["account"], "price_book": "other"}
    terms = [draw(versions(scene)) for _ in range(draw(st.integers(1, 3)))]
    terms = [{**terms[0], "id": "standard"}, *terms[1:]]
    terms[0].pop("from", None)
    if draw(st.booleans()):
        terms.append({**draw(contracts(scene)), "price_book": "standard"})
        terms[-1].pop("time_zone", None)
        terms[-1].get("long_term", {}).pop("plans", None)  # no version need have them
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

    found, expected = ledger.bills(as_of), pure(story.events(), terms_of(*story.terms()), as_of)
    assert found["bills"] == expected["bills"]
    assert found["rejects"] == expected["rejects"]
    assert ledger.differences() == []


# --- stories --------------------------------------------------------------------------------------------------------

ALWAYS = "2020-01-01T00:00:00+08:00"
MID = "2026-03-01T12:00:00+08:00"
END = second(datetime.fromisoformat("2026-03-02T00:00:00+08:00")) or 0
START: Json = {"account": "acct-1", "sku": "gpu.a", "cards": 1}


def book(*rows: tuple[str, str], **changes: Any) -> Json:
    """A price book of one SKU, its rows as (price, from)."""
    prices = [{"sku": "gpu.a", "plan": "on_demand", "per_card_hour": price, "from": since} for price, since in rows]
    plans = {"on_demand": {"unit_s": 1}}
    return {"currency": "CNY", "skus": {"gpu.a": {}}, "plans": plans, "prices": prices, **changes}


def event(hour: int, kind: str, data: Json | None = None, instance: str = "i") -> Json:
    return {
        "specversion": "1.0", "id": f"{kind}-{hour}-{instance}", "source": "/h", "type": f"instance.{kind}",
        "subject": instance, "time": f"2026-03-01T{hour:02d}:00:00+08:00", "data": data or {},
    }  # fmt: skip


DAY_OF_WORK: list[Event] = [event(10, "started", START), event(14, "stopped")]
BOOK = book(("1.00", ALWAYS))


def due(ledger: Books) -> list[str]:
    return [bill["totals"]["due"] for bill in ledger.bills(END)["bills"]]


def test_events_before_any_price_book_are_rated_when_it_comes(ledger: Books) -> None:
    ledger.record(DAY_OF_WORK)
    assert ledger.bills(END)["rejects"] == [("started-10-i", "no_price")]

    apply(ledger, BOOK)

    assert (due(ledger), ledger.bills(END)["rejects"]) == (["4.00"], [])


def test_a_price_that_changed_yesterday_is_rated_from_its_instant(ledger: Books) -> None:
    apply(ledger, BOOK)
    ledger.record(DAY_OF_WORK)

    apply(ledger, book(("1.00", ALWAYS), ("3.00", MID)))

    assert due(ledger) == ["8.00"]
    assert ledger.differences() == []


def test_a_contract_of_one_account_leaves_the_others_alone(ledger: Books) -> None:
    apply(ledger, BOOK)
    other = [event(10, "started", {**START, "account": "acct-2"}, "j"), event(12, "stopped", {}, "j")]
    ledger.record([*DAY_OF_WORK, *other])

    apply(ledger, {**book(("5.00", ALWAYS)), "id": "dear"}, {"account": "acct-2", "price_book": "dear"})

    assert due(ledger) == ["4.00", "10.00"]
    assert rerated_batches(ledger) == 1


def rerated_batches(ledger: Books) -> int:
    rows = ledger.db.execute("SELECT b.id FROM batch b JOIN door d ON d.id = door_id WHERE name = 'terms'")
    return len(rows.fetchall())


def test_a_discount_rates_nothing_again(ledger: Books) -> None:
    apply(ledger, BOOK)
    ledger.record(DAY_OF_WORK)

    apply(ledger, {"account": "acct-1", "discount": "0.10"})

    assert (due(ledger), rerated_batches(ledger)) == (["3.60"], 0)


def test_the_contract_said_last_stands(ledger: Books) -> None:
    apply(ledger, BOOK, {"account": "acct-1", "discount": "0.10"})
    ledger.record(DAY_OF_WORK)

    apply(ledger, {"account": "acct-1", "discount": "0.20"})

    assert due(ledger) == ["3.20"]


def test_the_same_files_again_add_nothing(ledger: Books) -> None:
    versions = [book(("1.00", ALWAYS)), book(("2.00", MID), **{"from": MID})]
    assert apply(ledger, *versions) == [("standard", 1, False), ("standard", 2, False)]
    assert apply(ledger, *versions) == [("standard", 1, True), ("standard", 2, True)]
    assert apply(ledger, versions[1]) == [("standard", 2, True)]
    assert apply(ledger, versions[1], correction=True) == [("standard", 3, False)]
    assert apply(ledger, versions[0]) == [("standard", 4, False)]
    found = [(each.number, each.correction, each.to_json()["from"]) for each in recorded_versions(ledger.db)]
    assert found == [
        (1, False, None), (2, False, "2026-03-01T04:00:00+00:00"), (3, True, "2026-03-01T04:00:00+00:00"),
        (4, False, None),
    ]  # fmt: skip


def test_whoever_is_killed_while_rating_again_goes_on_later(ledger: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(ledger, BOOK)
    ledger.record(DAY_OF_WORK)
    monkeypatch.setattr(terms_apply, "finish_rerating", lambda _: 0)
    apply(ledger, book(("3.00", ALWAYS)))
    assert due(ledger) == ["4.00"]

    assert ledger.recorder
    assert finish_rerating(ledger.recorder) == 1
    assert (due(ledger), finish_rerating(ledger.recorder)) == (["12.00"], 0)


def test_what_runs_is_rated_by_the_new_price_too(ledger: Books) -> None:
    apply(ledger, BOOK)
    ledger.record(DAY_OF_WORK[:1])
    ledger.accrue(second(datetime.fromisoformat("2026-03-01T20:00:00+08:00")) or 0)

    apply(ledger, book(("1.00", ALWAYS), ("3.00", MID)))

    assert due(ledger) == ["38.00"]  # two hours at 1, twelve at 3
    assert ledger.differences() == []


# --- what is refused ------------------------------------------------------------------------------------------------


def refused(ledger: Books, *documents: Json) -> list[str]:
    before = recorded_versions(ledger.db)
    with pytest.raises(TermsInvalid) as caught:
        apply(ledger, *documents)
    assert recorded_versions(ledger.db) == before
    return caught.value.problems


CONTRACT: Json = {"account": "acct-1"}
FIRST = "apply it first, or along with it"
ROW = [{"measure": "spend", "sku": "gpu.b", "bands": [{"discount": "0.1"}]}]


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([CONTRACT | {"price_book": "standrd"}],
         f"contract acct-1: price_book: there is no price book 'standrd', did you mean standard?; {FIRST}"),
        ([CONTRACT | {"from": "2026-03-02T00:00:00+08:00"}],
         "contract acct-1: from: is not the first instant of a month in Asia/Shanghai (R2)"),
        ([CONTRACT | {"from": "2026-04-01T00:00:00Z"}],
         "contract acct-1: from: is not the first instant of a month in Asia/Shanghai (R2)"),
        ([CONTRACT, CONTRACT | {"from": "2026-04-01T00:00:00+09:00", "time_zone": "Asia/Tokyo"}],
         "contract acct-1: time_zone: is Asia/Tokyo, but the account's is Asia/Shanghai by its earliest contract (R2)"),
        ([CONTRACT | {"tiers": ROW}],
         "contract acct-1: tiers[0].sku: 'gpu.b' matches no SKU of the price book, did you mean gpu.a? (R13)"),
        ([CONTRACT, CONTRACT | {"discount": "0.1"}], "contract acct-1: is given twice from the same instant"),
        ([book(("1.00", ALWAYS)), book(("1.00", ALWAYS), currency="USD", **{"from": MID})],
         "price book standard: currency: its versions differ, CNY and USD (R16)"),
        # of accounts that have usage
        ([book(("1.00", ALWAYS), currency="USD")],
         "currency: account acct-1 has usage in CNY; it cannot change to USD (R16)"),
        ([book(("1.00", ALWAYS), currency="USD", **{"from": "2027-01-01T00:00:00+08:00"})],
         "currency: account acct-1 has usage in CNY; it cannot change to USD (R16)"),
        ([book(("1.00", ALWAYS), time_zone="UTC")],
         "time_zone: account acct-1 has usage in days of Asia/Shanghai; it cannot change to UTC (R2)"),
        ([CONTRACT | {"time_zone": "Asia/Tokyo"}],
         "time_zone: account acct-1 has usage in days of Asia/Shanghai; it cannot change to Asia/Tokyo (R2)"),
        ([{**book(("1.00", ALWAYS)), "id": "us", "currency": "USD"}, CONTRACT | {"price_book": "us"}],
         "currency: account acct-1 has usage in CNY; it cannot change to USD (R16)"),
    ],
)  # fmt: skip
def test_terms_that_cannot_be_meant_store_nothing(ledger: Books, documents: list[Json], problem: str) -> None:
    apply(ledger, BOOK)
    ledger.record(DAY_OF_WORK)
    for number, each in enumerate(documents):  # those of one file are told apart by the loader already
        assert terms_of(each), number

    assert refused(ledger, *documents)[0] == problem
    assert due(ledger) == ["4.00"]


def test_without_usage_zone_and_currency_may_change(ledger: Books) -> None:
    apply(ledger, BOOK)
    apply(ledger, book(("1.00", ALWAYS), currency="USD", time_zone="UTC"))
    ledger.record(DAY_OF_WORK)

    bill = ledger.bills(END)["bills"][0]
    assert (bill["currency"], bill["totals"]["due"]) == ("USD", "4.00")


def test_rating_depends_on_no_contract_that_only_prices(ledger: Books) -> None:
    found = terms_of(BOOK, CONTRACT, CONTRACT | {"discount": "0.5"})
    assert Changes(Terms.of(*found[:2]), Terms.of(*found)).since("acct-1") == NEVER
