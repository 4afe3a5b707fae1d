"""The demo's month through a real Kafka: a broker for as long as it takes, a topic, and the consumer of production."""

import logging
from pathlib import Path
from typing import Final

from core.config import Settings

TOPIC: Final = "usage.events"
PARTITIONS: Final = 3


def stream(settings: Settings, url: str, events: Path) -> tuple[dict[str, int], str]:
    """Send a file of events and record it until nothing is left; how many by outcome, and a line about the way.

    The broker's log stays in the data folder, beside the books that say how far it has been read.
    """
    from core import logs
    from core.broker import EmbeddedBroker
    from metering.lines import read_lines
    from metering.produce import Produced, Topic, produce
    from metering.topics import ensure_topic

    logs.configure(logging.ERROR)  # what a group says when it forms is of no interest here
    with EmbeddedBroker(settings.data / "kafka") as broker:
        ensure_topic(broker.bootstrap, TOPIC, PARTITIONS)
        topic, sent = Topic(broker.bootstrap, TOPIC), Produced()
        try:
            with events.open("rb") as lines:
                produce(topic, read_lines(lines, str(events)), sent, array=20)
        finally:
            topic.close()
        _consume(broker.bootstrap, url)
    return _outcomes(), f"{sent.messages:,} messages on {PARTITIONS} partitions of {TOPIC}, Kafka at {broker.bootstrap}"


def _consume(servers: str, url: str) -> None:
    from metering.consumer import Consumer, Plan
    from metering.kafka_log import KafkaLog
    from metering.recorder import Recorder

    Consumer(lambda: KafkaLog(servers, TOPIC, "demo"), lambda: Recorder(url), Plan(until_caught_up=True)).run()


def _outcomes() -> dict[str, int]:
    """What the consumer of this process counted."""
    from metering.metrics import EVENTS

    samples = (each for metric in EVENTS.collect() for each in metric.samples if each.name.endswith("_total"))
    found = {each.labels["outcome"]: int(each.value) for each in samples}
    accepted = found.get("accepted", 0) + found.get("early", 0)
    return {"accepted": accepted, "duplicate": found.get("duplicate", 0), "rejected": found.get("rejected", 0)}
