"""What the API counts; routes, statuses and verdicts are labels, accounts and keys are not."""

import os
from collections.abc import Mapping

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.registry import Collector

SHARED = "PROMETHEUS_MULTIPROC_DIR"

_TIMES = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_REQUESTS = Counter("gpu_billing_http_requests", "Requests answered.", ["route", "method", "status"])
_SECONDS = Histogram(
    "gpu_billing_http_request_seconds", "From a request's first byte to its answer's last.", ["route"],
    buckets=_TIMES,
)  # fmt: skip
_EVENTS = Counter("gpu_billing_http_events", "Events brought by requests, by what became of them.", ["verdict"])
_BATCH = Histogram(
    "gpu_billing_http_batch_events", "Events of one transaction.", buckets=(1, 10, 100, 500, 1000, 2500, 5000, 10000)
)
_TOGETHER = Histogram(
    "gpu_billing_http_batch_requests", "Requests of one transaction.", buckets=(1, 2, 4, 8, 16, 32)
)  # fmt: skip


_RECORDING = Histogram(
    "gpu_billing_http_batch_seconds", "Reading, recording and committing one transaction.", buckets=_TIMES
)  # fmt: skip


def note_request(route: str, method: str, status: int, seconds: float) -> None:
    """Count a request."""
    _REQUESTS.labels(route, method, str(status)).inc()
    _SECONDS.labels(route).observe(seconds)


def note_events(verdicts: Mapping[str, int]) -> None:
    """Count a request's events by verdict."""
    for verdict, count in verdicts.items():
        if count:
            _EVENTS.labels(verdict).inc(count)


def note_batch(events: int, requests: int, seconds: float) -> None:
    """Count a transaction."""
    _BATCH.observe(events)
    _TOGETHER.observe(requests)
    _RECORDING.observe(seconds)


def page(asked: Collector) -> bytes:
    """All figures of this process, or of all its siblings where there are some, and those that ``asked`` asks for."""
    registry = CollectorRegistry()
    registry.register(asked)
    if SHARED not in os.environ:  # as the library itself tells whether there are siblings
        return generate_latest(REGISTRY) + generate_latest(registry)
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
