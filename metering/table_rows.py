"""Rows of a delimited text, streamed: one row in memory, the line number always right, no good row lost to a bad one.

A quoted field may hold newlines. A quote that nobody closes would swallow the rest of the file, so a row that cannot be
used gives back every line after its first, and these are read again as rows of their own.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from core.errors import InputUnusable

LINE_BYTES_MAX = 1 << 20
ROW_LINES_MAX = 100
VALUE_SHOWN_MAX = 80

_FOREIGN = (
    (b"\x1f\x8b", "this is a gzip file: unpack it first"),
    (b"PK\x03\x04", "this is a workbook or ZIP archive: save the sheet as CSV"),
    (b"\xff\xfe", "this is UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "this is UTF-16 text: save it as UTF-8"),
    (b"\x28\xb5\x2f\xfd", "this is a Zstandard file: unpack it first"),
    (b"PAR1", "this is a Parquet file: save it as CSV"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one row; `line` is the number of its first line, from 1."""

    line: int
    fields: list[str]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that has no usable fields; `column` counts from 1, None where no column can be named."""

    line: int
    column: int | None
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    suspect: bool  # holds bytes that are no UTF-8, or NUL
    cut: bool  # was longer than LINE_BYTES_MAX


def shown(text: str) -> str:
    """A value as it may be printed: escaped, and short."""
    printable = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    return printable if len(printable) <= VALUE_SHOWN_MAX else printable[: VALUE_SHOWN_MAX - 1] + "…"


class TableReader:
    """A delimited text with a header line. Raises InputUnusable where the file as a whole cannot be used."""

    def __init__(self, stream: BinaryIO, file_name: str, delimiter: str, quoted: bool) -> None:
        self._stream = stream
        self._delimiter = delimiter
        self._quoted = quoted
        self._number = 0
        self._given_back: deque[_Line] = deque()
        self.header = self._read_header(file_name)

    def __iter__(self) -> Iterator[Row | BadRow]:
        while (line := self._next_line()) is not None:
            if line.text.strip("\r\n"):
                yield self._row(line)

    def _read_header(self, file_name: str) -> Sequence[str]:
        raw = self._stream.readline(LINE_BYTES_MAX + 1)
        self._number = 1
        problem = _not_a_header(raw)
        if problem is not None:
            raise InputUnusable(file_name, problem)
        row = self._split(_decoded(1, raw.removeprefix(b"\xef\xbb\xbf"), cut=False))
        if isinstance(row, BadRow):
            raise InputUnusable(file_name, f"the header cannot be read: {row.reason}")
        return [name.strip() for name in row.fields]

    def _next_line(self) -> _Line | None:
        if self._given_back:
            return self._given_back.popleft()
        raw = self._stream.readline(LINE_BYTES_MAX + 1)
        if not raw:
            return None
        self._number += 1
        cut = len(raw) > LINE_BYTES_MAX
        if cut:
            self._skip_rest(raw)
            raw = raw[:VALUE_SHOWN_MAX]
        return _decoded(self._number, raw, cut)

    def _skip_rest(self, raw: bytes) -> None:
        while raw and not raw.endswith(b"\n"):
            raw = self._stream.readline(LINE_BYTES_MAX)

    def _row(self, first: _Line) -> Row | BadRow:
        row = self._split(first)
        if isinstance(row, BadRow) or len(row.fields) != len(self.header):
            self._given_back.extendleft(reversed(self._taken[1:]))
        if isinstance(row, BadRow):
            return row
        if len(row.fields) != len(self.header):
            return _wrong_width(first, len(row.fields), len(self.header))
        return _untrusted(row) if any(line.suspect for line in self._taken) else row

    def _split(self, first: _Line) -> Row | BadRow:
        self._taken = [first]
        text = first.text.rstrip("\r\n")
        if first.cut:
            return BadRow(first.number, None, shown(text), f"line longer than {LINE_BYTES_MAX} bytes")
        if self._quoted and '"' in text:
            try:
                return Row(first.number, next(csv.reader(self._feed(), delimiter=self._delimiter, strict=True)))
            except csv.Error as error:
                return BadRow(first.number, None, shown(text), f"quotes that cannot be read: {error}")
        if "\r" in text:
            return BadRow(first.number, None, shown(text), "a carriage return inside the line")
        return Row(first.number, text.split(self._delimiter))

    def _feed(self) -> Iterator[str]:
        """The text of the current row, line by line, as long as its quotes stay open and it stays within bounds."""
        yield self._taken[0].text
        characters = len(self._taken[0].text)
        while len(self._taken) < ROW_LINES_MAX and characters <= LINE_BYTES_MAX:
            line = self._next_line()
            if line is None:
                return
            self._taken.append(line)
            if line.cut:
                return
            characters += len(line.text)
            yield line.text


def _wrong_width(first: _Line, found: int, wanted: int) -> BadRow:
    reason = f"{found} {'field' if found == 1 else 'fields'} where the header has {wanted}"
    return BadRow(first.number, min(found, wanted) + 1, shown(first.text.strip("\r\n")), reason)


def _untrusted(row: Row) -> Row | BadRow:
    """In a wrong encoding a byte can pass for a delimiter, so a row with one unreadable byte is not trusted at all."""
    for column, field in enumerate(row.fields, start=1):
        if "\0" in field:
            return BadRow(row.line, column, shown(field), "a NUL byte")
        if any("\udc80" <= sign <= "\udcff" for sign in field):
            return BadRow(row.line, column, shown(field), "not UTF-8 text")
    return row


def _not_a_header(raw: bytes) -> str | None:
    for magic, problem in _FOREIGN:
        if raw.startswith(magic):
            return problem
    if len(raw) > LINE_BYTES_MAX:
        return f"the first line is longer than {LINE_BYTES_MAX} bytes: not a table"
    if b"\0" in raw:
        return "the header holds NUL bytes: binary, or not UTF-8 text"
    if b"\r" in raw.rstrip(b"\r\n"):
        return "lines end in a carriage return alone: save the file with line feeds"
    return _no_header_text(raw)


def _no_header_text(raw: bytes) -> str | None:
    if not raw:
        return "the file is empty"
    try:
        text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        return f"the header is not UTF-8 text (byte {error.start + 1})"
    return None if text.strip() else "the first line is blank where the header should be"


def _decoded(number: int, raw: bytes, cut: bool) -> _Line:
    try:
        return _Line(number, raw.decode("utf-8"), suspect=b"\0" in raw, cut=cut)
    except UnicodeDecodeError:
        return _Line(number, raw.decode("utf-8", "surrogateescape"), suspect=True, cut=cut)
