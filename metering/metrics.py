"""What the consumer counts and how the books stand, as Prometheus reads them; accounts and instances are no labels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, perf_counter
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from metering.log import Partition
from metering.recorder import Outcome

_PARTITION: Final = ["topic", "partition"]
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES: Final = (1, 10, 100, 500, 1000, 2500, 5000, 10_000, 50_000, 100_000)

EVENTS = Counter("gpu_billing_stream_events", "Events of the stream, by what became of them.", ["outcome"])
BATCH_EVENTS = Histogram("gpu_billing_stream_batch_events", "Events of one transaction.", buckets=_SIZES)
STEP_SECONDS = Histogram(
    "gpu_billing_stream_step_seconds", "Time of a batch by step: poll, read, record, acknowledge.", ["step"],
    buckets=_SECONDS,
)  # fmt: skip
LAG = Gauge("gpu_billing_stream_lag_messages", "Messages in the log that are not recorded.", _PARTITION)
BEHIND = Gauge("gpu_billing_stream_seconds_behind", "Age of the last recorded message, 0 without a lag.", _PARTITION)
DEAD_LETTERS = Counter("gpu_billing_stream_dead_letters", "Messages that could not be read.", ["topic", "reason"])
RECONNECTS = Counter("gpu_billing_stream_reconnects", "Connections that were lost and made again.", ["to"])
LOST = Counter("gpu_billing_stream_partitions_lost", "Batches dropped because another consumer had the partition.")
ASSIGNED = Gauge("gpu_billing_stream_partitions_assigned", "Partitions that this consumer reads.")


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Observe how long a step of a batch takes."""
    start = perf_counter()
    try:
        yield
    finally:
        STEP_SECONDS.labels(step).observe(perf_counter() - start)


def note_batch(outcome: Outcome, early: int) -> None:
    """Count a recorded batch; ``early`` of the accepted are heartbeats that were set aside."""
    BATCH_EVENTS.observe(outcome.received)
    counts = {
        "accepted": outcome.accepted - early, "early": early, "duplicate": outcome.duplicate,
        "rejected": outcome.rejected,
    }  # fmt: skip
    for name, count in counts.items():
        if count:
            EVENTS.labels(name).inc(count)


def note_partition(partition: Partition, lag: int, behind_s: float) -> None:
    """Tell how far a partition is behind."""
    LAG.labels(*partition).set(lag)
    BEHIND.labels(*partition).set(behind_s)


def forget_partition(partition: Partition) -> None:
    """Tell nothing of a partition that is another's now."""
    for gauge in (LAG, BEHIND):
        gauge.remove(*partition)


class Instances(Collector):
    """Instances that run, and those of them that are not proven up to now, asked of the database now and then.

    ``ask`` returns both counts; where the database does not answer nothing is told.
    """

    def __init__(self, ask: Callable[[], tuple[int, int]], every_s: float = 15) -> None:
        self._ask, self._every_s = ask, every_s
        self._lock = Lock()
        self._known: tuple[int, int] | None = None
        self._asked_at = float("-inf")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Both figures."""
        with self._lock:
            if monotonic() - self._asked_at >= self._every_s:
                self._asked_at = monotonic()
                try:
                    self._known = self._ask()
                except Exception:  # noqa: BLE001  # a scrape must go on: what is missing tells enough
                    self._known = None
            known = self._known
        if known is not None:
            yield GaugeMetricFamily("gpu_billing_open_instances", "Instances that run.", value=known[0])
            yield GaugeMetricFamily(
                "gpu_billing_unproven_instances", "Running watched instances whose proof is old (R9).", value=known[1]
            )

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing, so that registering asks nothing."""
        return []


def watch_instances(ask: Callable[[], tuple[int, int]], registry: CollectorRegistry = REGISTRY) -> None:
    """Have the figures of instances on the page of metrics."""
    registry.register(Instances(ask))
