"""What the routes of one process share, made once and let go in the end."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Request
from psycopg_pool import ConnectionPool

from api.recording import Recorders
from core.calendar import second_of
from core.clock import Clock, now
from core.database import pool
from core.errors import BillingError
from metering.metrics import Instances
from metering.recorder import Recorder
from metering.status import instances

MOST_REQUESTS: Final = 32
MOST_OF_A_KEY: Final = 24
"""A key may have three quarters of them, so that one that sends too much leaves room for the others."""

QUESTIONS: Final = 4
PATIENCE_S: Final = 5.0
IDLE: Final = "60s"


class ServerBusy(BillingError):
    """As many requests are being worked on as memory is set aside for."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_REQUESTS} requests are being worked on; send it again")


class KeyBusy(BillingError):
    """One key has more than its share of the requests being worked on."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_OF_A_KEY} requests of this key are being worked on; send fewer at once")


@dataclass(slots=True)
class Admission:
    """How many requests are under way, in all and by key; used by the event loop alone, so it needs no lock."""

    total: int = 0
    by_key: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def any(self) -> Iterator[None]:
        """One request more; raises ``ServerBusy``."""
        if self.total >= MOST_REQUESTS:
            raise ServerBusy
        self.total += 1
        try:
            yield
        finally:
            self.total -= 1

    @contextmanager
    def of(self, key_id: str) -> Iterator[None]:
        """One request of a key more; raises ``KeyBusy``."""
        if self.by_key[key_id] >= MOST_OF_A_KEY:
            raise KeyBusy
        self.by_key[key_id] += 1
        try:
            yield
        finally:
            self.by_key[key_id] -= 1
            if not self.by_key[key_id]:
                del self.by_key[key_id]


@dataclass(slots=True)
class Service:
    """The database for questions, the recorders, the pepper, the clock."""

    questions: ConnectionPool[Any]
    recorders: Recorders
    pepper: bytes
    clock: Clock
    instances: Instances
    admission: Admission = field(default_factory=Admission)

    def close(self) -> None:
        """Record what waits and let the connections go."""
        self.recorders.close()
        self.questions.close()


def opened(url: str, pepper: bytes, recorders: int, clock: Clock = now) -> Service:
    """A service on a database; it need not be there yet."""
    questions = pool(url, QUESTIONS, PATIENCE_S)
    questions.open(wait=False)

    def running() -> tuple[int, int]:
        with questions.connection() as db:
            return instances(db, second_of(clock()))

    return Service(questions, Recorders(lambda: _recorder(url), recorders), pepper, clock, Instances(running))


def _recorder(url: str) -> Recorder:
    """A recorder whose locks end with it, whatever becomes of this process: others wait for the same instances."""
    made = Recorder(url)
    with made.connection.transaction():
        made.connection.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", [IDLE])
    return made


async def service(request: Request) -> Service:  # a plain function costs a change of threads
    """The service behind a request."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found
