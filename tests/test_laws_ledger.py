"""The laws of the ledger: whatever way facts come into it, it says what the dry run says of the same facts.

Every law is tried on generated streams with generated terms against one real database, emptied for each example.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metering.recorder import Recorder
from tests.ledger_kit import (
    Books,
    Event,
    batches,
    checkpoints_every,
    examples,
    latest,
    lines_of,
    opened,
    pure,
    second,
    terms_of,
)
from tests.streams import Stream, streams

ONE_DATABASE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
CHANCES = st.integers(0, 2**32).map(random.Random)
CHECKPOINTS = st.sampled_from([1, 2, 3, 8])


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    with opened(database_url) as found:
        yield found


def check(books: Books, told: list[Event], stream: Stream, as_of: int) -> None:
    _, book, contract, _ = stream
    assert books.bills(as_of) == pure(told, terms_of(book, contract), as_of)


def instants(stream: Stream, told: list[Event], chance: random.Random) -> list[int]:
    """The last event's second, the stream's own instant, and one before some of the facts."""
    last = latest(told)
    own = second(stream[3])
    return [last, last if own is None else own, last - chance.randint(0, 100_000)]


@settings(max_examples=examples(25), suppress_health_check=ONE_DATABASE)
@given(streams(conflicts=True, resolutions=True), CHANCES, CHECKPOINTS)
def test_in_any_batches_at_any_instant_the_ledger_agrees_with_the_dry_run(
    books: Books, stream: Stream, chance: random.Random, every: int
) -> None:
    """Conflicts and all, in the order in which the dry run reads them; also before all is told."""
    events, book, contract, _ = stream
    books.fresh(terms_of(book, contract))
    told: list[Event] = []
    with checkpoints_every(every):
        for batch in batches(events, chance):
            books.record(batch)
            told += batch
            if chance.random() < 0.3:
                books.accrue(latest(told) + chance.randint(-200_000, 5_000))
            if chance.random() < 0.3 and latest(told) >= 0:
                check(books, told, stream, chance.choice(instants(stream, told, chance)))
    if latest(told) >= 0:
        for as_of in instants(stream, told, chance):
            check(books, told, stream, as_of)
    assert books.differences() == []


@settings(max_examples=examples(25), suppress_health_check=ONE_DATABASE)
@given(streams(conflicts=False), CHANCES, CHECKPOINTS)
def test_any_order_and_any_duplicates_come_to_the_same(
    books: Books, stream: Stream, chance: random.Random, every: int
) -> None:
    """R24, with accruals in between; the ledger's own proof finds nothing."""
    events, book, contract, _ = stream
    shuffled = [*events, *chance.choices(events, k=chance.randint(0, 3))] if events else []
    chance.shuffle(shuffled)
    books.fresh(terms_of(book, contract))
    with checkpoints_every(every):
        for batch in batches(shuffled, chance):
            books.record(batch)
            if chance.random() < 0.2:
                books.accrue(latest(events) + chance.randint(-200_000, 5_000))
    if latest(events) >= 0:
        for as_of in instants(stream, events, chance):
            found, wanted = books.bills(as_of), pure(events, terms_of(book, contract), as_of)
            assert (found["bills"], found["rejects"]) == (wanted["bills"], wanted["rejects"])
            assert found["anomalies"] == wanted["anomalies"]
    assert books.differences() == []


@settings(max_examples=examples(8), suppress_health_check=ONE_DATABASE)
@given(streams(conflicts=False, broken=False), CHANCES)
def test_two_recorders_at_once_come_to_the_same(books: Books, stream: Stream, chance: random.Random) -> None:
    """Two doors, the same instances, some events through both; accounts asked alone give the same bills."""
    events, book, contract, _ = stream
    terms = terms_of(book, contract)
    books.fresh(terms)
    shares = [[e for e in events if chance.random() < 0.7] for _ in range(2)]
    shares[1] += [e for e in events if e not in shares[0] and e not in shares[1]]
    failures: list[BaseException] = []

    def run(door: str, share: list[list[Event]]) -> None:
        try:
            with closing(Recorder(books.url)) as recorder:
                for batch in share:
                    recorder.record(door, lines_of(batch))
        except BaseException as error:  # noqa: BLE001  # a thread's failure is the test's
            failures.append(error)

    threads = [
        threading.Thread(target=run, args=(f"door {place}", batches(share, chance)))
        for place, share in enumerate(shares)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

    as_of = latest(events)
    if as_of >= 0:
        wanted = pure(events, terms, as_of)
        assert books.bills(as_of)["bills"] == wanted["bills"]
        for account in ("acct-1", "acct-2"):
            alone = [bill for bill in wanted["bills"] if bill["account"] == account]
            assert books.bills(as_of, account)["bills"] == alone
    assert books.differences() == []
