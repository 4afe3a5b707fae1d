"""Many requests, few recorders: what waits for one door is recorded together, in one transaction.

A door lets one batch in at a time, so while one is being recorded the next requests of that key pile up, and all of
them become the next batch: a busy key pays for one commit instead of twenty. Each recorder is one thread's own.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import perf_counter
from typing import Final

import psycopg
import structlog

from api import metrics
from core.errors import BillingError
from metering.lines import Line
from metering.reading import EARLY_S, Read
from metering.recorder import Recorder, Refusal

MOST_LINES: Final = 10_000
"""Requests are put together up to so many events; a single request may bring as many."""

log = structlog.get_logger(__name__)


class NotRecordedInTime(BillingError):
    """The database takes longer than a client should wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"not recorded within {seconds:g} s, and it may still be: send it again, duplicates are harmless"
        )


class ShuttingDown(BillingError):
    """The service is being stopped."""

    def __init__(self) -> None:
        super().__init__("the service is being stopped; send it again")


@dataclass(slots=True)
class _Request:
    lines: Sequence[Line]
    received_at: int
    answer: "Future[list[Refusal]]" = field(default_factory=Future)


class Recorders:
    """A few recorders, each in a thread of its own, and the requests that wait for them by door."""

    def __init__(self, make: Callable[[], Recorder], threads: int, patience_s: float = 30) -> None:
        self._make, self._patience_s = make, patience_s
        self._waiting: dict[str, deque[_Request]] = {}  # doors in the order in which they began to wait
        self._busy: set[str] = set()
        self._moved = Condition()
        self._open = True
        self._threads = [Thread(target=self._work, name=f"recorder-{n}", daemon=True) for n in range(threads)]
        for each in self._threads:
            each.start()

    def record(self, door: str, lines: Sequence[Line], received_at: int) -> list[Refusal]:
        """Record one request's events, received at a second, and return those not accepted, once all are durable."""
        request = _Request(lines, received_at)
        with self._moved:
            if not self._open:
                raise ShuttingDown
            self._waiting.setdefault(door, deque()).append(request)
            self._moved.notify()
        try:
            return request.answer.result(self._patience_s)
        except NotInTime as error:
            if request.answer.done():
                raise  # the recorder's own
            raise NotRecordedInTime(self._patience_s) from error

    def close(self) -> None:
        """Record what waits, then end."""
        with self._moved:
            self._open = False
            self._moved.notify_all()
        for each in self._threads:
            each.join(self._patience_s)

    # --- in the recorders' threads -------------------------------------------------------------------------------

    def _work(self) -> None:
        recorder: Recorder | None = None
        while taken := self._take():
            door, requests = taken
            try:
                recorder = recorder or self._make()
                _record_together(recorder, door, requests)
            except BaseException as error:  # noqa: BLE001  # every request gets an answer, whatever it is
                log.warning("not recorded", door=door, requests=len(requests), error=repr(error))
                for each in requests:
                    if not each.answer.done():
                        each.answer.set_exception(error)
                _let_go(recorder)
                recorder = None
            self._done(door)
        _let_go(recorder)

    def _take(self) -> tuple[str, list[_Request]] | None:
        """The next door that nobody serves and what waits for it, as much as one batch takes; None: all is done."""
        with self._moved:
            while True:
                door = next((each for each in self._waiting if each not in self._busy), None)
                if door is not None:
                    break
                if not self._open and not self._waiting:
                    return None
                self._moved.wait()
            waiting = self._waiting.pop(door)
            taken = [waiting.popleft()]
            room = MOST_LINES - len(taken[0].lines)
            while waiting and len(waiting[0].lines) <= room:
                room -= len(waiting[0].lines)
                taken.append(waiting.popleft())
            if waiting:
                self._waiting[door] = waiting  # behind the other doors
            self._busy.add(door)
            return door, taken

    def _done(self, door: str) -> None:
        with self._moved:
            self._busy.discard(door)
            self._moved.notify_all()


def _let_go(recorder: Recorder | None) -> None:
    if recorder is not None:
        recorder.close()


def _record_together(recorder: Recorder, door: str, requests: Sequence[_Request]) -> None:
    """One batch of all requests; where that fails for another reason than the database, each of them alone."""
    try:
        refusals = _record(recorder, door, requests)
    except (psycopg.OperationalError, psycopg.InterfaceError):
        raise
    except Exception:
        if len(requests) == 1:
            raise
        log.exception("a batch of several requests failed; each is tried alone", door=door)
        for each in requests:
            _record_alone(recorder, door, each)
        return
    by_place = iter(refusals)
    following = next(by_place, None)
    first = 0
    for each in requests:
        own: list[Refusal] = []
        end = first + len(each.lines)
        while following is not None and following.index < end:
            own.append(_moved_by(following, first))
            following = next(by_place, None)
        each.answer.set_result(own)
        first = end


def _record_alone(recorder: Recorder, door: str, request: _Request) -> None:
    try:
        refusals = _record(recorder, door, [request])
    except (psycopg.OperationalError, psycopg.InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001  # it is this request's, and the others go on
        request.answer.set_exception(error)
    else:
        request.answer.set_result(refusals)


def _record(recorder: Recorder, door: str, requests: Sequence[_Request]) -> list[Refusal]:
    """One transaction of all requests; what was not accepted, in order."""
    began, read = perf_counter(), Read()
    for each in requests:
        for line in each.lines:
            read.add(line, each.received_at + EARLY_S)
    outcome = recorder.record_read(door, read)
    metrics.note_batch(outcome.received, len(requests), perf_counter() - began)
    return sorted(outcome.refusals, key=lambda refusal: refusal.index)


def _moved_by(refusal: Refusal, places: int) -> Refusal:
    return Refusal(refusal.index - places, refusal.verdict, refusal.reason, refusal.detail, refusal.id)
