"""The ledger's queries, each set-based; they run in the caller's transaction and never commit."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
from psycopg import Connection

from core import copying
from core.calendar import LAST_SECOND
from metering import cards
from metering.events import Fact, Started, read_event
from metering.names import Names
from metering.pieces import Piece
from metering.posting import Posted, Slice
from metering.proof import Birth, Proof, Run
from metering.timeline import Finding
from pricing.usage import Pack

Db = Connection[Any]

EVENT_COLUMNS = ("seq", "identity", "batch_id", "instance_id", "second", "kind", "name", "raw")
EVENT_LAYOUT = copying.Layout(("int8", "uuid", "int8", "int4", "int8", "int2"), tail=2)

ENTRY_COLUMNS = (
    "id", "batch_id", "instance_id", "series_id", "price_id", "kind", "day", "start", "end", "quantity", "run",
    "pack_start", "pack_seconds", "reverses", "cards", "evidence",
)  # fmt: skip
ENTRY_LAYOUT = copying.Layout(
    ("int8", "int8", "int4", "int4", "int4", "int2", "int4", "int8", "int8", "int8", "int8"), tail=5
)

USAGE_COLUMNS = ("batch_id", "series_id", "price_id", "kind", "day", "quantity")
USAGE_LAYOUT = copying.Layout(("int8", "int4", "int4", "int2", "int4", "int8"), tail=0)

ENTRY_QUERY = (
    'SELECT e.id, e.instance_id, e.series_id, e.price_id, e.kind, e.day, e.start, e."end", e.quantity, e.run,'
    " e.pack_start, e.pack_seconds, e.cards, e.evidence, e.reverses FROM entry e"
)
NOT_TAKEN_BACK = "e.reverses IS NULL AND NOT EXISTS (SELECT FROM entry r WHERE r.reverses = e.id)"


LONGEST_ENTRY_S = 32 * 86400
"""No entry is longer: time is cut at days, and a pack lasts a month at most. It bounds what an index has to read."""


class Span(NamedTuple):
    """A stretch of an instance's time, ``(after, until]`` for facts and ``[after, until)`` for entries."""

    instance: int
    after: int
    until: int


def known_events(db: Db, identities: Sequence[str]) -> dict[bytes, bytes]:
    """Identity to stored bytes for those that are known already."""
    listed = f"{{{','.join(identities)}}}"
    rows = db.execute("SELECT identity, raw FROM event WHERE identity = ANY(%s::uuid[])", [listed], binary=True)
    return {row[0].bytes: row[1] for row in rows}


def take_numbers(db: Db, sequence: str, count: int) -> list[int]:
    """The next ``count`` numbers of a sequence."""
    if not count:
        return []
    row = db.execute(
        "SELECT array_agg(nextval(%s::regclass)) FROM generate_series(1, %s)", [sequence, count], binary=True
    ).fetchone()
    assert row is not None
    return sorted(row[0])


def facts_in(db: Db, spans: Sequence[Span]) -> dict[int, list[Fact]]:
    """The standing facts of instances in time ``(after, until]``, in order."""
    rows = db.execute(
        "WITH w AS (SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (instance_id, after, until))"
        " SELECT e.instance_id, e.seq, e.raw FROM w"
        " JOIN event e ON e.instance_id = w.instance_id AND e.second > w.after AND e.second <= w.until AND e.kind < 31"
        " WHERE NOT EXISTS (SELECT FROM override o WHERE o.seq = e.seq)"
        " UNION ALL SELECT o.instance_id, o.seq, o.raw FROM w"
        " JOIN override o ON o.instance_id = w.instance_id AND o.second > w.after AND o.second <= w.until"
        " AND o.kind < 31",
        _columns(spans, 3), binary=True,
    )  # fmt: skip
    return _facts(rows)


def facts_named(db: Db, names: Iterable[tuple[int, str]]) -> dict[int, list[Fact]]:
    """All standing facts of incidents and sessions by (instance, name) that can change a verdict."""
    rows = db.execute(
        "WITH w AS (SELECT * FROM unnest(%s::int[], %s::text[]) AS w (instance_id, name))"
        " SELECT e.instance_id, e.seq, e.raw FROM w"
        " JOIN event e ON e.instance_id = w.instance_id AND e.name = w.name AND e.kind IN (1, 3, 10, 20, 33)"
        " WHERE NOT EXISTS (SELECT FROM override o WHERE o.seq = e.seq)"
        " UNION ALL SELECT o.instance_id, o.seq, o.raw FROM w"
        " JOIN override o ON o.instance_id = w.instance_id AND o.name = w.name AND o.kind IN (1, 3, 10, 20, 33)",
        _columns(sorted(set(names)), 2), binary=True,
    )  # fmt: skip
    return _facts(rows)


def judged(db: Db, names: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Those (instance, name) of incidents that a person has judged."""
    rows = db.execute(
        "SELECT w.instance_id, w.name FROM unnest(%s::int[], %s::text[]) AS w (instance_id, name) WHERE"
        " EXISTS (SELECT FROM event e WHERE e.instance_id = w.instance_id AND e.name = w.name AND e.kind = 33) OR"
        " EXISTS (SELECT FROM override o WHERE o.instance_id = w.instance_id AND o.name = w.name AND o.kind = 33)",
        _columns(sorted(set(names)), 2), binary=True,
    )  # fmt: skip
    return {(number, name) for number, name in rows}


def exclusions_named(db: Db, names: Iterable[tuple[int, str]]) -> dict[int, list[Fact]]:
    """The standing facts of incidents but failures by (instance, name), for the rare judgement on one."""
    rows = db.execute(
        "WITH w AS (SELECT * FROM unnest(%s::int[], %s::text[]) AS w (instance_id, name))"
        " SELECT e.instance_id, e.seq, e.raw FROM w"
        " JOIN event e ON e.instance_id = w.instance_id AND e.name = w.name AND e.kind IN (11, 12, 14, 21, 22, 24)"
        " WHERE NOT EXISTS (SELECT FROM override o WHERE o.seq = e.seq)"
        " UNION ALL SELECT o.instance_id, o.seq, o.raw FROM w"
        " JOIN override o ON o.instance_id = w.instance_id AND o.name = w.name AND o.kind IN (11, 12, 14, 21, 22, 24)",
        _columns(sorted(set(names)), 2), binary=True,
    )  # fmt: skip
    return _facts(rows)


def _facts(rows: Iterable[tuple[int, int, bytes]]) -> dict[int, list[Fact]]:
    found: dict[int, list[Fact]] = defaultdict(list)
    for number, seq, raw in rows:
        fact = read_event(raw)
        fact.seq = seq
        found[number].append(fact)
    for facts in found.values():
        facts.sort(key=Fact.order)
    return found


def checkpoints_before(db: Db, wanted: Sequence[tuple[int, int]]) -> dict[int, tuple[int, bytes]]:
    """For each (instance, second): its latest checkpoint strictly before the second."""
    rows = db.execute(
        "SELECT w.instance_id, c.second, c.state FROM unnest(%s::int[], %s::bigint[]) AS w (instance_id, before)"
        " CROSS JOIN LATERAL (SELECT second, state FROM checkpoint WHERE instance_id = w.instance_id"
        " AND second < w.before ORDER BY second DESC LIMIT 1) c",
        _columns(wanted, 2), binary=True,
    )  # fmt: skip
    return {number: (second, state) for number, second, state in rows}


def checkpoints_from(db: Db, wanted: Sequence[tuple[int, int]], count: int) -> dict[int, list[tuple[int, bytes]]]:
    """For each (instance, second): its first ``count`` checkpoints at or after the second."""
    rows = db.execute(
        "SELECT w.instance_id, c.second, c.state FROM unnest(%s::int[], %s::bigint[]) AS w (instance_id, since)"
        " CROSS JOIN LATERAL (SELECT second, state FROM checkpoint WHERE instance_id = w.instance_id"
        " AND second >= w.since ORDER BY second LIMIT %s) c",
        [*_columns(wanted, 2), count], binary=True,
    )  # fmt: skip
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for number, second, state in rows:
        found[number].append((second, state))
    for each in found.values():
        each.sort()
    return found


def drop_checkpoints(db: Db, spans: Sequence[Span]) -> None:
    """Remove the checkpoints strictly inside ``(after, until)``: their states were made again."""
    db.execute(
        "DELETE FROM checkpoint c USING unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (instance_id, after, until)"
        " WHERE c.instance_id = w.instance_id AND c.second > w.after AND c.second < w.until",
        _columns(spans, 3),
    )


def drop_findings(db: Db, spans: Sequence[Span]) -> None:
    """Remove the findings in ``(after, until]``."""
    db.execute(
        "DELETE FROM finding f USING unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (instance_id, after, until)"
        " WHERE f.instance_id = w.instance_id AND f.second > w.after AND f.second <= w.until",
        _columns(spans, 3),
    )


def add_findings(db: Db, findings: Sequence[tuple[int, Finding]]) -> None:
    """Add findings of instances."""
    if findings:
        rows = [(number, each.second, each.kind, each.seq, each.detail) for number, each in findings]
        db.execute(
            "INSERT INTO finding SELECT * FROM unnest(%s::int[], %s::bigint[], %s::text[], %s::bigint[], %s::text[])",
            _columns(rows, 5),
        )


def posted_in(db: Db, names: Names, spans: Sequence[Span]) -> dict[int, list[Posted]]:
    """The entries, none taken back, that have time in ``[after, until)`` or conclude at ``until``."""
    rows = db.execute(
        f"{ENTRY_QUERY} JOIN unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (instance_id, after, until)"
        f' ON e.instance_id = w.instance_id AND e."end" > w.after AND e."end" < least(w.until, %s) + %s'
        f" AND e.start < w.until WHERE {NOT_TAKEN_BACK}",
        [*_columns(spans, 3), LAST_SECOND, LONGEST_ENTRY_S], binary=True,
    ).fetchall()  # fmt: skip
    found: dict[int, list[Posted]] = defaultdict(list)
    for number, entry in posted_of(rows, names):
        found[number].append(entry)
    return found


def posted_of(rows: Sequence[tuple[Any, ...]], names: Names) -> list[tuple[int, Posted]]:
    """Rows of ``ENTRY_QUERY`` as (instance, entry)."""
    series = names.series_of(row[2] for row in rows)
    prices = names.prices_of(row[3] for row in rows)
    return [(row[1], Posted(row[0], slice_of(row, series[row[2]], prices[row[3]]))) for row in rows]


def slice_of(row: tuple[Any, ...], series: Any, price: Fraction) -> Slice:
    """What one row of ``ENTRY_QUERY`` says."""
    _, _, _, _, kind, day, start, end, quantity, run, pack_start, pack_seconds, written, evidence, _ = row
    pack = None if pack_start is None else Pack(pack_start, pack_seconds, price)
    piece = Piece(
        kind, start, end, cards.parse(written), quantity, series, price, run, pack, tuple(evidence)
    )  # fmt: skip
    return Slice(day, piece)


def billable_before(db: Db, wanted: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """(instance, run): the (cards, seconds) billed outside packs before a second; from (instance, run, before)."""
    rows = db.execute(
        "SELECT w.instance_id, w.run, e.cards,"
        ' sum(sign(e.quantity) * (least(e."end", w.before) - e.start))::bigint'
        " FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS w (instance_id, run, before)"
        ' JOIN entry e ON e.instance_id = w.instance_id AND e."end" > w.run AND e.start < w.before'
        " AND e.run = w.run AND e.kind = 15 AND e.pack_start IS NULL GROUP BY 1, 2, 3",
        _columns(wanted, 3), binary=True,
    )  # fmt: skip
    found: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for number, run, written, seconds in rows:
        found[(number, run)].append((written, seconds))
    return found


def padding_after(db: Db, wanted: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """Instance to the end of the session whose padding is posted after a second; from (instance, run, after)."""
    rows = db.execute(
        'SELECT w.instance_id, max(e."end") FROM unnest(%s::int[], %s::bigint[], %s::bigint[])'  # noqa: S608  # the condition is ours
        ' AS w (instance_id, run, after) JOIN entry e ON e.instance_id = w.instance_id AND e."end" > w.after'
        f" AND e.run = w.run AND e.kind = 16 WHERE {NOT_TAKEN_BACK} GROUP BY 1",
        _columns(wanted, 3), binary=True,
    )  # fmt: skip
    return dict(rows.fetchall())


LONGEST_TIMEOUT_S = 86400


def proofs_since(db: Db, wanted: Sequence[tuple[int, int]]) -> dict[int, Proof]:
    """For each (instance, second): its heartbeats from somewhat before the second on, and all its descriptions."""
    rows = db.execute(
        "SELECT p.instance_id, p.session, p.first, p.last FROM unnest(%s::int[], %s::bigint[])"
        " AS w (instance_id, since) JOIN proof_run p ON p.instance_id = w.instance_id AND p.last >= w.since - %s"
        " ORDER BY p.instance_id, p.session, p.first",
        [*_columns(wanted, 2), LONGEST_TIMEOUT_S], binary=True,
    )  # fmt: skip
    runs: dict[int, dict[str | None, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for number, session, first, last in rows:
        runs[number][session or None].append((first, last))
    births: dict[int, list[Birth]] = defaultdict(list)
    for number, terms, second in db.execute(
        "SELECT instance_id, terms, second FROM birth WHERE instance_id = ANY(%s) ORDER BY second, terms",
        [[number for number, _ in wanted]],
    ):
        births[number].append(Birth(second, msgspec.json.decode(terms, type=Started), -1))
    return {
        number: Proof({name: tuple(found) for name, found in runs[number].items()}, tuple(births[number]))
        for number, _ in wanted
    }


def _columns(rows: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    listed = list(rows)
    return [[row[i] for row in listed] for i in range(width)]
