"""Heartbeats of a batch: runs of proof and first descriptions, never a row for each (R9)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from metering.proof import Run, join_runs
from metering.reading import Early, Read
from metering.store import Db

Key = tuple[int, str]
"""An instance's number and a session's name (empty: the unnamed one)."""


@dataclass(slots=True)
class BatchBeats:
    """The heartbeats of one batch by instance and session, and the descriptions among them."""

    seconds: dict[Key, set[int]] = field(default_factory=dict)
    births: dict[Key, int] = field(default_factory=dict)
    count: int = 0

    @classmethod
    def of(cls, read: Read, numbers: Mapping[str, int]) -> "BatchBeats":
        """The heartbeats that were read, by the numbers of their instances."""
        seconds = {(numbers[subject], session): heard for (subject, session), heard in read.seconds.items()}
        births = {(numbers[subject], told): second for (subject, told), second in read.births.items()}
        return cls(seconds, births, read.heard - sum(early.heard for early in read.early.values()))

    def instances(self) -> set[int]:
        """The instances that beat."""
        return {number for number, _ in self.seconds}

    def digest(self) -> bytes:
        """SHA-256 over all beats in order, for the chain."""
        told = sha256()
        for key in sorted(self.seconds):
            told.update(f"{key}{sorted(self.seconds[key])}\n".encode())
        for key in sorted(self.births):
            told.update(f"{key}{self.births[key]}\n".encode())
        return told.digest()


@dataclass(slots=True)
class News:
    """What a batch's beats change for one instance: the seconds at which proof is new, and the edges of runs near them.

    ``edges`` are (session's name, second): such a run may begin or end elsewhere now.
    """

    seconds: list[int] = field(default_factory=list)
    edges: list[tuple[str, int]] = field(default_factory=list)


def store_beats(db: Db, beats: BatchBeats, join_s: int, reach_s: int) -> dict[int, News]:
    """Merge a batch's beats into the runs; returns what is new by instance, edges no further than ``reach_s`` away.

    Runs are joined over gaps of at most ``join_s``, the shortest time-out that any terms know: what longer time-outs
    join is joined when a timeline is folded.
    """
    stored = _runs_near(db, beats.seconds, reach_s)
    new: dict[int, News] = {}
    gone: list[tuple[int, str, int]] = []
    fresh: list[tuple[int, str, int, int]] = []
    for key, seconds in sorted(beats.seconds.items()):
        before = stored.get(key, [])
        unproven = [s for s in seconds if not any(first <= s <= last for first, last in before)]
        if not unproven:
            continue
        told = new.setdefault(key[0], News())
        told.seconds += unproven
        told.edges += [(key[1], edge) for run in before for edge in run]
        after = join_runs([*before, *((s, s) for s in unproven)], lambda _: join_s)
        gone += [(*key, first) for first, last in before if (first, last) not in after]
        fresh += [(*key, first, last) for first, last in after if (first, last) not in before]
    _replace_runs(db, gone, fresh)
    for number, second in _store_births(db, beats.births):
        new.setdefault(number, News()).seconds.append(second)
    return new


def _runs_near(db: Db, seconds: Mapping[Key, set[int]], reach_s: int) -> dict[Key, list[Run]]:
    keys = sorted(seconds)
    rows = db.execute(
        "SELECT p.instance_id, p.session, p.first, p.last"
        " FROM unnest(%s::int[], %s::text[], %s::bigint[], %s::bigint[]) AS w (instance_id, session, low, high)"
        " JOIN proof_run p ON p.instance_id = w.instance_id AND p.session = w.session"
        " AND p.first <= w.high AND p.last >= w.low ORDER BY p.first",
        [
            [number for number, _ in keys], [name for _, name in keys],
            [min(seconds[key]) - reach_s for key in keys], [max(seconds[key]) + reach_s for key in keys],
        ],
        binary=True,
    )  # fmt: skip
    found: dict[Key, list[Run]] = {}
    for number, name, first, last in rows:
        found.setdefault((number, name), []).append((first, last))
    return found


def _replace_runs(db: Db, gone: list[tuple[int, str, int]], fresh: list[tuple[int, str, int, int]]) -> None:
    if gone:
        db.execute(
            "DELETE FROM proof_run p USING unnest(%s::int[], %s::text[], %s::bigint[])"
            " AS w (instance_id, session, first)"
            " WHERE p.instance_id = w.instance_id AND p.session = w.session AND p.first = w.first",
            [list(column) for column in zip(*gone, strict=True)],
        )
    if fresh:
        db.execute(
            "INSERT INTO proof_run SELECT * FROM unnest(%s::int[], %s::text[], %s::bigint[], %s::bigint[])",
            [list(column) for column in zip(*fresh, strict=True)],
        )


def _store_births(db: Db, births: Mapping[Key, int]) -> Iterable[tuple[int, int]]:
    """Keep the earliest beat of each description; returns (instance, second) where that is news."""
    if not births:
        return []
    rows = [(number, terms, second) for (number, terms), second in sorted(births.items())]
    return db.execute(
        "INSERT INTO birth SELECT * FROM unnest(%s::int[], %s::text[], %s::bigint[])"
        " ON CONFLICT (instance_id, terms) DO UPDATE SET second = excluded.second WHERE birth.second > excluded.second"
        " RETURNING instance_id, second",
        [list(column) for column in zip(*rows, strict=True)],
    ).fetchall()


def keep_early(db: Db, early: Mapping[int, Early]) -> None:
    """Note heartbeats that were set aside: one row an instance, with first, last and count."""
    if early:
        db.execute(
            "INSERT INTO early_beat (instance_id, first, last, count)"
            " SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::bigint[]) ON CONFLICT (instance_id)"
            " DO UPDATE SET first = least(early_beat.first, excluded.first), last = greatest(early_beat.last,"
            " excluded.last), count = early_beat.count + excluded.count, updated_at = clock_timestamp()",
            [list(column) for column in zip(*((number, *early[number]) for number in sorted(early)), strict=True)],
        )
