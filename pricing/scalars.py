"""The scalars of price books and contracts: each reads one value strictly and says what is wrong with it.

A reader takes what ``yaml_lines`` made of a scalar and returns the engine's value: exact fractions, whole seconds
since 1970 in UTC, names. It raises pydantic's custom error, so that the wire models collect every fault with its place.
"""

import re
import unicodedata
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from core.calendar import FIRST_SECOND, LAST_SECOND, calendar, second_of
from core.money import minor_digits
from pricing.yaml_lines import MAX_DIGITS, Trap

MAX_NAME = 200
_SHOWN = 60
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_FRACTION = re.compile(r"-?[0-9]+/[0-9]+")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refused(message: str) -> PydanticCustomError:
    """An error of the wire models whose text is ``message`` as it stands."""
    return PydanticCustomError("terms", "{text}", {"text": message})


def shown(value: object) -> str:
    """A bad value as a message quotes it: short, on one line, a string in quotes."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if isinstance(value, Trap):
        return short(value.text)
    return f"'{short(value)}'" if isinstance(value, str) else short(str(value).lower())


def short(text: str) -> str:
    """A text cut to what a message has room for, on one line."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return cut if cut.isprintable() else ascii(cut)[1:-1][:_SHOWN]


def exact(value: object) -> Fraction:
    """A decimal or a fraction of integers, as a string or an integer, not negative (R11, R16)."""
    if isinstance(value, Trap) and value.reads_as == "a float":
        raise refused(f'{shown(value)} is a float; write it as a string, "{short(value.text)}"')
    if isinstance(value, Trap):
        raise refused(f"{shown(value)} reads as {value.reads_as}; write a decimal as a string")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise refused(f'must be a string like "3.60" or an integer, not {shown(value)}')
    return _exact(str(value))


@lru_cache(4096)
def _exact(text: str) -> Fraction:
    if len(text) > MAX_DIGITS and sum(letter.isdigit() for letter in text) > MAX_DIGITS:
        raise refused(f"{shown(text)} has more than {MAX_DIGITS} digits")
    if not _DECIMAL.fullmatch(text) and not _FRACTION.fullmatch(text):
        raise refused(f'{shown(text)} is neither a decimal like "3.60" nor a fraction like "19000/48000"')
    if "/" in text and not text.partition("/")[2].strip("0"):
        raise refused(f"{shown(text)} divides by zero")
    if text.startswith("-"):
        raise refused(f"{shown(text)} is negative")
    return Fraction(text)


def share(value: object) -> Fraction:
    """A rate or discount: an exact figure from 0 to 1."""
    figure = exact(value)
    if figure > 1:
        raise refused(f'{shown(value)} is not between 0 and 1 (12 % is "0.12")')
    return figure


def instant(value: object) -> int:
    """An ISO 8601 instant with an offset, from 2000 to 2100, cut down to its whole second (R1)."""
    text = value.text if isinstance(value, Trap) else value
    if not isinstance(text, str):
        raise refused(f'must be an instant like "2026-01-01T00:00:00+08:00", not {shown(value)}')
    return _instant(text)


@lru_cache(4096)
def _instant(text: str) -> int:
    if _DATE.fullmatch(text):
        raise refused(f'{shown(text)} is a date; write the instant, "2026-01-01T00:00:00+08:00"')
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise refused(f'{shown(text)} is not an instant like "2026-01-01T00:00:00+08:00"')
    if match[3] is None:
        raise refused(f"{shown(text)} has no offset from UTC; add one, +08:00 or Z")
    try:
        second = second_of(datetime.fromisoformat(text))
    except ValueError:
        raise refused(f"{shown(text)} does not exist in the calendar") from None
    if not FIRST_SECOND <= second <= LAST_SECOND:
        raise refused(f"{shown(text)} is not between the years 2000 and 2100")
    return second


def whole(least: int, most: int) -> Callable[[object], int]:
    """A reader of integers from ``least`` to ``most``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise refused(f"must be a whole number, not {shown(value)}")
        if not least <= value <= most:
            raise refused(f"{shown(value)} is not between {least} and {most}")
        return value

    return read


def flag(value: object) -> bool:
    """True or false, spelt so."""
    if not isinstance(value, bool):
        raise refused(f"must be true or false, not {shown(value)}")
    return value


def label(value: object) -> str:
    """A text for people: one line, not empty, nothing invisible that turns it around."""
    if isinstance(value, Trap):
        raise refused(f"{shown(value)} reads as {value.reads_as}; put it in quotes")
    if not isinstance(value, str):
        raise refused(f"must be a string, not {shown(value)}")
    if not value.strip():
        raise refused("is empty")
    if len(value) > MAX_NAME:
        raise refused(f"{shown(value)} is longer than {MAX_NAME} characters")
    if not value.isprintable() and any(map(_controls, value)):
        raise refused(f"{shown(value)} holds a control character")
    return value


def _controls(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in _BIDI


def name(value: object) -> str:
    """A name that machines compare: as ``label``, printable throughout, no space at its ends."""
    text = label(value)
    if text != text.strip() or not text.isprintable():
        raise refused(f"{shown(text)} holds a space at an end or a character that does not show")
    return text


def sku_name(value: object) -> str:
    """A SKU's name; what patterns use is kept out of it."""
    text = name(value)
    if set(text) & set("*?[]"):
        raise refused(f"{shown(text)} holds one of * ? [ ]")
    return text


def pattern(value: object) -> str:
    """A SKU's name in which ``*`` stands for any text."""
    text = name(value)
    if set(text) & set("?[]"):
        raise refused(f"{shown(text)} holds one of ? [ ]; only * stands for other text")
    return text


def currency(value: object) -> str:
    """An ISO 4217 code (R16)."""
    text = name(value)
    try:
        minor_digits(text)
    except ValueError:
        raise refused(f"{shown(text)} is not an ISO 4217 currency") from None
    return text


def zone(value: object) -> str:
    """An IANA time zone name (R2)."""
    text = name(value)
    # Files beside the zones: copies, with leap seconds or named after this machine.
    unfit = text.partition("/")[0] in ("posix", "right", "localtime", "posixrules")
    try:
        if not unfit:
            calendar(text)
            return text
    except (KeyError, ValueError, OSError):
        pass
    raise refused(f"{shown(text)} is not an IANA time zone like Asia/Shanghai")


Exact = Annotated[Fraction, PlainValidator(exact)]
Share = Annotated[Fraction, PlainValidator(share)]
Instant = Annotated[int, PlainValidator(instant)]
Flag = Annotated[bool, PlainValidator(flag)]
Label = Annotated[str, PlainValidator(label)]
Name = Annotated[str, PlainValidator(name)]
SkuName = Annotated[str, PlainValidator(sku_name)]
SkuPattern = Annotated[str, PlainValidator(pattern)]
Currency = Annotated[str, PlainValidator(currency)]
Zone = Annotated[str, PlainValidator(zone)]
