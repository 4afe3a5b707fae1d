"""`gpu-billing produce` and `gpu-billing fleet`: events onto a topic, or a made-up fleet's to standard output."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from metering.produce import Produced, Topic

TOPIC = "usage.events"

TopicName = Annotated[str, typer.Option("--topic", help="The topic.")]
Array = Annotated[int, typer.Option(min=1, max=10_000, help="Events in one message; 1 sends each by itself.")]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Events a second at most.")]
Bootstrap = Annotated[str | None, typer.Option(help="Bootstrap servers; default GPU_BILLING_KAFKA.")]
Partitions = Annotated[
    int | None, typer.Option(min=1, max=10_000, help="Make the topic with so many, where it is not there.")
]


def produce(
    file: Annotated[Path, typer.Argument(help="Usage events, one JSON object a line; - is standard input.")],
    topic: TopicName = TOPIC,
    array: Array = 1,
    rate: Rate = None,
    bootstrap: Bootstrap = None,
    partitions: Partitions = None,
) -> None:
    """Send a file of events to Kafka; lines that are no events go as they are, and are told."""
    from cli.files import opened, progress, shown_name
    from metering.lines import read_lines
    from metering.produce import Produced
    from metering.produce import produce as send

    name, done = shown_name(file), Produced()
    with opened(file) as stream, _sending(bootstrap, topic, partitions, done) as to, progress(stream, name) as moved:
        send(to, read_lines(stream, name), done, array, rate, moved)


def fleet(
    month: Annotated[str, typer.Option(help="The month.")] = "2026-03",
    seed: Annotated[int, typer.Option(help="Another seed is another fleet.")] = 1,
    instances: Annotated[int, typer.Option(min=20, max=5000, help="How many instances.")] = 320,
    to_kafka: Annotated[bool, typer.Option("--to-kafka", help="Send them to the topic.")] = False,
    topic: TopicName = TOPIC,
    array: Array = 1,
    rate: Rate = None,
    bootstrap: Bootstrap = None,
    partitions: Partitions = None,
) -> None:
    """Write the events of a made-up fleet's month, in the order in which they would have come."""
    import sys

    from cli.times import parse_month
    from metering.fleet import fleet_events
    from metering.lines import Line
    from metering.produce import Produced
    from metering.produce import produce as send

    parse_month(month)  # refuses what is none
    events = fleet_events(month, seed, instances)
    if not to_kafka:
        sys.stdout.flush()
        for event in events:
            sys.stdout.buffer.write(event + b"\n")
        return
    done = Produced()
    with _sending(bootstrap, topic, partitions, done) as to:
        send(to, (Line(number, event, len(event)) for number, event in enumerate(events, 1)), done, array, rate)


@contextmanager
def _sending(bootstrap: str | None, name: str, partitions: int | None, done: "Produced") -> "Iterator[Topic]":
    """A topic to send to, and in the end, also when interrupted, what became of it."""
    from metering.produce import Topic
    from metering.topics import ensure_topic

    servers = servers_of(bootstrap)
    if partitions:
        ensure_topic(servers, name, partitions)
    topic = Topic(servers, name)
    try:
        yield topic
    finally:
        topic.close()
        for line, reason in done.told:
            typer.echo(f"line {line}: sent as it is, the consumer will refuse it: {reason}", err=True)
        if done.bad > len(done.told):
            typer.echo(f"and {done.bad - len(done.told):,} more such lines", err=True)
        typer.echo(f"{done.lines:,} events in {done.messages:,} messages ({done.bytes:,} bytes) to {name} at {servers}")


def servers_of(bootstrap: str | None) -> str:
    """The bootstrap servers that were named, or those of the settings."""
    from core.config import load
    from core.errors import BillingError

    servers = bootstrap or load().kafka
    if not servers:
        raise BillingError("no broker: set GPU_BILLING_KAFKA to its bootstrap servers, or name them with --bootstrap")
    return servers
