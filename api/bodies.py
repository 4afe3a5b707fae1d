"""Bodies of requests become the lines that a recorder reads; the bytes of each event stay as they came.

A body that cannot be taken apart into events is refused whole; what is wrong with one event is that event's verdict.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import islice
from typing import Final
from urllib.parse import unquote

import msgspec

from core.errors import BillingError, InputUnusable
from metering.lines import BOM, Line, read_lines

MAX_BYTES: Final = 10 << 20
MAX_EVENTS: Final = 10_000
SINGLE: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
EITHER: Final = "application/json"
LINES: Final = ("application/x-ndjson", "application/ndjson")
KNOWN: Final = (SINGLE, BATCH, EITHER, *LINES)

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SIGN: Final = re.compile(rb"[][{},]")
_MANY_COMMAS: Final = 40 * MAX_EVENTS


class BodyTooLarge(BillingError):
    """More bytes, as sent or unpacked, than one request may have."""

    def __init__(self, what: str = "a body") -> None:
        super().__init__(f"{what} of more than {MAX_BYTES} bytes: send it in parts")


class TooManyEvents(BillingError):
    """More events than one request may have."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_EVENTS} events: send them in parts")


class BodyUnreadable(BillingError):
    """A body that cannot be taken apart into events."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"body: {reason}")


class MediaUnsupported(BillingError):
    """A content type that events do not come in."""

    def __init__(self, told: str) -> None:
        super().__init__(f"content type {told[:100]!r}; events come as {', '.join(KNOWN)}")


class EncodingUnsupported(BillingError):
    """A content encoding that is not unpacked here."""

    def __init__(self, told: str) -> None:
        super().__init__(f"content encoding {told[:100]!r}; bodies come as they are or with gzip")


def expanded(body: bytes, encoding: str) -> bytes:
    """The body without its content encoding; never more than ``MAX_BYTES`` are unpacked."""
    told = encoding.strip().lower()
    if told in ("", "identity"):
        return body
    if told not in ("gzip", "x-gzip"):
        raise EncodingUnsupported(encoding)
    parts, left = [], MAX_BYTES
    while body:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(body, left + 1))
        except zlib.error as error:
            raise BodyUnreadable(f"not gzip, as its content encoding says: {error}") from None
        left -= len(parts[-1])
        if left < 0:
            raise BodyTooLarge("a body that unpacks to one")
        if not member.eof:
            raise BodyUnreadable("the gzip data end too early")
        body = member.unused_data
    return b"".join(parts)


def lines_of(body: bytes, headers: Mapping[str, str]) -> list[Line]:
    """The events of a body as lines, numbered from 1; raises what is wrong with the body as a whole."""
    media = _media_of(headers.get("content-type", ""))
    text = body.removeprefix(BOM).strip()
    if "ce-specversion" in headers and media == EITHER:
        return _numbered([_from_headers(headers, text)])
    if not text:
        raise BodyUnreadable("it is empty")
    if media in LINES:
        return _from_lines(body)
    is_array = text.startswith(b"[")
    if media == SINGLE and is_array:
        raise BodyUnreadable(f"an array of events comes as {BATCH}")
    if media == BATCH and not is_array:
        raise BodyUnreadable(f"{BATCH} is a JSON array of events")
    return _numbered(_elements(text) if is_array else [_json(text)])


def _media_of(told: str) -> str:
    media, *parameters = (part.strip().lower() for part in told.split(";"))
    charset = next((p.removeprefix("charset=").strip('"') for p in parameters if p.startswith("charset=")), "utf-8")
    if media not in KNOWN or charset not in ("utf-8", "utf8", "us-ascii"):
        raise MediaUnsupported(told)
    return media


def _numbered(raws: list[bytes]) -> list[Line]:
    return [Line(number, raw, len(raw)) for number, raw in enumerate(raws, start=1)]


def _json(text: bytes) -> bytes:
    """One JSON value, sound in its syntax; what it says is the recorder's to judge."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BodyUnreadable(_told(error)) from None
    return text


def _elements(text: bytes) -> list[bytes]:
    if text.count(b",") > _MANY_COMMAS and _has_too_many(text):
        raise TooManyEvents  # before a million tiny elements have become objects
    try:
        found = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BodyUnreadable(_told(error)) from None
    if len(found) > MAX_EVENTS:
        raise TooManyEvents
    return [bytes(each) for each in found]


def _has_too_many(text: bytes) -> bool:
    depth = commas = 0
    for match in _SIGN.finditer(_STRING.sub(b"", text)):
        sign = match.group()
        if sign == b",":
            commas += depth == 1
            if commas >= MAX_EVENTS:
                return True
        else:
            depth += 1 if sign in b"[{" else -1
    return False


def _from_lines(body: bytes) -> list[Line]:
    try:
        found = list(islice(_whole(body), MAX_EVENTS + 1))
    except InputUnusable as error:
        raise BodyUnreadable(error.reason) from None
    if len(found) > MAX_EVENTS:
        raise TooManyEvents
    return found


def _whole(body: bytes) -> Iterator[Line]:
    return read_lines(BytesIO(body), "body")


def _from_headers(headers: Mapping[str, str], data: bytes) -> bytes:
    """A CloudEvent in binary mode: its attributes are headers, percent-encoded, and the body is its data."""
    event: dict[str, str | msgspec.Raw] = {
        name.removeprefix("ce-"): unquote(value, errors="replace")
        for name, value in headers.items() if name.startswith("ce-") and name != "ce-data"
    }  # fmt: skip
    if data:
        event["data"] = msgspec.Raw(_json(data))
    return msgspec.json.encode(event)


def _told(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)
