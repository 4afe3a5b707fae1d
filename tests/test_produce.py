"""Events onto a topic: which partition, which message, and what becomes of lines that are no events."""

import io
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaConsumer, TopicPartition
from kafka.partitioner import DefaultPartitioner

from cli import main
from metering import topics
from metering.fleet import fleet_events
from metering.lines import Line, read_lines
from metering.produce import ARRAY_BYTES, SETTINGS, OutMessage, Produced, messages, partition_of, produce
from metering.produce import Topic as Sending
from tests.kafka_kit import Topic


def event(number: int, subject: str, **more: str) -> bytes:
    return json.dumps({
        "specversion": "1.0", "id": str(number), "source": "/h", "type": "instance.heartbeat", "subject": subject,
        "time": "2026-03-01T00:00:00Z", "data": {}, **more,
    }).encode()  # fmt: skip


def lines(*raw: bytes) -> list[Line]:
    return [Line(number, each, len(each)) for number, each in enumerate(raw, 1)]


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[bytes | None, bytes]]]:
    """Every partition's messages, key and value, in order."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    parts = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
    consumer.assign(parts)
    ends = consumer.end_offsets(parts)
    found: dict[int, list[tuple[bytes | None, bytes]]] = {part.partition: [] for part in parts}
    deadline = time.monotonic() + 60
    while sum(map(len, found.values())) < sum(ends.values()) and time.monotonic() < deadline:
        for part, records in consumer.poll(500).items():
            found[part.partition] += [(record.key, record.value) for record in records]
    consumer.close()
    return found


def test_single_events_go_to_the_partition_of_their_instance() -> None:
    one, two = event(1, "i-1"), event(2, "i-2")

    assert list(messages(lines(one, two), array=1, partitions=8)) == [
        OutMessage(b"i-1", one, partition_of(b"i-1", 8), 1),
        OutMessage(b"i-2", two, partition_of(b"i-2", 8), 1),
    ]


def test_arrays_hold_events_of_one_partition_and_are_sent_when_full() -> None:
    a, b, c = event(1, "i-1"), event(2, "i-2"), event(3, "i-1")

    assert list(messages(lines(a, b, c), array=2, partitions=1)) == [
        OutMessage(b"i-1", b"[" + a + b"," + b + b"]", 0, 2),
        OutMessage(b"i-1", b"[" + c + b"]", 0, 1),
    ]


def test_bad_lines_go_alone_and_as_they_are_behind_what_came_before_them() -> None:
    good, later = event(1, "i-1"), event(4, "i-1")
    cut, addressed = good[:40], event(3, "i-1", time="yesterday")
    noted: list[tuple[int, str]] = []

    found = list(
        messages(lines(good, cut, addressed, later), array=10, partitions=1, note=lambda *each: noted.append(each))
    )

    assert found == [
        OutMessage(None, cut, None, 1),
        OutMessage(b"i-1", b"[" + good + b"]", 0, 1),
        OutMessage(b"i-1", addressed, 0, 1),
        OutMessage(b"i-1", b"[" + later + b"]", 0, 1),
    ]
    assert [(line, reason.partition(":")[0]) for line, reason in noted] == [(2, "malformed"), (3, "malformed")]


def test_an_array_ends_before_it_is_too_long() -> None:
    long = [event(number, "i-1", note="x" * 300_000) for number in range(8)]

    found = list(messages(lines(*long), array=500, partitions=1))

    assert [each.lines for each in found] == [3, 3, 2]
    assert all(len(each.value) <= ARRAY_BYTES for each in found)


@given(
    subjects=st.lists(st.sampled_from([f"i-{number}" for number in range(12)] + [""]), max_size=60),
    array=st.integers(1, 7),
    partitions=st.integers(1, 5),
)
def test_nothing_is_lost_and_an_instance_keeps_its_order(subjects: list[str], array: int, partitions: int) -> None:
    given_events = [event(number, subject) for number, subject in enumerate(subjects)]

    found = list(messages(lines(*given_events), array, partitions))

    sent: dict[str, list[str]] = {}
    for message in found:
        parsed = json.loads(message.value)
        each = parsed if isinstance(parsed, list) else [parsed]
        assert message.lines == len(each) <= array
        for body in each:
            sent.setdefault(body["subject"], []).append(body["id"])
            if body["subject"]:  # an event without a subject is bad, and has no key
                assert message.partition == partition_of(body["subject"].encode(), partitions)
    wanted: dict[str, list[str]] = {}
    for number, subject in enumerate(subjects):
        wanted.setdefault(subject, []).append(str(number))
    assert sent == wanted


def test_partitions_are_those_of_kafkas_own_clients() -> None:
    class Cluster:
        def topics(self) -> set[str]:
            return {"t"}

        def partitions_for_topic(self, _: str) -> set[int]:
            return set(range(7))

        available_partitions_for_topic = partitions_for_topic

    for number in range(200):
        key = f"i-{number}".encode()
        assert partition_of(key, 7) == DefaultPartitioner().partition("t", key, key, None, None, Cluster())


@pytest.mark.parametrize("array", [1, 50])
def test_a_fleets_month_arrives_whole_and_in_order(
    kafka: str, topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str], array: int
) -> None:
    name = topic(partitions=3)
    file = tmp_path / "events.jsonl"
    sent = list(fleet_events("2026-03", 7, 40))
    file.write_bytes(b"".join(each + b"\n" for each in sent))

    assert main.run(["produce", str(file), "--topic", name, "--array", str(array), "--bootstrap", kafka]) == 0

    assert capsys.readouterr().out.startswith(f"{len(sent):,} events in ")
    found = read_all(kafka, name)
    assert len([number for number in found if found[number]]) == 3
    for number, records in found.items():
        bodies = [body for _, value in records for body in (json.loads(value) if array > 1 else [json.loads(value)])]
        wanted = [json.loads(each) for each in sent]
        assert bodies == [each for each in wanted if partition_of(each["subject"].encode(), 3) == number]


def test_fleet_writes_the_same_events_to_the_topic_and_to_standard_output(
    kafka: str, topic: Topic, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("GPU_BILLING_KAFKA", kafka)
    name = topic(partitions=1)
    words = ["fleet", "--month", "2026-03", "--seed", "3", "--instances", "20"]

    assert main.run(words) == 0
    written = capfdbinary.readouterr().out
    assert main.run([*words, "--to-kafka", "--topic", name]) == 0

    assert [value for _, value in read_all(kafka, name)[0]] == written.splitlines()


def test_bad_lines_are_told_and_sent(
    kafka: str, topic: Topic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = topic()
    file = tmp_path / "events.jsonl"
    file.write_bytes(event(1, "i-1") + b"\nno event\n")

    assert main.run(["produce", str(file), "--topic", name, "--array", "5", "--bootstrap", kafka]) == 0

    said = capsys.readouterr()
    assert said.err.startswith("line 2: sent as it is, the consumer will refuse it: malformed: ")
    assert said.out.startswith("2 events in 2 messages ")
    assert sorted(value for _, value in read_all(kafka, name)[0]) == [b"[" + event(1, "i-1") + b"]", b"no event"]


def test_a_rate_is_kept(kafka: str, topic: Topic) -> None:
    to = Sending(kafka, topic())
    stream = io.BytesIO(b"\n".join(event(number, "i-1") for number in range(40)))
    done, began = Produced(), time.monotonic()
    produce(to, read_lines(stream, "events"), done, rate=20)
    to.close()

    assert done.lines == 40
    assert 1.8 < time.monotonic() - began < 10


def test_a_topic_that_is_not_there_is_one_line(
    kafka: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "max_block_ms", 1_000)
    assert main.run(["fleet", "--instances", "20", "--to-kafka", "--topic", "nowhere", "--bootstrap", kafka]) == 2
    assert capsys.readouterr().err.startswith(f"gpu-billing: Kafka at {kafka}: ")


def test_no_broker_named_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_BILLING_KAFKA", raising=False)
    assert main.run(["fleet", "--to-kafka"]) == 2
    assert capsys.readouterr().err.startswith("gpu-billing: no broker: set GPU_BILLING_KAFKA")


def test_no_broker_there_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "bootstrap_timeout_ms", 500)
    monkeypatch.setattr(topics, "BOOTSTRAP_MS", 500)
    for more in ([], ["--partitions", "3"]):
        assert main.run(["fleet", "--to-kafka", "--bootstrap", "127.0.0.1:1", *more]) == 2
        assert capsys.readouterr().err.startswith("gpu-billing: Kafka at 127.0.0.1:1: ")
