"""Lines of a file of events, in bounded memory whatever the file holds."""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from core.errors import InputUnusable
from metering.events import MAX_EVENT_BYTES

GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line without its end: its number from 1, its bytes (the first ones where too long), its whole length."""

    number: int
    raw: bytes
    length: int


def read_lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    """The lines that hold anything; raises ``InputUnusable`` for a file that is empty, compressed or not text."""
    number = 0
    while first := stream.readline(MAX_EVENT_BYTES + 1):
        number += 1
        raw, length = first, len(first)
        while not first.endswith(b"\n") and (first := stream.readline(MAX_EVENT_BYTES)):
            length += len(first)
        if number == 1:
            _check_start(raw, name)
            raw, length = raw.removeprefix(BOM), length - len(BOM) * raw.startswith(BOM)
        if text := raw.strip():
            yield Line(number, text, length if length > MAX_EVENT_BYTES else len(text))
    if not number:
        raise InputUnusable(name, "the file is empty")


def _check_start(raw: bytes, name: str) -> None:
    if raw.startswith(GZIP):
        raise InputUnusable(name, "the file is compressed with gzip; unpack it first")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputUnusable(name, "the file is UTF-16; events are UTF-8")
