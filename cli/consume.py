"""`gpu-billing consume`: from Kafka into the ledger, until somebody stops it."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from metering.consumer import Consumer
    from metering.recorder import Recorder

IDLE_S = 60
"""A consumer that hangs inside a transaction gives its locks up after so long, for whoever took over."""


def consume(
    topic: Annotated[str, typer.Option(help="The topic of events.")] = "usage.events",
    group: Annotated[str, typer.Option(help="The consumer group; its members share the partitions.")] = "gpu-billing",
    kafka: Annotated[str | None, typer.Option(help="Bootstrap servers; else GPU_BILLING_KAFKA.")] = None,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Events in one transaction.")] = 5_000,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Serve /metrics, /healthz, /readyz here.")] = None,
    host: Annotated[str, typer.Option(help="Address of that port; 0.0.0.0 for all.")] = "127.0.0.1",
    until_caught_up: Annotated[bool, typer.Option("--until-caught-up", help="End when all is recorded.")] = False,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Go on behind messages that the log no longer has, and keep a note.")
    ] = False,
    dead_letters_in_a_row: Annotated[int, typer.Option(min=0, help="So many stop the consumer.")] = 100,
    dead_letters_percent: Annotated[int, typer.Option(min=0, max=100, help="Of the last 1,000 messages.")] = 10,
) -> int:
    """Record a topic; SIGTERM and SIGINT end it after the batch under way. Offsets live in the database."""
    from cli.books import books
    from core import logs
    from core.config import load
    from metering.batches import Size
    from metering.consumer import Consumer, Plan
    from metering.dead_letters import Limits
    from metering.kafka_log import KafkaLog

    settings = load()
    servers = kafka or settings.kafka
    if not servers:
        raise typer.BadParameter("name the broker by --kafka or GPU_BILLING_KAFKA")
    logs.configure()
    books(settings)  # what is wrong with the database's address or shape is told before anything is waited for
    limits = Limits(dead_letters_in_a_row, dead_letters_percent)
    plan = Plan(Size(batch), limits=limits, skip_lost=skip_lost, until_caught_up=until_caught_up)
    consumer = Consumer(lambda: KafkaLog(servers, topic, group), lambda: _recorder(books(settings)), plan)
    _run(consumer, host, port)
    return 0


def _recorder(url: str) -> "Recorder":
    """A recorder whose locks end with it, whatever becomes of this process; what new terms touched is rated first."""
    from metering.recorder import Recorder
    from metering.terms_apply import finish_rerating

    recorder = Recorder(url)
    try:
        with recorder.connection.transaction():
            recorder.connection.execute(
                "SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [f"{IDLE_S}s"]
            )
        finish_rerating(recorder)
    except BaseException:
        recorder.close()
        raise
    return recorder


def _run(consumer: "Consumer", host: str, port: int | None) -> None:
    import signal

    import structlog

    from metering.watch import Watch

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: consumer.stop.set())
    log = structlog.get_logger("consume")
    watch = None if port is None else Watch(host, port, consumer.alive, consumer.ready)
    try:
        log.info("consuming", owner=consumer.owner, port=watch.port if watch else None)
        consumer.run()
        log.info("stopped")
    finally:
        if watch is not None:
            watch.close()
