"""Rows in PostgreSQL's binary COPY format, for the tables that take thousands of rows a transaction.

Each encoder is a ``Layout`` of fixed columns followed by columns of any length; see "COPY", file formats, in the
PostgreSQL manual.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from psycopg import Connection, sql

HEADER: Final = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TRAILER: Final = struct.pack(">h", -1)
NULL: Final = struct.pack(">i", -1)
_LENGTH: Final = struct.Struct(">i")
_ARRAY_OF_ONE: Final = struct.Struct(">iiiiiiiq")
_INT8_OID: Final = 20
_CODES: Final = {"int2": "h", "int4": "i", "int8": "q", "uuid": "16s"}
_SIZES: Final = {"int2": 2, "int4": 4, "int8": 8, "uuid": 16}


class Layout:
    """The fixed columns of a table by their types; ``tail`` more columns follow in each row."""

    __slots__ = ("_blank", "_pack")

    def __init__(self, types: Sequence[str], tail: int) -> None:
        self._blank = [len(types) + tail]
        for each in types:
            self._blank += (_SIZES[each], 0)
        self._pack = struct.Struct(">h" + "".join("i" + _CODES[each] for each in types)).pack

    def row(self, values: Sequence[Any], *tail: bytes) -> bytes:
        """One row: the fixed columns' values, then the other columns already encoded."""
        fields = self._blank.copy()
        fields[2::2] = values
        return self._pack(*fields) + b"".join(tail)


def blob(value: bytes) -> bytes:
    """A bytea column."""
    return _LENGTH.pack(len(value)) + value


def text(value: str | None) -> bytes:
    """A text column, or null."""
    return NULL if value is None else blob(value.encode())


def int8(value: int | None) -> bytes:
    """A bigint column, or null."""
    return NULL if value is None else struct.pack(">iq", 8, value)


def int4(value: int | None) -> bytes:
    """An integer column, or null."""
    return NULL if value is None else struct.pack(">ii", 4, value)


def int8_array(values: Sequence[int]) -> bytes:
    """A bigint[] column."""
    if len(values) == 1:  # the usual evidence: one event opened the session
        return _ARRAY_OF_ONE.pack(32, 1, 0, _INT8_OID, 1, 1, 8, values[0])
    if not values:
        return struct.pack(">iiii", 12, 0, 0, _INT8_OID)
    size = 20 + 12 * len(values)
    items = b"".join(struct.pack(">iq", 8, value) for value in values)
    return struct.pack(">iiiiii", size, 1, 0, _INT8_OID, len(values), 1) + items


def numbers(values: Iterable[int]) -> str:
    """An array of integers as text: for a parameter with thousands of them, quicker than adapting each."""
    return f"{{{','.join(map(str, values))}}}"


def blobs(values: Iterable[bytes]) -> str:
    """An array of bytea as text, likewise."""
    items = ",".join([f'"\\\\x{value.hex()}"' for value in values])
    return f"{{{items}}}"


def copy_rows(connection: Connection[Any], table: str, columns: Sequence[str], rows: Iterable[bytes]) -> None:
    """Send encoded rows to a table in the connection's transaction."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor().copy(statement) as copy:
        copy.write(HEADER + b"".join(rows) + TRAILER)
