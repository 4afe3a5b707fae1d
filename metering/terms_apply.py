"""New terms into the ledger: checked as a whole, recorded at once, and whatever they touch is rated again.

What has to be rated again is queued in the transaction that records the terms, and leaves the queue in the transaction
that rates it: whoever is killed in between, the next command goes on where it stopped.

Heartbeats are kept as runs joined over the shortest time-out known when they came. A shorter one applied later cannot
part those runs again; it counts for what comes after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from psycopg import Connection

from core.errors import TermsInvalid
from metering.heads import HEAD_QUERY, head_of
from metering.recorder import Recorder
from metering.terms_store import RATING_LOCK, Applied, load_terms, name_of, store_terms
from pricing.book import PriceBook
from pricing.contract import Contract
from pricing.crosscheck import check_contract, did_you_mean
from pricing.terms import NEVER, Terms, Version
from pricing.terms_change import Changes, currencies

CHUNK = 2_000
"""So many instances are rated again in one transaction."""


def apply_terms(recorder: Recorder, terms: Sequence[PriceBook | Contract], correction: bool) -> list[Applied]:
    """Record versions of terms and rate again what they touch; raises ``TermsInvalid`` before anything is stored."""
    db = recorder.connection
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", [RATING_LOCK])
        old = load_terms(db)
        new = _with(old, terms, correction)
        problems = problems_of(terms, old, new, _accounts_with_entries(db))
        if problems:
            raise TermsInvalid(problems)
        applied = store_terms(db, terms, correction)
        if not all(each.known for each in applied):
            _queue(db, touched(db, old, load_terms(db)))
    finish_rerating(recorder)
    return applied


def finish_rerating(recorder: Recorder) -> int:
    """Rate again what waits for it, some instances at a time; returns how many there were."""
    db, done = recorder.connection, 0
    while True:
        with db.transaction():
            waiting = dict(db.execute("SELECT instance_id, since FROM rerating LIMIT %s", [CHUNK]).fetchall())
        if not waiting:
            return done
        recorder.rerate(sorted(waiting), waiting)
        done += len(waiting)


def _with(old: Terms, terms: Iterable[PriceBook | Contract], correction: bool) -> Terms:
    """The terms as they will be; numbers above all pins, as the ledger will give them."""
    last = max((version.number for version in old.versions), default=0)
    added = (Version(number, each, correction) for number, each in enumerate(terms, start=last + 1))
    return Terms((*old.versions, *added), old.pins)


# --- what is wrong with them ----------------------------------------------------------------------------------------


def problems_of(
    terms: Sequence[PriceBook | Contract], old: Terms, new: Terms, used: Sequence[str]
) -> list[str]:  # fmt: skip
    """Why terms cannot be applied on top of older ones; ``used`` are the accounts that have usage."""
    problems, seen = [], set()
    for each in terms:
        kind, name = name_of(each)
        where = f"{kind.replace('_', ' ')} {name}"
        if (kind, name, each.since) in seen:
            problems.append(f"{where}: is given twice from the same instant")
        seen.add((kind, name, each.since))
        own = _contract_problems(each, new) if isinstance(each, Contract) else _book_problems(each, terms)
        problems += [f"{where}: {problem}" for problem in own]
    return problems or [problem for account in used for problem in _fixed_problems(account, old, new)]


def _contract_problems(contract: Contract, new: Terms) -> list[str]:
    books = [v.terms for v in new.versions if isinstance(v.terms, PriceBook)]
    own = [book for book in books if book.id == contract.price_book]
    if not own:
        hint = did_you_mean(contract.price_book, {book.id for book in books})
        return [f"price_book: there is no price book '{contract.price_book}'{hint}; apply it first, or along with it"]
    zone = new.account(contract.account).calendar.zone.key
    if contract.time_zone not in (None, zone):
        return [f"time_zone: is {contract.time_zone}, but the account's is {zone} by its earliest contract (R2)"]
    found = [check_contract(replace(contract, time_zone=zone), book) for book in reversed(own)]
    return [] if [] in found else found[0]


def _book_problems(book: PriceBook, terms: Iterable[PriceBook | Contract]) -> list[str]:
    others = [each for each in terms if isinstance(each, PriceBook) and each.id == book.id]
    return [
        f"{name}: its versions differ, {' and '.join(sorted(values))} ({rule})"
        for name, rule in (("time_zone", "R2"), ("currency", "R16"))
        if len(values := {getattr(each, name) for each in others}) > 1
    ]


def _fixed_problems(account: str, old: Terms, new: Terms) -> list[str]:
    """The days of usage that is recorded are cut by its zone, and its prices are in its currency."""
    before, after = old.account(account), new.account(account)
    zones = before.calendar.zone.key, after.calendar.zone.key
    if zones[0] != zones[1]:
        return [f"time_zone: account {account} has usage in days of {zones[0]}; it cannot change to {zones[1]} (R2)"]
    if changed := currencies(before, after):
        return [f"currency: account {account} has usage in {changed[0]}; it cannot change to {changed[1]} (R16)"]
    return []


# --- what they touch ------------------------------------------------------------------------------------------------


def touched(db: Connection[Any], old: Terms, new: Terms) -> dict[int, int]:
    """Instances that may be rated otherwise, each with the first second at which.

    Whose usage an instance is, its entries tell, and the session that runs. Where nothing was entered, or something
    was refused for want of a price, any account may be meant.
    """
    changes = Changes(old, new)
    accounts = {*_accounts_with_entries(db), *_with_contracts(new), ""}
    since = {name: second for name in sorted(accounts) if (second := changes.since(name)) < NEVER}
    found: dict[int, int] = {}
    rows = db.execute("SELECT account, instance_id FROM account_instance WHERE account = ANY(%s)", [sorted(since)])
    _note(found, ((number, since[account]) for account, number in rows))
    for row in db.execute(f"{HEAD_QUERY} WHERE running", binary=True).fetchall():
        _note(found, ((row[0], changes.since(s.account)) for s in head_of(row).state.sessions))
    if since:
        _note(found, ((row[0], min(since.values())) for row in db.execute(OF_ANY_ACCOUNT)))
    return {number: second for number, second in found.items() if second < NEVER}


OF_ANY_ACCOUNT = """
    SELECT instance_id FROM head h WHERE (second >= 0 OR beats)
    AND NOT EXISTS (SELECT FROM account_instance a WHERE a.instance_id = h.instance_id)
    UNION SELECT instance_id FROM finding WHERE kind = 'no_price'
"""


def _note(found: dict[int, int], pairs: Iterable[tuple[int, int]]) -> None:
    for number, second in pairs:
        found[number] = min(second, found.get(number, NEVER))


def _accounts_with_entries(db: Connection[Any]) -> list[str]:
    return [row[0] for row in db.execute("SELECT DISTINCT account FROM account_instance ORDER BY account")]


def _with_contracts(terms: Terms) -> set[str]:
    return {version.terms.account for version in terms.versions if isinstance(version.terms, Contract)}


def _queue(db: Connection[Any], instances: dict[int, int]) -> None:
    db.execute(
        "INSERT INTO rerating SELECT * FROM unnest(%s::int[], %s::bigint[])"
        " ON CONFLICT (instance_id) DO UPDATE SET since = least(rerating.since, excluded.since)",
        [list(instances), list(instances.values())],
    )
