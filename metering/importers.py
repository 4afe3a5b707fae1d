"""Job tables become usage events: one `instance.started` and one `instance.stopped` for every row that ran.

Streaming and pure. Event identities follow from the mapping's source, the instance, the role and the time (R25), and
nothing in an event depends on the file, so a table that is imported again, or again with more rows, only adds what is
new. Times are whole seconds (R1). Every row has exactly one outcome: it finished, it still runs, it is skipped for a
named reason, or it is a reject that says where and why (R26).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import BinaryIO, NoReturn

from core.errors import InputUnusable
from metering.events import MAX_CARDS
from metering.import_outcomes import EventType, ImportedEvent, ImportOutcome, ImportReject, RowSkipped
from metering.mappings import CardsCell, Cell, SkuCell, TableMapping, TextCell
from metering.table_rows import BadRow, Row, TableReader, shown
from metering.table_times import read_instant

TEXT_CHARACTERS_MAX = 200  # an event's id is the instance and 29 characters, and must stay within 256

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_Columns = tuple[str | None, str | None]

_COUNT = re.compile(r"([0-9]{1,9})(\.0{1,9})?")
_SLURM_JOB = re.compile(r"[0-9]+(_[0-9]+|_\[[0-9,:%-]+(\.\.\.)?\]|\+[0-9]+)?(?P<step>\.[0-9A-Za-z_+-]+)?")
_TRES_CARD = re.compile(r"gres/gpu(:([^=,]+))?=([^,]*)")


class _BadCell(Exception):
    """Never leaves this file: it becomes an ImportReject."""

    def __init__(self, column: int | None, value: str, reason: str) -> None:
        super().__init__(reason)
        self.column, self.value, self.reason = column, value, reason


def events_from_table(stream: BinaryIO, mapping: TableMapping, file_name: str) -> Iterator[ImportOutcome]:
    """Reads a table row by row and yields its events, rejects and skipped rows in the order of the file.

    Raises InputUnusable where the file as a whole is no such table: empty, packed, not UTF-8, a column missing.
    """
    reader = TableReader(stream, file_name, mapping.delimiter, mapping.quoted)
    table = _Table(mapping, reader.header, file_name)
    for row in reader:
        if isinstance(row, BadRow):
            yield ImportReject(row.line, row.column, table.column_name(row.column), row.value, row.reason)
        else:
            yield from table.outcomes(row)


class _Table:
    """A mapping bound to the header of one file."""

    def __init__(self, mapping: TableMapping, header: Sequence[str], file_name: str) -> None:
        self._mapping = mapping
        self._header = header
        self._blank = frozenset(mapping.blank)
        self._columns = _positions(mapping, header, file_name)

    def column_name(self, column: int | None) -> str:
        return self._header[column - 1] if column is not None and column <= len(self._header) else ""

    def outcomes(self, row: Row) -> Iterator[ImportOutcome]:
        try:
            yield from self._decide(row)
        except _BadCell as bad:
            yield ImportReject(row.line, bad.column, self.column_name(bad.column), shown(bad.value), bad.reason)

    def _decide(self, row: Row) -> list[ImportedEvent] | list[RowSkipped]:
        mapping = self._mapping
        if mapping.rows == "slurm_jobs" and self._is_step(row):
            return [RowSkipped(row.line, "job_step")]
        start = self._instant(row, mapping.start)
        if start is None:
            return [RowSkipped(row.line, "never_ran")]
        cards = self._cards(row, mapping.cards)
        if cards == 0:
            return [RowSkipped(row.line, "no_card")]
        end = self._instant(row, mapping.end)
        if end == start:
            return [RowSkipped(row.line, "zero_length")]
        if end is not None and end < start:
            column, text = self._cell(row, mapping.end)
            raise _BadCell(column, text, f"ends before it starts at {_written(start)}")
        return self._events(row, start, end, cards)

    def _is_step(self, row: Row) -> bool:
        column, text = self._cell(row, self._mapping.instance)
        job = _SLURM_JOB.fullmatch(text)
        if job is None:
            raise _BadCell(column, text, "not a Slurm job id")
        return job["step"] is not None

    def _events(self, row: Row, start: datetime, end: datetime | None, cards: int) -> list[ImportedEvent]:
        mapping = self._mapping
        instance = self._text(row, mapping.instance, "instance")
        data: dict[str, object] = {
            "account": self._text(row, mapping.account, "account"),
            "sku": self._sku(row, mapping.sku),
            "cards": cards,
        }
        for name, cell in (("project", mapping.project), ("plan", mapping.plan), ("region", mapping.region)):
            if (text := self._optional(row, cell)) is not None:
                data[name] = text
        events = [self._event(row, "instance.started", instance, start, data)]
        if end is not None:
            reason = self._optional(row, mapping.reason)
            stopped = {} if reason is None else {"reason": reason}
            events.append(self._event(row, "instance.stopped", instance, end, stopped))
        return events

    def _event(
        self, row: Row, kind: EventType, instance: str, time: datetime, data: Mapping[str, object]
    ) -> ImportedEvent:
        written = _written(time)
        event = {
            "specversion": "1.0",
            "id": f"{instance}/{kind.removeprefix('instance.')}/{written}",
            "source": self._mapping.source,
            "type": kind,
            "subject": instance,
            "time": written,
            "data": data,
        }
        return ImportedEvent(row.line, kind, _encode(event).encode())

    def _cell(self, row: Row, cell: Cell) -> tuple[int | None, str]:
        """The column it stands in, from 1, and its text: the first of its columns that is not blank, or the value."""
        if cell.value is not None:
            return None, str(cell.value)
        columns = self._columns[cell.column, cell.or_column]
        for column in columns:
            text = row.fields[column - 1].strip()
            if text not in self._blank:
                return column, text
        return columns[0], ""

    def _instant(self, row: Row, cell: Cell) -> datetime | None:
        column, text = self._cell(row, cell)
        if text == "":
            return None
        try:
            return read_instant(text, self._mapping.times)
        except ValueError as error:
            raise _BadCell(column, text, str(error)) from None

    def _cards(self, row: Row, cell: CardsCell) -> int:
        column, text = self._cell(row, cell)
        if cell.tres:
            return self._tres(column, text)[1]
        return _count(column, text)

    def _sku(self, row: Row, cell: SkuCell) -> str:
        if not cell.tres:
            return self._text(row, cell, "SKU")
        column, text = self._cell(row, cell)
        kind = self._card_type(row, cell)
        sku = (cell.table or {}).get(kind) if kind else None
        if sku is None and cell.default is None:
            what = f"card type {kind!r} has no SKU in the mapping" if kind else "no card type is named"
            raise _BadCell(column, text, f"{what}, and there is no default SKU")
        return sku or cell.default or ""

    def _card_type(self, row: Row, cell: SkuCell) -> str:
        """The type in the first column that names one: what was allocated may be counted without it."""
        for column in self._columns[cell.column, cell.or_column]:
            if kind := self._tres(column, row.fields[column - 1])[0]:
                return kind
        return ""

    def _tres(self, column: int | None, text: str) -> tuple[str, int]:
        """Type (empty if unnamed) and number of the cards in a list such as `cpu=8,gres/gpu=2,gres/gpu:a100=2`."""
        found = [_TRES_CARD.fullmatch(part.strip()) for part in text.split(",")]
        counts = {(match[2] or "").lower(): _count(column, match[3]) for match in found if match}
        total = counts.pop("", None)
        kinds = [kind for kind, count in counts.items() if count]
        if len(kinds) > 1:
            raise _BadCell(column, text, "several card types in one job, where one instance has one SKU")
        named = counts[kinds[0]] if kinds else 0
        if kinds and total is not None and total != named:
            raise _BadCell(column, text, f"{total} cards in all, but {named} of type {kinds[0]}")
        return (kinds[0] if kinds else ""), (named or total or 0)

    def _text(self, row: Row, cell: TextCell, what: str) -> str:
        text = self._optional(row, cell)
        if text is None:
            column, _ = self._cell(row, cell)
            raise _BadCell(column, "", f"no {what}")
        return text

    def _optional(self, row: Row, cell: TextCell | None) -> str | None:
        if cell is None:
            return None
        column, text = self._cell(row, cell)
        if cell.table is not None and text != "" and cell.column is not None:
            translated = cell.table.get(text, cell.default)
            if translated is None:
                raise _BadCell(column, text, "not in the mapping's table, and there is no default")
            text = translated
        if text == "":
            return cell.default
        text = cell.prefix.replace("{source}", self._mapping.source) + text
        if len(text) > TEXT_CHARACTERS_MAX:
            raise _BadCell(column, text, f"longer than {TEXT_CHARACTERS_MAX} characters")
        if not text.isprintable():
            raise _BadCell(column, text, "signs in a name that cannot be printed")
        return text


def _count(column: int | None, text: str) -> int:
    match = _COUNT.fullmatch(text)
    if match is None:
        raise _BadCell(column, text, "not a number of cards" if text else "no number of cards")
    cards = int(match[1])
    if cards > MAX_CARDS:
        raise _BadCell(column, text, f"more than {MAX_CARDS} cards")
    return cards


def _written(time: datetime) -> str:
    return f"{time.isoformat()[:19]}Z"


def _positions(mapping: TableMapping, header: Sequence[str], file_name: str) -> dict[_Columns, tuple[int, ...]]:
    """For every cell that is read from the file, its columns from 1; of two choices one may be missing."""
    places: dict[str, list[int]] = {}
    for column, name in enumerate(header, start=1):
        places.setdefault(name, []).append(column)
    positions: dict[_Columns, tuple[int, ...]] = {}
    missing: list[str] = []
    for cell in (value for _, value in mapping if isinstance(value, Cell) and value.column is not None):
        names = [name for name in (cell.column, cell.or_column) if name is not None]
        twice = [name for name in names if len(places.get(name, ())) > 1]
        if twice:
            raise InputUnusable(file_name, f"column {twice[0]!r} is in the header twice")
        found = tuple(places[name][0] for name in names if name in places)
        positions[cell.column, cell.or_column] = found
        if not found:
            missing.append(names[0])
    if missing:
        _refuse_missing(file_name, missing, header)
    return positions


def _refuse_missing(file_name: str, missing: Sequence[str], header: Sequence[str]) -> NoReturn:
    near = difflib.get_close_matches(missing[0], header, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    names = ", ".join(repr(name) for name in dict.fromkeys(missing))
    raise InputUnusable(file_name, f"no column {names} in the header: {shown(', '.join(header))}{hint}")
