"""The end of a batch: entries, heads and rejects are written, and the batch becomes a link of its door's chain."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from core import copying
from metering import cards, store
from metering.beats import BatchBeats
from metering.chain import START as CHAIN_START
from metering.chain import BatchDigest, entry_line, refusals_digest
from metering.events import Fact, Unreadable
from metering.heads import Head, save_checkpoints, save_heads
from metering.lines import Line
from metering.names import Names
from metering.outcome import Outcome
from metering.pieces import Piece
from metering.posting import Posted, Slice
from metering.store import Db
from metering.timeline import Finding

KEPT_BYTES = 65536


@dataclass(slots=True)
class Writes:
    """What a batch appends and replaces."""

    appended: list[tuple[int, Slice]] = field(default_factory=list)
    reversed: list[tuple[int, Posted]] = field(default_factory=list)
    checkpoints: list[tuple[int, int, bytes]] = field(default_factory=list)
    findings: list[tuple[int, Finding]] = field(default_factory=list)
    heads: dict[int, Head] = field(default_factory=dict)


class Link:
    """A batch's place in the chain of its door; the caller holds the door's lock. ``refused`` fills as it goes."""

    def __init__(self, db: Db, names: Names, door: str, door_id: int) -> None:
        self._db, self._names, self._door, self._door_id = db, names, door, door_id
        last = db.execute(
            "SELECT number, digest FROM batch WHERE door_id = %s ORDER BY number DESC LIMIT 1", [door_id]
        ).fetchone()
        self._number: int = last[0] + 1 if last else 1
        self._digest = BatchDigest(last[1] if last else CHAIN_START)
        self.id = store.take_numbers(db, "batch_id_seq", 1)[0]
        self.refused: list[tuple[str, bytes]] = []

    def write(
        self, writes: Writes, outcome: Outcome, accepted: Sequence[Fact], beats: BatchBeats,
        unreadable: Sequence[tuple[int, Line, Unreadable]],
    ) -> None:  # fmt: skip
        """Append everything and close the batch with its link of the chain."""
        counts = (outcome.received, outcome.accepted, outcome.duplicate, outcome.rejected, beats.count)
        self._digest.head(self._door, self._number, counts)
        for fact in accepted:
            self._digest.event(fact.seq, fact.identity(), fact.raw)
        entries = self.write_entries(writes)
        save_checkpoints(self._db, writes.checkpoints)
        store.add_findings(self._db, writes.findings)
        if writes.heads:
            save_heads(self._db, writes.heads, self.id)
        self._write_rejects(unreadable)
        refused = refusals_digest(self.refused)
        self._digest.refused(refused)
        self._digest.beats(beats.digest())
        self._db.execute(
            "INSERT INTO batch (id, door_id, number, received, accepted, duplicate, rejected, heartbeats, first_entry,"
            " last_entry, refused, beats, digest) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                self.id, self._door_id, self._number, *counts, entries[0] if entries else 0,
                entries[-1] + 1 if entries else 0, refused, beats.digest(), self._digest.digest(),
            ],
        )  # fmt: skip

    def write_entries(self, writes: Writes) -> list[int]:
        """Reversals first, then what is appended; their sums go into the daily projection."""
        names = self._names
        changes = [(number, entry.slice, entry.id) for number, entry in writes.reversed]
        rows: list[tuple[int, Slice, int | None]] = [
            *changes,
            *((number, each, None) for number, each in writes.appended),
        ]
        if not rows:
            return []
        ids = store.take_numbers(self._db, "entry_id_seq", len(rows))
        series = names.number_series({each.piece.series for _, each, _ in rows})
        # Prices go by the object here, not by their value: to hash a fraction takes as long as to write a row.
        amounts = {id(each.piece.price): each.piece.price for _, each, _ in rows}
        known = names.number_prices(amounts.values())
        prices = {key: known[amount] for key, amount in amounts.items()}
        subjects = names.subjects_of({number for number, _, _ in rows})
        names.note_account_instances({(each.piece.series.account, number) for number, each, _ in rows})
        sums: dict[tuple[int, int, int, int], int] = defaultdict(int)
        encoded = []
        for entry, (number, (day, piece), reverses) in zip(ids, rows, strict=True):
            if reverses is not None:
                piece = piece._replace(quantity=-piece.quantity)  # noqa: PLW2901  # the row's own sign
            series_id, price_id = series[piece.series], prices[id(piece.price)]
            sums[(series_id, price_id, piece.kind, day)] += piece.quantity
            self._digest.entry(entry_line(entry, subjects[number], day, piece, reverses))
            encoded.append(_entry_row(entry, self.id, number, series_id, price_id, day, piece, reverses))
        copying.copy_rows(self._db, "entry", store.ENTRY_COLUMNS, encoded)
        deltas = [store.USAGE_LAYOUT.row((self.id, *key, quantity)) for key, quantity in sums.items() if quantity]
        copying.copy_rows(self._db, "usage_day", store.USAGE_COLUMNS, deltas)
        return ids

    def _write_rejects(self, unreadable: Sequence[tuple[int, Line, Unreadable]]) -> None:
        rows = []
        for _, line, fault in unreadable:
            digest = sha256(line.raw).digest()
            self.refused.append((fault.reason, digest))
            rows.append(
                (digest, self.id, line.position, fault.reason, fault.detail.replace("\x00", ""), fault.id,
                 line.length, line.raw[:KEPT_BYTES])
            )  # fmt: skip
        if rows:
            self._db.cursor().executemany(
                "INSERT INTO reject (digest, batch_id, position, reason, detail, event_id, length, raw)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                rows,
            )


def _entry_row(
    entry: int, batch: int, instance: int, series: int, price: int, day: int, piece: Piece, reverses: int | None
) -> bytes:
    held = piece.pack
    return store.ENTRY_LAYOUT.row(
        (entry, batch, instance, series, price, piece.kind, day, piece.start, piece.end, piece.quantity, piece.run),
        copying.int8(held.start if held else None),
        copying.int4(held.seconds if held else None),
        copying.int8(reverses),
        copying.text(cards.text(piece.cards)),
        copying.int8_array(piece.evidence),
    )
