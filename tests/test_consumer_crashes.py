"""Whatever dies when, the ledger says in the end what it says of an undisturbed run, net of reversals."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from core.calendar import second_of
from core.clock import now
from metering import offsets
from pricing.load import parse_terms
from tests.books_kit import BOOK, instant
from tests.conftest import _made as made
from tests.crash_kit import Cluster, Disasters, Topic, describe, topic_of
from tests.ledger_kit import Books, examples, opened
from tests.stream_kit import net

TERMS = parse_terms(BOOK.encode(), "book.yaml")
TOPICS, RUNS = examples(20), 6
LATER = instant("2026-04-20 00:00")
ONLY = os.environ.get("GPU_BILLING_CRASH", "")
"""``topic,disasters``: the two seeds of one run to see again."""

pytestmark = pytest.mark.skipif(
    "GPU_BILLING_CRASHES" not in os.environ,
    reason="kills brokers, servers and consumers for many minutes; GPU_BILLING_CRASHES=1 runs them",
)


@dataclass(frozen=True)
class Said:
    """What the ledger says."""

    seconds: set[tuple[Any, ...]]
    bills: Any
    letters: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def ledger(server_url: str, template_url: str) -> Iterator[Books]:
    with made(server_url, template_url) as url, opened(url) as books:
        yield books


def played(ledger: Books, topic: Topic, disasters: Disasters) -> Said:
    """Have a topic recorded among disasters."""
    ledger.fresh(TERMS)
    Cluster(ledger.url, topic, disasters).run()
    return said(ledger, topic)


def said(ledger: Books, topic: Topic) -> Said:
    assert ledger.differences() == []
    assert sum(each.next_offset for each in offsets.recorded(ledger.db)) == len(topic.messages)
    letters = ledger.db.execute('SELECT partition, "offset", reason, raw FROM dead_letter ORDER BY 1, 2').fetchall()
    return Said(net(ledger.db), ledger.bills(LATER), letters)


def received(ledger: Books) -> int:
    row = ledger.db.execute(
        "SELECT sum(b.received) FROM batch b JOIN door d ON d.id = b.door_id WHERE d.name LIKE 'kafka:%'"
    ).fetchone()
    return int(row[0]) if row else 0


@pytest.mark.parametrize("seed", [int(ONLY.split(",")[0])] if ONLY else range(TOPICS))
def test_disasters_change_nothing(ledger: Books, seed: int) -> None:
    topic = topic_of(seed)
    calm = played(ledger, topic, Disasters(0, 0))
    for run in [int(ONLY.split(",")[1])] if ONLY else range(1, RUNS + 1):
        disasters = Disasters(seed * 1000 + run, 8)
        again = f"GPU_BILLING_CRASH={seed},{run}"
        try:
            stormy = played(ledger, topic, disasters)
        except BaseException as error:
            error.add_note(f"{again} {describe(seed, run, disasters.struck)}")
            raise
        assert stormy == calm, f"{again} {describe(seed, run, disasters.struck)}"
        assert received(ledger) == topic.events, again


def test_the_whole_topic_again_after_disasters_changes_nothing(ledger: Books) -> None:
    for seed in range(3):
        topic = topic_of(seed)
        before = played(ledger, topic, Disasters(seed, 5))
        with ledger.db.transaction():
            offsets.rewind(ledger.db, "usage.events")
        topic.beside = []
        Cluster(ledger.url, topic, Disasters(seed + 100, 5)).run()
        after = said(ledger, topic)
        assert (after.seconds, after.letters) == (before.seconds, before.letters)
        assert after.bills["bills"] == before.bills["bills"]


def test_a_seed_gives_the_same_topic_and_the_same_disasters() -> None:
    assert topic_of(7) == topic_of(7) != topic_of(8)
    assert Disasters(7, 3)._wanted == Disasters(7, 3)._wanted


def test_instants_of_these_stories_lie_in_the_past() -> None:
    assert second_of(now()) > LATER  # else heartbeats would come from the future
