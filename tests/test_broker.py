"""The embedded broker: it comes up, keeps what it was given, and leaves nothing behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from core import broker_jars
from core.broker import BrokerFailed, EmbeddedBroker
from core.broker_jars import BrokerUnavailable
from metering import topics
from metering.topics import BrokerUnreachable, ensure_topic
from tests import kafka_kit
from tests.kafka_kit import Topic


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for value in values:
        producer.send(topic, value, partition=0)
    producer.flush(60)
    producer.close()


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [record.value for records in consumer.poll(500).values() for record in records]
    consumer.close()
    return found


def test_a_topic_keeps_its_messages_over_stop_and_kill(own_broker: EmbeddedBroker, topic: Topic) -> None:
    address = own_broker.bootstrap
    name = topic()
    send(address, name, b"one")
    own_broker.restart()
    send(address, name, b"two")
    own_broker.kill()
    assert not own_broker.is_running
    own_broker.start()
    send(address, name, b"three")

    assert own_broker.bootstrap == address
    assert read(address, name, 3) == [b"one", b"two", b"three"]


def test_a_topic_is_made_once(kafka: str, topic: Topic) -> None:
    name = topic(partitions=3)

    assert ensure_topic(kafka, name, 5) is False
    consumer = KafkaConsumer(bootstrap_servers=kafka)
    assert consumer.partitions_for_topic(name) == {0, 1, 2}
    consumer.close()


def test_no_broker_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "BOOTSTRAP_MS", 500)
    with pytest.raises(BrokerUnreachable, match=r"^Kafka at 127\.0\.0\.1:1: "):
        ensure_topic("127.0.0.1:1", "any", 1)


def test_the_broker_dies_with_its_parent(own_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Whatever kills the parent; a process that sleeps stands for Java here."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from core.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(Path(sys.argv[1]))\n"
        "broker._java = lambda *words: ['sleep', '600']\n"
        "broker._take_folder()\n"
        "broker._launch()\n"
        "print(broker._process_id, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        broker = psutil.Process(int(parent.stdout.readline()))
        assert broker.is_running()
        parent.send_signal(signal.SIGKILL)
    broker.wait(timeout=10)


def test_a_folder_has_one_broker(own_broker: EmbeddedBroker) -> None:
    second = EmbeddedBroker(own_broker.folder)

    with pytest.raises(BrokerFailed, match=r"^embedded Kafka in .*: another command runs a broker there$"):
        second.start()
    assert not second.is_running
    assert own_broker.is_running


def test_a_broker_that_cannot_start_says_why(kafka: str, tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    broker.port = int(kafka.partition(":")[2])  # taken

    with pytest.raises(BrokerFailed, match=r"Address already in use.*server\.log"):
        broker.start()
    assert not broker.is_running


def test_a_file_in_the_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("no folder")
    with pytest.raises(BrokerFailed, match=r"File exists|Not a directory"):
        EmbeddedBroker(tmp_path / "kafka").start()


def test_without_java_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match=r"there is no java\. Install Java 17 or newer and Maven, or set GPU_"):
        broker_jars.java()


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match="is of version 11"):
        broker_jars.java()


def test_without_maven_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(broker_jars, "user_cache_path", lambda *_, **__: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match="there is no mvn"):
        broker_jars.jars()


def test_what_maven_says_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mvn").write_text("#!/bin/sh\necho '[ERROR] Could not resolve anything'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setattr(broker_jars, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match="Maven: Could not resolve anything"):
        broker_jars.jars()
    assert [each.name for each in (tmp_path / "cache").iterdir()] == ["kafka.lock"]


def test_where_kafka_is_required_a_skip_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_BILLING_REQUIRE_KAFKA", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no broker"):
        kafka_kit.without_kafka("no broker")
    monkeypatch.setenv("GPU_BILLING_REQUIRE_KAFKA", "1")
    with pytest.raises(pytest.fail.Exception, match="no broker"):
        kafka_kit.without_kafka("no broker")
