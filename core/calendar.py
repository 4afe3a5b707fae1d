"""Billing days and months of a time zone (R2).

Instants are whole seconds since 1970 in UTC, a day is its number since 1970-01-01 in local reckoning, a month is
``year * 12 + month - 1``. Intervals are half-open.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
FIRST_SECOND = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp())
LAST_SECOND = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())


def second_of(instant: datetime) -> int:
    """An aware instant cut down to its whole second (R1)."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone")
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def instant_of(second: int, zone: ZoneInfo | None = None) -> datetime:
    """The second as an aware datetime, in UTC or in the zone given."""
    return datetime.fromtimestamp(second, zone or UTC)


def month_number(text: str) -> int:
    """``2026-03`` as a month number."""
    match = re.fullmatch(r"(20\d\d)-(0[1-9]|1[0-2])", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a month like 2026-03, from 2000-01 to 2099-12")
    return int(match[1]) * 12 + int(match[2]) - 1


def month_name(month: int) -> str:
    """A month number as ``2026-03``."""
    return f"{month // 12:04d}-{month % 12 + 1:02d}"


def date_of(day: int) -> date:
    """A day number as a date."""
    return date.fromordinal(day + EPOCH_ORDINAL)


def day_number(value: date) -> int:
    """A date as a day number."""
    return value.toordinal() - EPOCH_ORDINAL


def month_of_day(day: int) -> int:
    """The month that a day number belongs to."""
    value = date_of(day)
    return value.year * 12 + value.month - 1


class Calendar:
    """Billing days and months of one zone, with the day look-up remembered by UTC day."""

    def __init__(self, zone: str) -> None:
        self.zone = ZoneInfo(zone)
        self._starts: dict[int, int] = {}
        self._days: dict[int, tuple[tuple[int, int], ...]] = {}

    def day_start(self, day: int) -> int:
        """First second of a day."""
        start = self._starts.get(day)
        if start is None:
            value = date_of(day)
            start = second_of(datetime(value.year, value.month, value.day, tzinfo=self.zone))
            self._starts[day] = start
        return start

    def day_of(self, second: int) -> int:
        """The day that a second belongs to."""
        return self.day_and_end(second)[0]

    def day_and_end(self, second: int) -> tuple[int, int]:
        """The day of a second, and the first second after that day."""
        utc_day = second // 86400
        candidates = self._days.get(utc_day)
        if candidates is None:
            candidates = self._days[utc_day] = tuple(
                (day, self.day_start(day + 1)) for day in range(utc_day - 1, utc_day + 3)
            )
        for day, end in candidates:
            if second < end:
                return day, end
        raise AssertionError("a second lies within two days of its UTC day")

    def month_of(self, second: int) -> int:
        """The month that a second belongs to."""
        return month_of_day(self.day_of(second))

    def month_start(self, month: int) -> int:
        """First second of a month; the end of a month is the start of the next."""
        return self.day_start(day_number(date(month // 12, month % 12 + 1, 1)))

    def month_anniversary(self, anchor: int, months: int) -> int:
        """The instant ``months`` calendar months after ``anchor``: same day clamped to the month, same time (R12)."""
        local = datetime.fromtimestamp(anchor, self.zone)
        month = local.year * 12 + local.month - 1 + months
        first, following = date(month // 12, month % 12 + 1, 1), date((month + 1) // 12, (month + 1) % 12 + 1, 1)
        day = min(local.day, (following - first).days)
        return second_of(local.replace(year=first.year, month=first.month, day=day, fold=0))


@lru_cache
def calendar(zone: str) -> Calendar:
    """The calendar of a zone by its IANA name; an unknown name raises ``KeyError`` (ZoneInfoNotFoundError)."""
    return Calendar(zone)
