"""Proof of the ledger: chains, projections and timelines are made again from what they follow from, and compared."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from metering import store
from metering.chain import START, BatchDigest, entry_line
from metering.decisions import history_of
from metering.faults import NO_RULINGS
from metering.heads import HEAD_QUERY, Head, head_of
from metering.history import fold_history, standing
from metering.names import Names
from metering.pieces import PADDING
from metering.posting import Difference, Window, difference, slices_of
from metering.proof import NO_PROOF
from metering.replay import finish, fold_from
from metering.store import Db
from metering.timeline import Fold
from pricing.terms import Terms

CHUNK = 500
LAST = 2**62

BATCHES = """
    SELECT d.name, b.id, b.number, b.received, b.accepted, b.duplicate, b.rejected, b.heartbeats, b.refused, b.beats,
           b.digest
    FROM batch b JOIN door d ON d.id = b.door_id ORDER BY d.name, b.number
"""


def ledger_differences(db: Db, names: Names, terms: Terms) -> Iterator[str]:
    """What does not agree, first things first, a line each; nothing where all is well."""
    yield from _chain_differences(db, names)
    yield from _stray_rows(db)
    yield from _projection_differences(db)
    yield from _timeline_differences(db, names, terms)


def _chain_differences(db: Db, names: Names) -> Iterator[str]:
    """Every door's chain from its first batch to its last."""
    for door, batches in groupby(db.execute(BATCHES).fetchall(), key=lambda row: row[0]):
        previous, expected = START, 1
        for _, id_, number, *counts, refused, beats, digest in batches:
            if number != expected:
                yield f"door {door}: batch {expected} is missing"
            link = BatchDigest(previous)
            link.head(door, number, counts)
            for seq, identity, raw in db.execute(
                "SELECT seq, identity, raw FROM event WHERE batch_id = %s ORDER BY seq", [id_]
            ):
                link.event(seq, identity.bytes, bytes(raw))
            rows = db.execute(f"{store.ENTRY_QUERY} WHERE e.batch_id = %s ORDER BY e.id", [id_]).fetchall()
            subjects = names.subjects_of({row[1] for row in rows})
            for row, (_, entry) in zip(rows, store.posted_of(rows, names), strict=True):
                link.entry(entry_line(entry.id, subjects[row[1]], entry.slice.day, entry.slice.piece, row[14]))
            link.refused(bytes(refused))
            link.beats(bytes(beats))
            if link.digest() != bytes(digest):
                yield f"door {door}, batch {number}: its events or entries are not those that were recorded"
            previous, expected = bytes(digest), number + 1


def _stray_rows(db: Db) -> Iterator[str]:
    """Events and entries that belong to no batch, and rejects whose bytes changed."""
    for table, key in (("event", "seq"), ("entry", "id")):
        row = db.execute(
            f"SELECT min({key}) FROM {table} t WHERE NOT EXISTS (SELECT FROM batch b WHERE b.id = t.batch_id)"  # noqa: S608  # ours
        ).fetchone()
        if row and row[0] is not None:
            yield f"{table} {row[0]} belongs to no batch"
    for number, detail in db.execute(
        "SELECT id, position FROM reject WHERE length = length(raw) AND digest <> sha256(raw) ORDER BY id"
    ):
        yield f"reject {number} ({detail}): its bytes are not those that were recorded"


def _projection_differences(db: Db) -> Iterator[str]:
    """The daily projection against the sums of the entries."""
    rows = db.execute(
        "SELECT series_id, price_id, kind, day, sum(ledger), sum(daily) FROM ("
        " SELECT series_id, price_id, kind, day, quantity AS ledger, 0 AS daily FROM entry UNION ALL"
        " SELECT series_id, price_id, kind, day, 0, quantity FROM usage_day) t"
        " GROUP BY 1, 2, 3, 4 HAVING sum(ledger) <> sum(daily) ORDER BY 4, 1 LIMIT 20"
    )
    for series, _, kind, day, ledger, daily in rows:
        yield f"daily projection, series {series}, kind {kind}, day {day}: {daily}, but its entries sum to {ledger}"


def _timeline_differences(db: Db, names: Names, terms: Terms) -> Iterator[str]:
    """Every instance's timeline, made again from its events, against its entries."""
    heads = {row[0]: head_of(row) for row in db.execute(f"{HEAD_QUERY} ORDER BY instance_id", binary=True)}
    for chunk in _chunks(sorted(heads)):
        posted = store.posted_in(db, names, [store.Span(number, -1, 2**62) for number in chunk])
        proofs = store.proofs_since(db, [(number, 0) for number in chunk if heads[number].beats])
        subjects = names.subjects_of(chunk)
        for number in chunk:
            facts, bodies = history_of(db, number)
            own = [fact for fact in standing(facts, bodies) if fact.subject == subjects[number]]
            change = _difference(own, proofs.get(number, NO_PROOF), heads[number], terms, posted.get(number, []))
            if change.reversed or change.appended:
                yield f"instance {subjects[number]}: {_told(change)}"


def _difference(facts: Any, proof: Any, head: Head, terms: Terms, posted: Any) -> Difference:
    pieces = list(fold_history(facts, proof, terms, head.state.second, decided_at=LAST).pieces)
    if head.posted > head.state.second:
        fold: Fold = fold_from(head.state, terms, NO_RULINGS, proof, ())
        finish(fold, head.posted)
        pieces += [piece for piece in fold.pieces if piece.start >= head.state.second]
    wanted = slices_of(pieces, terms)
    kept = [entry for entry in posted if entry.slice.piece.kind != PADDING or entry.slice.piece.quantity]
    return difference(wanted, kept, Window(-1, 2**61))


def _told(change: Difference) -> str:
    if change.reversed:
        entry = change.reversed[0]
        return f"entry {entry.id} does not follow from its events"
    piece = change.appended[0].piece
    return f"its events give {piece.quantity} of kind {piece.kind} from {piece.start} to {piece.end} that no entry has"


def _chunks(numbers: list[int]) -> Iterable[list[int]]:
    return (numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK))
