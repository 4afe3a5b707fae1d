"""Where a recorder's time goes: each step's own microseconds an event, by clocks around its functions."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any
from unittest.mock import patch

from benchmarks.recording import record
from core import copying
from metering import batch, link, recorder
from metering.heads import Heads
from metering.lines import Line
from metering.names import Names

STEPS: dict[str, tuple[tuple[Any, str], ...]] = {
    "decode": ((recorder, "read_batch"),),
    "names of instances": ((Names, "instances"),),
    "lock heads": ((Heads, "lock"),),
    "dedupe": ((batch.Batch, "admit"),),
    "verdicts": ((batch.Batch, "rule"),),
    "write events": ((batch.Batch, "store_events"),),
    "fold": ((batch.Batch, "_fold_in_order"),),
    "late facts": ((batch.Batch, "replay"),),
    "entries": ((link.Link, "write_entries"),),
    "heads and checkpoints": ((link, "save_heads"), (link, "save_checkpoints")),
    "chain": ((link.Link, "write"),),
    "commit and the rest": ((recorder.Recorder, "record"),),
}
"""Steps in order; the time of a step that runs inside another counts for the inner one alone."""


class Clock:
    """Own time by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = perf_counter()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """What runs inside counts for this step."""
        self._lap()
        self._running.append(name)
        try:
            yield
        finally:
            self._lap()
            self._running.pop()

    def _lap(self) -> None:
        now = perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


def timed(url: str, lines: Sequence[Line]) -> dict[str, float]:
    """Microseconds an event by step."""
    clock = Clock()
    with ExitStack() as stack:
        for name, places in STEPS.items():
            for owner, attribute in places:
                stack.enter_context(patch.object(owner, attribute, _clocked(clock, name, getattr(owner, attribute))))
        stack.enter_context(patch.object(copying, "copy_rows", _projection(clock, copying.copy_rows)))
        record(url, "file:steps", lines)
    return {name: clock.seconds[name] / len(lines) * 1e6 for name in (*STEPS, "projection")}


def _clocked(clock: Clock, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        with clock.step(name):
            return function(*args, **named)

    return call


def _projection(clock: Clock, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(connection: Any, table: str, *rest: Any) -> Any:
        with clock.step("projection") if table == "usage_day" else ExitStack():
            return function(connection, table, *rest)

    return call
