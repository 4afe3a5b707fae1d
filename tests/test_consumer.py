"""The consumer, every story on a log in memory and on real Kafka."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest

from metering import dead_letters, offsets
from metering.consumer import Consumer
from metering.dead_letters import Limits, TooManyDeadLetters
from metering.kafka_log import AutoCommitRefused, KafkaLog
from metering.log import PositionGone
from metering.messages import read_message
from metering.reading import Read, read_batch
from tests.books_kit import Books, books, event, instant
from tests.ledger_kit import lines_of
from tests.memory_log import Stored
from tests.stream_kit import FAST, KafkaStage, MemoryStage, Stage, array, net

START, STOP, BEAT = "instance.started", "instance.stopped", "instance.heartbeat"
Stages = Callable[[int], Stage]


@pytest.fixture(params=["memory", "kafka"])
def stages(request: pytest.FixtureRequest) -> Iterator[Stages]:
    """Makes a topic with so many partitions."""
    made: list[KafkaStage] = []

    def make(partitions: int) -> Stage:
        if request.param == "memory":
            return MemoryStage(partitions)
        made.append(KafkaStage(request.getfixturevalue("kafka"), request.getfixturevalue("topic")(partitions)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def stage(stages: Stages) -> Stage:
    return stages(1)


@pytest.fixture
def ledger(database_url: str) -> Iterator[Books]:
    with books(database_url) as opened:
        yield opened


def hour(instance: str = "i", day: int = 1) -> list[bytes]:
    return [event(f"2026-03-{day:02} 10:00", START, instance), event(f"2026-03-{day:02} 11:00", STOP, instance)]


def seconds(ledger: Books) -> dict[str, int]:
    found: dict[str, int] = {}
    for subject, *_, quantity in net(ledger.db):
        found[subject] = found.get(subject, 0) + int(quantity)
    return found


def counts(ledger: Books) -> tuple[int, int, int, int]:
    row = ledger.db.execute("SELECT sum(received), sum(accepted), sum(duplicate), sum(rejected) FROM batch").fetchone()
    assert row
    return tuple(int(each or 0) for each in row)  # type: ignore[return-value]


def next_offsets(ledger: Books) -> list[int]:
    return [each.next_offset for each in offsets.recorded(ledger.db)]


# --- what is recorded ------------------------------------------------------------------------------------------------


def test_single_events_and_arrays_reach_the_ledger(stage: Stage, ledger: Books) -> None:
    first, last = hour("a")
    stage.send(first, key=b"a")
    stage.send(last, key=b"a")
    stage.send(array(*hour("b"), *hour("c")))
    stage.send(b" [ ] ")

    stage.consume(ledger.url)

    assert seconds(ledger) == {"a": 3600, "b": 3600, "c": 3600}
    assert counts(ledger) == (6, 6, 0, 0)
    assert next_offsets(ledger) == [4]
    assert stage.told(0) == 4
    assert ledger.verify() == []


def test_it_goes_on_where_the_database_says_whatever_the_log_was_told(stage: Stage, ledger: Books) -> None:
    stage.send(hour()[0])
    stage.consume(ledger.url)
    stage.flush()
    liar = stage.member()
    liar.poll(0.5)
    liar.acknowledge({stage.partition(): 0})
    liar.close()
    stage.send(hour()[1])

    stage.consume(ledger.url)

    assert counts(ledger) == (2, 2, 0, 0)
    assert seconds(ledger) == {"i": 3600}


def test_the_whole_topic_again_changes_nothing(stage: Stage, ledger: Books) -> None:
    for day in range(1, 6):
        stage.send(array(*hour("a", day), *hour("b", day)))
        stage.send(array(event(f"2026-03-{day:02} 10:00:30", BEAT, "a"), event(f"2026-03-{day:02} 10:59", BEAT, "a")))
    stage.consume(ledger.url)
    before, entries = net(ledger.db), ledger.db.execute("SELECT count(*) FROM entry").fetchone()

    with ledger.db.transaction():
        assert offsets.rewind(ledger.db, stage.topic) == 1
    stage.consume(ledger.url)

    assert net(ledger.db) == before
    assert ledger.db.execute("SELECT count(*) FROM entry").fetchone() == entries
    assert counts(ledger) == (60, 40, 20, 0)
    assert ledger.verify() == []


def test_a_batch_is_as_large_as_was_asked_for(stage: Stage, ledger: Books) -> None:
    for day in range(1, 11):
        stage.send(array(*hour("a", day)))

    stage.consume(ledger.url, replace(FAST, size=replace(FAST.size, events=4)))

    rows = ledger.db.execute("SELECT received FROM batch ORDER BY number").fetchall()
    assert [row[0] for row in rows] == [4, 4, 4, 4, 4]


# --- who may write ---------------------------------------------------------------------------------------------------


def test_a_late_consumer_cannot_write_to_a_partition_that_it_lost(stage: Stage, ledger: Books) -> None:
    stage.send(hour()[0])
    stage.flush()
    late = stage.consumer(ledger.url)
    member, recorder = late._connected()
    while not late._held:
        late._round(member, recorder)
    late.close()
    stage.send(hour()[1])
    stage.consume(ledger.url)
    held = late._held[stage.partition()]

    with pytest.raises(offsets.PartitionLost), ledger.db.transaction():
        offsets.advance(ledger.db, stage.partition(), held.claim, 5)

    assert next_offsets(ledger) == [2]


def test_two_members_share_the_partitions_and_one_takes_over_what_the_other_leaves(
    stages: Stages, ledger: Books
) -> None:
    stage = stages(4)
    for partition in range(4):
        stage.send(hour(f"i{partition}")[0], partition)
    stage.flush()
    plan = replace(FAST, until_caught_up=False)
    one, other = stage.consumer(ledger.url, plan), stage.consumer(ledger.url, plan)

    _alternate(one, other, until=lambda: len(one._held) == len(other._held) == 2 and sum(next_offsets(ledger)) == 4)
    one.close()
    for partition in range(4):
        stage.send(hour(f"i{partition}")[1], partition)
    stage.flush()
    _alternate(other, until=lambda: sum(next_offsets(ledger)) == 8)
    other.close()

    assert seconds(ledger) == dict.fromkeys(("i0", "i1", "i2", "i3"), 3600)
    assert counts(ledger) == (8, 8, 0, 0)
    assert ledger.verify() == []


def _alternate(*consumers: Consumer, until: Callable[[], bool]) -> None:
    """Rounds of several consumers, each in a thread, so that they can meet in the group."""
    deadline = monotonic() + 60
    for each in consumers:
        each.stop.clear()
    threads = [Thread(target=_turns, args=[each]) for each in consumers]
    for thread in threads:
        thread.start()
    try:
        while not until():
            assert monotonic() < deadline
            sleep(0.05)
    finally:
        for each in consumers:
            each.stop.set()
        for thread in threads:
            thread.join()


def _turns(consumer: Consumer) -> None:
    while not consumer.stop.is_set():
        consumer._turn()


# --- what cannot be read ---------------------------------------------------------------------------------------------


def test_unreadable_messages_are_kept_whole_and_counted(stage: Stage, ledger: Books) -> None:
    good = hour("i")
    ledger.record(*good)
    bad: list[bytes | None] = [b"not JSON", None, b'[{"a": 1}, 2]', b"[" * 5000, b'{"specversion": "1.0"}', b"[1, "]
    for value in bad:
        stage.send(value, key=b"i", second=instant("2026-03-02 00:00"))
    stage.send(array(hour("j")[0], b'{"no": "event"}', hour("j")[1]))

    stage.consume(ledger.url)

    kept = dead_letters.listed(ledger.db)
    assert [(each.offset, each.raw, each.reason) for each in kept] == [
        (offset, value or b"", "malformed") for offset, value in enumerate(bad)
    ]
    assert {each.accounts for each in kept} == {("acct",)}
    assert kept[0].to_json()["received_at"] == "2026-03-01T16:00:00+00:00"
    rows = ledger.db.execute("SELECT position, detail FROM reject ORDER BY id").fetchall()
    assert [row[0] for row in rows] == [
        f"{stage.topic}/0@{where}" for where in ("0", "1", "2#0", "2#1", "3", "4", "5", "6#1")
    ]
    assert counts(ledger) == (2 + 7 + 3, 4, 0, 8)
    assert seconds(ledger) == {"i": 3600, "j": 3600}


@pytest.mark.parametrize(
    ("limits", "recorded", "why"),
    [(Limits(in_a_row=3), 4, "3 messages in a row"), (Limits(percent=1, window=200), 3, "2 of the last 200")],
)
def test_too_many_dead_letters_stop_the_consumer_also_when_it_is_started_again(
    stage: Stage, ledger: Books, limits: Limits, recorded: int, why: str
) -> None:
    stage.send(hour()[0])
    for number in range(5):
        stage.send(b"bad %d" % number)
    stage.send(hour()[1])
    plan = replace(FAST, limits=limits)

    for _ in range(2):
        with pytest.raises(TooManyDeadLetters, match=why):
            stage.consume(ledger.url, plan)
        assert next_offsets(ledger) == [recorded]
        assert len(dead_letters.listed(ledger.db)) == recorded - 1

    stage.consume(ledger.url)
    assert seconds(ledger) == {"i": 3600}
    assert len(dead_letters.listed(ledger.db)) == 5


def test_messages_lost_to_retention_stop_the_consumer_unless_told_otherwise(stage: Stage, ledger: Books) -> None:
    for day in (1, 2, 3):
        stage.send(array(*hour("i", day)))
        if day == 1:
            stage.consume(ledger.url)
    stage.drop_before(0, 2)

    with pytest.raises(PositionGone, match=r"offset 1, but the log holds 2 to 3"):
        stage.consume(ledger.url)
    assert next_offsets(ledger) == [1]

    stage.consume(ledger.url, replace(FAST, skip_lost=True))
    assert seconds(ledger) == {"i": 7200}
    assert [(each.offset, each.reason) for each in dead_letters.listed(ledger.db)] == [(1, "lost")]


def test_another_topic_of_the_same_name_stops_the_consumer(stage: Stage, ledger: Books) -> None:
    stage.send(hour()[0])
    stage.consume(ledger.url)
    with ledger.db.transaction():
        offsets.rewind(ledger.db, stage.topic, 77)

    for plan in (FAST, replace(FAST, skip_lost=True)):
        with pytest.raises(PositionGone, match="is this the same topic"):
            stage.consume(ledger.url, plan)


def test_a_heartbeat_from_the_future_proves_nothing_and_is_noted(stage: Stage, ledger: Books) -> None:
    received = instant("2026-03-01 10:30")
    stage.send(hour()[0])
    beats = [event(f"2026-03-01 {time}", BEAT) for time in ("10:35", "10:35:01", "12:00", "10:10")]
    stage.send(array(*beats), second=received)
    stage.send(json.dumps({**json.loads(beats[2]), "time": "2026-03-01T13:00:00+08:00"}).encode(), second=received)

    stage.consume(ledger.url)

    runs = ledger.db.execute("SELECT first, last FROM proof_run ORDER BY first").fetchall()
    assert runs == [(instant(f"2026-03-01 {time}"),) * 2 for time in ("10:10", "10:35")]
    early = ledger.db.execute("SELECT first, last, count FROM early_beat").fetchall()
    assert early == [(instant("2026-03-01 10:35") + 1, instant("2026-03-01 13:00"), 3)]
    assert counts(ledger) == (6, 6, 0, 0)


def test_auto_commit_is_refused(kafka: str) -> None:
    with pytest.raises(AutoCommitRefused):
        KafkaLog(kafka, "t", "g", settings={"enable_auto_commit": True})


# --- arrays of heartbeats --------------------------------------------------------------------------------------------

ODD: list[dict[str, Any]] = [
    {"time": "2026-03-01T00:00:00.999Z"}, {"time": "2026-03-01T08:00:00+08:00"}, {"time": "2026-03-01 00:00:00Z"},
    {"time": "2026-02-30T00:00:00Z"}, {"time": "2026-03-01T00:00:00"}, {"time": "2026-03-01T00:00:00.5+00:00"},
    {"time": "2026-03-01T00:00:00.Z"}, {"time": "2026-03-01T00:00:60Z"}, {"time": "1999-12-31T23:59:59Z"},
    {"data": None}, {"data": {}}, {"data": {"session": ""}}, {"data": {"session": "s"}}, {"data": {"session": "\x7f"}},
    {"data": {"account": "a", "sku": "s", "cards": 1}}, {"data": {"account": "a", "sku": "s", "cards": -1}},
    {"data": {"account": "a\u0001", "sku": "s", "cards": 1}}, {"id": ""}, {"subject": "ü"}, {"subject": "a\nb"},
    {"more": [[[[1]]]]}, {"more": json.loads("[" * 70 + "]" * 70)}, {"type": START}, {"type": "no.such"}, {"source": 7},
    {"specversion": "0.3"}, {"data": {"labels": {"a": {"b": ["{", "}"]}}}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_the_quick_way_reads_arrays_of_heartbeats_as_the_careful_way_does(odd: dict[str, Any]) -> None:
    base = {
        "specversion": "1.0", "id": "x", "source": "/s", "type": BEAT, "subject": "i", "time": "2026-03-01T00:00:00Z",
        "data": {"session": "s"},
    }  # fmt: skip
    events = [{**base, "id": "1"}, {**base, **odd}, {**base, "subject": "j", "time": "2026-03-01T00:00:01Z"}]
    raw = json.dumps(events, ensure_ascii=False).encode()
    quick = Read()
    partition = MemoryStage().partition()

    read_message(quick, partition, Stored(0, None, raw, 0), 0, 2**62)

    careful = read_batch(lines_of([json.dumps(each, ensure_ascii=False).encode() for each in events]))
    assert (quick.received, quick.heard, quick.seconds, quick.births) == (
        careful.received, careful.heard, careful.seconds, careful.births
    )  # fmt: skip
    assert [(i, str(fault)) for i, _, fault in quick.unreadable] == [
        (i, str(fault)) for i, _, fault in careful.unreadable
    ]
    assert [(i, repr(fact)) for i, fact in quick.facts] == [(i, repr(fact)) for i, fact in careful.facts]
