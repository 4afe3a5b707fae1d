"""Instants and months as a person types them."""

import re

from core.calendar import month_number
from core.errors import BillingError
from metering.events import read_second

MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")


class NotAnInstant(BillingError):
    """A word on the command line that is not an instant with an offset."""

    def __init__(self, reason: str, option: str) -> None:
        super().__init__(f"{option}: {reason}")


class NotAMonth(BillingError):
    """A word on the command line that is not a month."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a month like 2026-03")


def parse_instant(text: str, option: str = "--as-of") -> int:
    """An ISO 8601 instant as its whole second."""
    try:
        return read_second(text)
    except ValueError as error:
        raise NotAnInstant(str(error), option) from error


def parse_month(text: str) -> int:
    """``2026-03`` as a month number."""
    if not MONTH.fullmatch(text):
        raise NotAMonth(text)
    return month_number(text)
