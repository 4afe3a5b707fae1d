"""Topics of events on a broker: there, with as many partitions as were asked for."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from core.errors import BillingError
from metering.events import MAX_EVENT_BYTES

EVENTS = "usage.events"
MESSAGE_BYTES_MAX = 4 * MAX_EVENT_BYTES
"""Of a message as it lies on the topic: one event of the largest size and all that Kafka writes around it."""

BOOTSTRAP_MS = 10_000


class BrokerUnreachable(BillingError):
    """The broker did not do what it was asked for."""

    def __init__(self, bootstrap: str, error: Exception | str) -> None:
        said = error if isinstance(error, str) else f"{type(error).__name__}: {error}".removesuffix(": ")
        super().__init__(f"Kafka at {bootstrap}: {said}")


def ensure_topic(bootstrap: str, topic: str, partitions: int) -> bool:
    """Makes a topic where it is not there and waits until it can be used; false when it was there, as it is."""
    wanted = NewTopic(topic, partitions, -1, topic_configs={"max.message.bytes": str(MESSAGE_BYTES_MAX)})
    with _admin(bootstrap) as admin:
        try:
            admin.create_topics([wanted])
        except TopicAlreadyExistsError:
            return False
        admin.wait_for_topics([topic], timeout_ms=30_000)
    return True


def delete_topics(bootstrap: str, topics: list[str]) -> None:
    """Deletes topics with all that is in them."""
    with _admin(bootstrap) as admin:
        admin.delete_topics(topics)


@contextmanager
def _admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    try:
        with KafkaAdminClient(bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=BOOTSTRAP_MS) as admin:
            yield admin
    except KafkaError as error:
        raise BrokerUnreachable(bootstrap, error) from error
