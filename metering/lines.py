"""Lines of a file of events, in bounded memory whatever the file holds."""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from core.errors import InputUnusable
from metering.events import MAX_EVENT_BYTES

BOM: Final = b"\xef\xbb\xbf"
PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
"""How a compressed file begins, and what made it."""

WIDE: Final = (b"\xff\xfe", b"\xfe\xff", b"{\x00", b"\x00{")
"""How a file of UTF-16 or UTF-32 begins, with or without its mark."""


class Line(NamedTuple):
    """One line without its end: its number from 1, its bytes (the first ones where too long), its whole length.

    ``place`` says where it stood if that was no file.
    """

    number: int
    raw: bytes
    length: int
    place: str = ""

    @property
    def position(self) -> str:
        """Where it stood, for people."""
        return self.place or f"line {self.number}"


def read_lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    """The lines that hold anything; raises ``InputUnusable`` for a file that is empty, compressed or not text.

    A byte order mark is no part of a line, wherever files were joined.
    """
    number = 0
    while part := stream.readline(MAX_EVENT_BYTES + 1):
        number += 1
        raw, length = part, len(part)
        while not part.endswith(b"\n") and (part := stream.readline(MAX_EVENT_BYTES)):
            length += len(part)
        if number == 1:
            _check_start(raw, name)
        text = raw.removeprefix(BOM).strip()
        if length > MAX_EVENT_BYTES:
            yield Line(number, text, length)
        elif text:
            yield Line(number, text, len(text))
    if not number:
        raise InputUnusable(name, "the file is empty")


def _check_start(raw: bytes, name: str) -> None:
    for start, maker in PACKED.items():
        if raw.startswith(start):
            raise InputUnusable(name, f"the file is compressed with {maker}; unpack it first")
    if raw.startswith(WIDE):
        raise InputUnusable(name, "the file is UTF-16 or UTF-32; events are UTF-8")
