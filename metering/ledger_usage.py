"""Usage from the ledger as of any instant: sums in SQL, and what only a fold can tell (the open remainder).

An instance whose facts or postings all lie at or before the instant is summed from its entries, plus what runs since.
One that knows later facts is folded anew from its events, as if they had not come (settled: As of).
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

from core.calendar import day_number
from metering import store
from metering.decisions import history_of
from metering.faults import NO_RULINGS
from metering.heads import HEAD_QUERY, head_of
from metering.history import fold_history, standing
from metering.names import Names
from metering.pieces import Piece
from metering.posting import clipped
from metering.proof import NO_PROOF
from metering.replay import finish, fold_from
from metering.store import Db
from metering.timeline import Finding
from metering.usage import WHOLE_KINDS, UsageSums
from pricing.contract import Credit
from pricing.terms import AccountTerms, Terms
from pricing.usage import Pack

FIRST_DAYS = [day_number(date(month // 12, month % 12 + 1, 1)) for month in range(2000 * 12 - 1, 2100 * 12)]
"""The first day of each month of which the ledger can know."""

SUMS = """
    SELECT e.series_id, e.price_id, e.kind, e.pack_start, e.pack_seconds,
           CASE WHEN e.series_id = ANY(%(by_day)s::int[]) THEN e.day
                ELSE (%(first_days)s::int[])[width_bucket(e.day, %(first_days)s::int[])] END,
           CASE WHEN e.series_id = ANY(%(by_instance)s::int[]) THEN e.instance_id ELSE 0 END,
           CASE WHEN e.series_id = ANY(%(by_instance)s::int[]) THEN e.run ELSE 0 END,
           sum(e.quantity)::bigint
    FROM entry e
    WHERE (%(series)s::int[] IS NULL OR e.series_id = ANY(%(series)s))
      AND (%(instances)s::int[] IS NULL OR e.instance_id = ANY(%(instances)s))
      AND NOT e.instance_id = ANY(%(rebuilt)s)
      AND NOT (e.series_id, e.day) IN (SELECT * FROM unnest(%(split_series)s::int[], %(split_series_days)s::int[]))
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 HAVING sum(e.quantity) <> 0
"""

ENTRIES = f"""
    {store.ENTRY_QUERY} JOIN series s ON s.id = e.series_id
    WHERE (%(accounts)s::text[] IS NULL OR s.account = ANY(%(accounts)s))
      AND (%(instances)s::int[] IS NULL OR e.instance_id = ANY(%(instances)s))
      AND NOT e.instance_id = ANY(%(rebuilt)s) AND e.quantity <> 0 AND {store.NOT_TAKEN_BACK}
"""


class LedgerUsage:
    """The usage of accounts (all where none are named) as of an instant, with what was found on the way."""

    def __init__(
        self, db: Db, names: Names, terms: Terms, as_of: int, credits: "CreditsOf",
        accounts: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self._db, self._names, self._terms, self._as_of = db, names, terms, as_of
        self._credits, self._accounts = credits, accounts
        self.by_account: dict[str, UsageSums] = {}
        self.findings: list[tuple[str, Finding]] = []
        self._instances = self._own_instances()
        self._rebuilt = self._later_instances()
        self._sum_entries()
        self._add_remainders()
        self._rebuild()
        self._load_findings()

    # --- which instances -----------------------------------------------------------------------------------------

    def _own_instances(self) -> list[int] | None:
        if self._accounts is None:
            return None
        rows = self._db.execute(
            "SELECT DISTINCT instance_id FROM account_instance WHERE account = ANY(%s)", [list(self._accounts)]
        ).fetchall()
        return [row[0] for row in rows]

    def _later_instances(self) -> list[int]:
        """Instances that know of facts, postings or decisions after the instant."""
        rows = self._db.execute(
            "WITH RECURSIVE meant AS (SELECT d.target FROM event e JOIN decision d ON d.seq = e.seq"
            " WHERE e.second > %(as_of)s"
            " UNION SELECT d.target FROM meant m JOIN event e ON e.identity = m.target"
            " JOIN decision d ON d.seq = e.seq)"
            " SELECT instance_id FROM head WHERE second > %(as_of)s OR posted > %(as_of)s"
            " UNION SELECT t.instance_id FROM meant m JOIN event t ON t.identity = m.target"
            " UNION SELECT c.instance_id FROM meant m JOIN conflict c ON c.identity = m.target"
            " UNION SELECT instance_id FROM event WHERE kind = 33 AND second > %(as_of)s",
            {"as_of": self._as_of},
        ).fetchall()
        return sorted(row[0] for row in rows)

    # --- what the ledger says ------------------------------------------------------------------------------------

    def _sum_entries(self) -> None:
        accounts = self._known_accounts()
        detailed = {name for name in accounts if _needs_detail(self._terms.account(name))}
        split_of = {name: self._split_days(name) for name in accounts}
        split = [(name, day) for name, days in split_of.items() for day in days]
        series_rows = self._db.execute(
            "SELECT id, account FROM series WHERE %(own)s::text[] IS NULL OR account = ANY(%(own)s)",
            {"own": None if self._accounts is None else list(self._accounts)},
        ).fetchall()
        split_series = [(number, day) for number, account in series_rows for day in split_of.get(account, ())]
        by_day = {*detailed, *(name for name in accounts if self._parts_month(name))}
        values: dict[str, Any] = {
            "series": None if self._accounts is None else [number for number, _ in series_rows],
            "by_instance": [number for number, account in series_rows if account in detailed],
            "by_day": [number for number, account in series_rows if account in by_day],
            "first_days": FIRST_DAYS,
            "split_series": [number for number, _ in split_series],
            "split_series_days": [day for _, day in split_series],
            "accounts": None if self._accounts is None else list(self._accounts), "instances": self._instances,
            "rebuilt": self._rebuilt,
            "split_accounts": [name for name, _ in split], "split_days": [day for _, day in split],
        }  # fmt: skip
        rows = self._db.execute(SUMS, values, binary=True).fetchall()
        series = self._names.series_of({row[0] for row in rows})
        prices = self._names.prices_of({row[1] for row in rows})
        subjects = self._names.subjects_of({row[6] for row in rows if row[6]})
        for series_id, price_id, kind, pack_start, pack_seconds, day, number, run, quantity in rows:
            price = prices[price_id]
            pack = None if pack_start is None else Pack(pack_start, pack_seconds, price)
            piece = Piece(kind, 0, 0, (), 0, series[series_id], price, run, pack, ())
            sums = self._sums(series[series_id].account)
            at = self._terms.account(series[series_id].account).calendar.day_start(day)
            sums.add_quantity(subjects[number] if number else "", piece, day, at, quantity)
        if split:
            self._add_split_days(values)
        if detailed:
            self._add_detail({**values, "accounts": sorted(detailed)})

    def _add_split_days(self, values: dict[str, Any]) -> None:
        """Days in which a credit begins or ends are cut there, entry by entry."""
        query = ENTRIES + (  # noqa: S608  # both parts are ours
            " AND (s.account, e.day) IN (SELECT * FROM unnest(%(split_accounts)s::text[], %(split_days)s::int[]))"
        )
        for subject, piece in self._entries(query, values):
            self._sums(piece.series.account).add(subject, piece)

    def _add_detail(self, values: dict[str, Any]) -> None:
        """How long instances held cards and how far sessions ran, where caps or a rebate ask for it."""
        for subject, piece in self._entries(ENTRIES, values):
            if piece.kind in WHOLE_KINDS:
                continue
            sums = self._sums(piece.series.account)
            day = self._terms.account(piece.series.account).calendar.day_of(piece.start)
            sums.add_held(subject, day, piece.start, piece.end)
            sums.add_reach(subject, piece.run, piece.end)

    def _entries(self, query: str, values: dict[str, Any]) -> Iterable[tuple[str, Piece]]:
        rows = self._db.execute(query, values, binary=True).fetchall()
        subjects = self._names.subjects_of({row[1] for row in rows})
        return [(subjects[number], entry.slice.piece) for number, entry in store.posted_of(rows, self._names)]

    # --- what only a fold can tell -------------------------------------------------------------------------------

    def _add_remainders(self) -> None:
        """What runs since the ledger was posted."""
        rows = self._db.execute(
            f"{HEAD_QUERY} WHERE (running OR beats AND EXISTS (SELECT FROM proof_run p"
            " WHERE p.instance_id = head.instance_id AND p.last > head.second)) AND NOT instance_id = ANY(%s)"
            " AND (%s::int[] IS NULL OR instance_id = ANY(%s) OR beats)",
            [self._rebuilt, self._instances, self._instances], binary=True,
        ).fetchall()  # fmt: skip
        heads = {row[0]: head_of(row) for row in rows}
        beating = [(number, head.state.second) for number, head in heads.items() if head.beats]
        proofs = store.proofs_since(self._db, beating) if beating else {}
        subjects = self._names.subjects_of(heads)
        for number, head in heads.items():
            fold = fold_from(head.state, self._terms, NO_RULINGS, proofs.get(number, NO_PROOF), ())
            finish(fold, self._as_of)
            for piece in fold.pieces:
                self._add_since(subjects[number], piece, head.posted)
            self.findings += [(subjects[number], each) for each in fold.findings]

    def _add_since(self, subject: str, piece: Piece, posted: int) -> None:
        if self._accounts is not None and piece.series.account not in self._accounts:
            return
        if piece.kind in WHOLE_KINDS:
            if piece.start >= posted:
                self._sums(piece.series.account).add(subject, piece)
        elif piece.end > posted:
            self._sums(piece.series.account).add(subject, clipped(piece, posted, piece.end))

    def _rebuild(self) -> None:
        """Fold instances that know later facts from their birth, without them."""
        subjects = self._names.subjects_of(self._rebuilt)
        proofs = store.proofs_since(self._db, [(number, 0) for number in self._rebuilt]) if self._rebuilt else {}
        for number in self._rebuilt:
            facts, bodies = history_of(self._db, number, self._as_of)
            own = [fact for fact in standing(facts, bodies) if fact.subject == subjects[number]]
            timeline = fold_history(own, proofs.get(number, NO_PROOF), self._terms, self._as_of)
            for piece in timeline.pieces:
                self._add_since(subjects[number], piece, -1)
            self.findings += [(subjects[number], each) for each in timeline.findings]

    def _load_findings(self) -> None:
        rows = self._db.execute(
            "SELECT instance_id, second, kind, seq, detail FROM finding WHERE NOT instance_id = ANY(%s)"
            " ORDER BY instance_id, second, kind, seq",
            [self._rebuilt],
        ).fetchall()
        subjects = self._names.subjects_of({row[0] for row in rows})
        self.findings += [(subjects[row[0]], Finding(row[2], row[1], row[3], row[4])) for row in rows]

    # --- accounts ------------------------------------------------------------------------------------------------

    def _known_accounts(self) -> list[str]:
        if self._accounts is not None:
            return list(self._accounts)
        return [row[0] for row in self._db.execute("SELECT DISTINCT account FROM series ORDER BY account")]

    def _sums(self, account: str) -> UsageSums:
        known = self.by_account.get(account)
        if known is None:
            terms = self._terms.account(account)
            known = self.by_account[account] = UsageSums(terms.calendar, _instants(self._credits(terms)))
        return known

    def _parts_month(self, account: str) -> bool:
        """Whether a credit of the account begins or ends inside a month, so that its days must be told apart."""
        calendar = self._terms.account(account).calendar
        instants = (i for i in _instants(self._credits(self._terms.account(account))) if 0 < i < 2**33)
        return any(calendar.month_start(calendar.month_of(instant)) != instant for instant in instants)

    def _split_days(self, account: str) -> list[int]:
        """The days inside which a credit of the account begins or ends."""
        terms = self._terms.account(account)
        instants = [i for i in _instants(self._credits(terms)) if 0 < i < 2**33]
        return sorted({d for i in instants if terms.calendar.day_start(d := terms.calendar.day_of(i)) != i})


CreditsOf = Callable[[AccountTerms], Sequence[Credit]]
"""Which credits an account has: those of its contracts and those that were issued to it."""


def _instants(credits: Iterable[Credit]) -> list[int]:
    return [instant for credit in credits for instant in (credit.since, credit.expires)]


def _needs_detail(terms: AccountTerms) -> bool:
    """Whether any contract of the account asks for instances: instance caps, or a long-term rebate."""
    return any(
        contract.long_term is not None or any(cap.per != "account_month" for cap in contract.caps)
        for contract in terms.contracts()
    )
