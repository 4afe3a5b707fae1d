"""Times as job tables write them, read exactly and truncated to whole seconds (R1). What is ambiguous is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from metering.mappings import Times, aware_instant

_SECONDS = re.compile(r"-?[0-9]{1,14}(\.[0-9]{1,12})?")
_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A zero that means "not set", or milliseconds read as seconds, must not become years of usage.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_LATEST = datetime(2100, 1, 1, tzinfo=UTC)


def read_instant(text: str, times: Times) -> datetime:
    """The UTC instant of a cell, in whole seconds; ValueError with the reason where it cannot be read for certain."""
    if times.format == "iso":
        instant = _from_iso(text, times.time_zone)
    else:
        instant = _from_seconds(text, _EPOCH if times.origin is None else _origin(times.origin))
    if not _EARLIEST <= instant < _LATEST:
        raise ValueError(f"{instant:%Y-%m-%dT%H:%M:%SZ} is not between 2000 and 2100: another unit or origin?")
    return instant.replace(microsecond=0)


@lru_cache
def _origin(text: str) -> datetime:
    return aware_instant(text).astimezone(UTC)


def _from_seconds(text: str, origin: datetime) -> datetime:
    if not _SECONDS.fullmatch(text):
        raise ValueError("not a number of seconds")
    seconds = int(Decimal(text).to_integral_value(ROUND_FLOOR))
    try:
        return origin + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("far outside 2000 to 2100: milliseconds instead of seconds?") from None


def _from_iso(text: str, zone_name: str | None) -> datetime:
    if not _ISO.fullmatch(text):
        raise ValueError("not a time such as 2026-03-01T08:00:00")
    try:
        instant = datetime.fromisoformat(text.replace(",", "."))
    except ValueError as error:
        raise ValueError(f"no such time: {error}") from None
    if instant.tzinfo is None:
        if zone_name is None:
            raise ValueError("no offset from UTC, and no time zone is named")
        instant = _local(instant, ZoneInfo(zone_name))
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("far outside 2000 to 2100") from None


def _local(naive: datetime, zone: ZoneInfo) -> datetime:
    """A wall-clock time of a zone, where it names exactly one instant.

    Clocks that are put back show an hour twice, clocks that are put forward skip one.
    """
    earlier, later = (naive.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if earlier.utcoffset() == later.utcoffset():
        return earlier
    if earlier.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != naive:
        raise ValueError(f"the clocks of {zone.key} skipped this time")
    raise ValueError(f"the clocks of {zone.key} showed this time twice: write it with its offset")
