"""A real Apache Kafka for the tests that ask: `kafka` is its address, `topic` a fresh topic on it.

`GPU_BILLING_KAFKA` names a broker that runs already; else one is started for the whole run. A machine that has neither
skips these tests and says how to get one, unless `GPU_BILLING_REQUIRE_KAFKA=1`, with which that is a failure.
"""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from core.broker import EmbeddedBroker
from core.broker_jars import BrokerUnavailable
from metering.topics import delete_topics, ensure_topic

Topic = Callable[..., str]


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker | None]:
    """The broker of this run; none where one is given."""
    if os.environ.get("GPU_BILLING_KAFKA"):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="gpu-billing-test-", ignore_cleanup_errors=True) as name:
        ours = EmbeddedBroker(Path(name) / "kafka")
        try:
            ours.start()
        except BrokerUnavailable as error:
            without_kafka(str(error))
        yield ours
        ours.stop()


def without_kafka(reason: str) -> NoReturn:
    """Skips the test, or fails it where Kafka has to be there."""
    if os.environ.get("GPU_BILLING_REQUIRE_KAFKA") == "1":
        pytest.fail(f"GPU_BILLING_REQUIRE_KAFKA=1, and {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def kafka(broker: EmbeddedBroker | None) -> str:
    """The bootstrap servers of a broker that runs, also when the test before has killed it."""
    if broker is None:
        return os.environ["GPU_BILLING_KAFKA"]
    broker.start()
    return broker.bootstrap


@pytest.fixture
def own_broker(broker: EmbeddedBroker | None, kafka: str) -> EmbeddedBroker:
    """The broker of this run, for tests that stop, kill and restart it."""
    if broker is None:
        pytest.skip("the broker that GPU_BILLING_KAFKA names is not ours to restart")
    return broker


@pytest.fixture
def topic(kafka: str) -> Iterator[Topic]:
    """Makes topics of the test's own: `topic(partitions=3)` returns the name of one that is there and empty."""
    made: list[str] = []

    def make(partitions: int = 1) -> str:
        made.append(f"test.{uuid.uuid4().hex[:12]}")
        ensure_topic(kafka, made[-1], partitions)
        return made[-1]

    yield make
    if made and "GPU_BILLING_KAFKA" in os.environ:  # our own broker goes away with all of them
        delete_topics(kafka, made)
