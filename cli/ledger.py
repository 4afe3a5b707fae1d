"""The recorder as a command wants it: on books that are up to date, with nothing left over from a killed command."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metering.recorder import Recorder

NEEDS_A_PERSON = 1
FAILED = 2


@contextmanager
def recording() -> "Iterator[Recorder]":
    """A recorder on the books of the settings; what new terms touched and a killed command left is rated first."""
    from cli.books import books
    from core.config import load

    with recording_at(books(load())) as recorder:
        yield recorder


@contextmanager
def recording_at(url: str) -> "Iterator[Recorder]":
    """The same for a database at an address."""
    from metering.recorder import Recorder
    from metering.terms_apply import finish_rerating

    recorder = Recorder(url)
    try:
        finish_rerating(recorder)
        yield recorder
    finally:
        recorder.close()
