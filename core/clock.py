"""The only place that reads the clock; everything inside takes an instant or a :class:`Clock`."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the present instant, aware and in UTC."""

    def __call__(self) -> datetime:
        """The present instant."""
        ...


def now() -> datetime:
    """The present instant, aware and in UTC."""
    return datetime.now(UTC)
