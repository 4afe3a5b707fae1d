"""Events and heartbeats through the recorder, beside a bare COPY of the same event rows."""

import multiprocessing
from collections.abc import Sequence
from contextlib import closing
from time import perf_counter
from typing import Any

from psycopg import sql

from core.copying import HEADER, copy_rows
from core.database import connect
from metering import store
from metering.lines import Line
from metering.recorder import Recorder

BATCH = 5000


def record(url: str, door: str, lines: Sequence[Line]) -> float:
    """Seconds that one recorder needs for all lines."""
    with closing(Recorder(url)) as recorder:
        begun = perf_counter()
        for start in range(0, len(lines), BATCH):
            recorder.record(door, lines[start : start + BATCH])
        return perf_counter() - begun


def record_in_two(url: str, lines: Sequence[Line]) -> float:
    """Seconds that two processes need, each with the instances of its half, as two partitions would have them."""
    spawn = multiprocessing.get_context("spawn")
    ready, answers = spawn.Barrier(2), spawn.SimpleQueue()
    halves = [[each for each in lines if _subject_is_odd(each.raw) == odd] for odd in (False, True)]
    workers = [
        spawn.Process(target=_work, args=(url, f"partition:{number}", half, ready, answers))
        for number, half in enumerate(halves)
    ]
    for each in workers:
        each.start()
    spans = [answers.get() for _ in workers]
    for each in workers:
        each.join()
    return float(max(end for _, end in spans) - min(start for start, _ in spans))


def _subject_is_odd(raw: bytes) -> bool:
    at = raw.index(b'"subject":"i-') + 13
    return bool(int(raw[at : at + 6]) % 2)


def _work(url: str, door: str, lines: Sequence[Line], ready: Any, answers: Any) -> None:
    ready.wait()
    begun = perf_counter()
    record(url, door, lines)
    answers.put((begun, perf_counter()))


def copied_again(url: str) -> tuple[int, float]:
    """The rows of ``event`` written by COPY alone into a table with the same indexes: rows, and seconds.

    Rows are read back in the form in which they are sent, and each batch is a transaction as the recorder's are.
    """
    with closing(connect(url, as_owner=True)) as db:
        columns = sql.SQL(", ").join(map(sql.Identifier, store.EVENT_COLUMNS))
        query = sql.SQL("COPY (SELECT {} FROM event ORDER BY seq) TO STDOUT (FORMAT BINARY)").format(columns)
        with db.cursor().copy(query) as copy:
            rows = [bytes(data).removeprefix(HEADER) for data in copy]
        rows = [row for row in rows if row and row != b"\xff\xff"]
        db.execute("CREATE TABLE event_copied (LIKE event INCLUDING ALL)")
        db.commit()
        begun = perf_counter()
        for start in range(0, len(rows), BATCH):
            copy_rows(db, "event_copied", store.EVENT_COLUMNS, rows[start : start + BATCH])
            db.commit()
        return len(rows), perf_counter() - begun
