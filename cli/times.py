"""Instants and months as a person types them."""

from core.calendar import month_number
from core.errors import BillingError
from metering.events import read_second


class NotAnInstant(BillingError):
    """A word on the command line that is not an instant with an offset."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"--as-of: {reason}")


class NotAMonth(BillingError):
    """A word on the command line that is not a month."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a month like 2026-03")


def parse_instant(text: str) -> int:
    """An ISO 8601 instant as its whole second."""
    try:
        return read_second(text)
    except ValueError as error:
        raise NotAnInstant(str(error)) from error


def parse_month(text: str) -> int:
    """``2026-03`` as a month number."""
    try:
        return month_number(text)
    except ValueError as error:
        raise NotAMonth(text) from error
