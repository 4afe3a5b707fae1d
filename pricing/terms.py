"""Which terms hold for an account at an instant: price books and contracts by version (R11, settled: Terms).

Versions are numbered in the order in which they were recorded. A month that is closed is pinned: it sees only the
versions recorded before its close, unless a later one was applied as a correction. Instants are whole seconds (UTC).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from core.calendar import Calendar, calendar
from pricing.book import ALWAYS, DEFAULT_XIDS, Plan, Price, PriceBook
from pricing.contract import Contract, Credit

NEVER = 2**62
"""Later than every instant."""


@dataclass(frozen=True, slots=True)
class Version:
    """A price book or contract as it was recorded: its number, and whether it may change pinned months."""

    number: int
    terms: PriceBook | Contract
    correction: bool = False


@dataclass(frozen=True, slots=True)
class MonthTerms:
    """The contract and the price book in force in one billing month of an account."""

    contract: Contract
    book: PriceBook


@dataclass(frozen=True, slots=True)
class Schedule:
    """The price per card-hour (or per pack) of one SKU, plan and region over time; None where there is none."""

    starts: tuple[int, ...]
    amounts: tuple[Fraction | None, ...]

    def at(self, second: int) -> Fraction | None:
        """The price in force at a second."""
        return self.amounts[bisect_right(self.starts, second) - 1]

    def until(self, second: int) -> int:
        """The first later second at which the price may differ, or ``NEVER``."""
        index = bisect_right(self.starts, second)
        return self.starts[index] if index < len(self.starts) else NEVER


class Terms:
    """All versions that are known, and the months that are pinned (month number: highest version it sees).

    ``default_book`` is the price book of accounts without a contract.
    """

    def __init__(
        self, versions: Iterable[Version], pins: Mapping[int, int] | None = None, default_book: str = "standard"
    ) -> None:
        self.versions = tuple(versions)
        self.pins = dict(pins or {})
        self.default_book = default_book
        self._accounts: dict[str, AccountTerms] = {}
        self._contracts: dict[str, list[Version]] = defaultdict(list)
        self._books: list[tuple[Version, PriceBook]] = []
        for version in self.versions:
            if isinstance(version.terms, Contract):
                self._contracts[version.terms.account].append(version)
            else:
                self._books.append((version, version.terms))
        self._shared: dict[Hashable, SharedPrices] = defaultdict(SharedPrices)

    @classmethod
    def of(cls, *terms: PriceBook | Contract, default_book: str = "standard") -> "Terms":
        """Terms that were all recorded at once and pinned nowhere, as a dry run has them."""
        return cls((Version(number, each) for number, each in enumerate(terms, start=1)), None, default_book)

    def xid_tables(self) -> list[Mapping[int, str]]:
        """Every table of XID classes that may be in force anywhere."""
        books = (version.terms for version in self.versions)
        tables = [DEFAULT_XIDS, *(book.xids for book in books if isinstance(book, PriceBook))]
        return [table for place, table in enumerate(tables) if table not in tables[:place]]

    def account(self, account: str) -> "AccountTerms":
        """The terms of one account; without a contract it has the standard price book and nothing else."""
        known = self._accounts.get(account)
        if known is None:
            known = self._accounts[account] = AccountTerms(account, self)
        return known

    def books(self) -> Iterable[PriceBook]:
        """All versions of all price books, in order of recording."""
        return (book for _, book in self._books)

    def book_versions(self, name: str, month: int) -> list[PriceBook]:
        """The versions of a price book that a month can see, in order of recording."""
        return [book for version, book in self._books if book.id == name and self.sees(month, version)]

    def contract_versions(self, account: str) -> Sequence[Version]:
        """All versions of an account's contract, in order of recording."""
        return self._contracts.get(account, ())

    def sees(self, month: int, version: Version) -> bool:
        """Whether a version may hold in a month: one that is closed sees what was known then, and corrections."""
        return version.number <= self.pins.get(month, NEVER) or version.correction

    def shared(self, key: Hashable) -> "SharedPrices":
        """What has been found for all accounts that are priced alike: most of a thousand accounts are."""
        return self._shared[key]


@dataclass(slots=True)
class SharedPrices:
    """Look-ups that accounts with the same book, zone and cuts share: books by cut, schedules by SKU, plan, region."""

    books: dict[int, PriceBook | None] = field(default_factory=dict)
    schedules: dict[tuple[str, str, str], Schedule] = field(default_factory=dict)


@dataclass(slots=True)
class AccountTerms:
    """The terms of one account, each look-up remembered."""

    name: str
    terms: Terms
    calendar: Calendar = field(init=False)
    _cuts: tuple[int, ...] = field(init=False)
    _shared: SharedPrices = field(init=False)

    def __post_init__(self) -> None:
        self.calendar = calendar(self._zone())
        self._cuts = self._find_cuts()
        names = tuple(self._book_name(max(cut, self.calendar_floor())) for cut in self._cuts)
        self._shared = self.terms.shared((self.calendar.zone.key, self._cuts, names))

    def contract(self, month: int) -> Contract:
        """The contract in force from the month's first instant; of two from one instant the one recorded later."""
        start = self.calendar.month_start(month)
        own = self.terms.contract_versions(self.name)
        known = [v.terms for v in reversed(own) if self.terms.sees(month, v) and isinstance(v.terms, Contract)]
        return max((c for c in known if c.since <= start), key=lambda c: c.since, default=self._default())

    def contracts(self) -> list[Contract]:
        """All versions of the account's contract, in order of recording."""
        own = (version.terms for version in self.terms.contract_versions(self.name))
        return [each for each in own if isinstance(each, Contract)]

    def credits(self) -> list[Credit]:
        """The credits that the contracts grant, each as it was granted first: a grant never changes.

        A grant that was recorded after months had been closed cannot pay in them, unless it came as a correction.
        """
        found: dict[str, Credit] = {}
        for version in self.terms.contract_versions(self.name):
            if isinstance(version.terms, Contract):
                closed = [month for month, pin in self.terms.pins.items() if pin < version.number]
                first = max(closed) + 1 if closed and not version.correction else ALWAYS
                for credit in version.terms.credits:
                    found.setdefault(credit.id, replace(credit, first_month=first))
        return list(found.values())

    def month(self, month: int) -> MonthTerms | None:
        """Contract and price book (by its tax, plans and SKUs at the month's start) of a month; None without a book."""
        book = self.book(self.calendar.month_start(month))
        return None if book is None else MonthTerms(self.contract(month), book)

    def book(self, second: int) -> PriceBook | None:
        """The version of the account's price book in force at a second, for plans, tax, XIDs and time-out."""
        index = bisect_right(self._cuts, second) - 1
        known = self._shared.books
        if index not in known:
            known[index] = self._find_book(max(self._cuts[index], self.calendar_floor()))
        return known[index]

    def plan(self, name: str, second: int) -> Plan | None:
        """A plan by its name, as defined at a second (for a session: its start)."""
        book = self.book(second)
        return None if book is None else book.plans.get(name)

    def timeout(self, second: int) -> int:
        """The heartbeat time-out in seconds in force at a second (R9)."""
        book = self.book(second)
        return 180 if book is None else book.heartbeat_timeout_s

    def xids(self, second: int) -> Mapping[int, str]:
        """Whose fault each GPU XID is, at a second (for an incident: its start) (R7)."""
        book = self.book(second)
        return DEFAULT_XIDS if book is None else book.xids

    def schedule(self, sku: str, plan: str, region: str) -> Schedule:
        """The prices of one SKU, plan and region over time; a row with a region beats one without."""
        key = (sku, plan, region)
        known = self._shared.schedules.get(key)
        if known is None:
            known = self._shared.schedules[key] = self._find_schedule(key)
        return known

    def cuts(self) -> tuple[int, ...]:
        """Every instant at which another book, version or price may begin to hold, ascending."""
        return self._cuts

    def calendar_floor(self) -> int:
        """The earliest instant that a calendar is asked about."""
        return self.calendar.month_start(1970 * 12 + 1)

    def _default(self) -> Contract:
        return Contract(self.name, price_book=self.terms.default_book)

    def _zone(self) -> str:
        """The zone of the earliest contract, or of its price book; of several versions the latest said counts."""
        named = min(reversed(self.contracts()), key=lambda contract: contract.since, default=self._default())
        if named.time_zone:
            return named.time_zone
        zones = [book.time_zone for book in self.terms.books() if book.id == named.price_book]
        return zones[-1] if zones else "Asia/Shanghai"

    def _find_cuts(self) -> tuple[int, ...]:
        """Every instant at which another book, version or price may begin to hold."""
        cuts = {ALWAYS, *(contract.since for contract in self.contracts())}
        for book in self.terms.books():
            cuts.add(book.since)
            cuts.update(price.since for price in book.prices)
        for month in self.terms.pins:
            cuts.update((self.calendar.month_start(month), self.calendar.month_start(month + 1)))
        return tuple(sorted(cuts))

    def _versions_at(self, second: int) -> list[PriceBook]:
        """The versions of the account's price book that a second can see, in order of recording."""
        return self.terms.book_versions(self._book_name(second), self.calendar.month_of(second))

    def _book_name(self, second: int) -> str:
        return self.contract(self.calendar.month_of(second)).price_book

    def _find_book(self, second: int) -> PriceBook | None:
        found: PriceBook | None = None
        for book in self._versions_at(second):
            if book.since <= second and (found is None or book.since >= found.since):
                found = book
        return found

    def _find_schedule(self, key: tuple[str, str, str]) -> Schedule:
        starts: list[int] = []
        amounts: list[Fraction | None] = []
        for cut in self._cuts:
            amount = self._find_price(key, max(cut, self.calendar_floor()))
            if not starts or amounts[-1] != amount:
                starts.append(cut)
                amounts.append(amount)
        return Schedule(tuple(starts), tuple(amounts))

    def _find_price(self, key: tuple[str, str, str], second: int) -> Fraction | None:
        """A version's rows for a SKU, plan and region replace the earlier versions' from their first instant on."""
        sku, plan, region = key
        best: dict[str | None, Price] = {}
        for book in self._versions_at(second):
            for price in book.prices:
                fits = price.sku == sku and price.plan == plan and price.region in (None, region)
                if fits and price.since <= second:
                    held = best.get(price.region)
                    if held is None or held not in book.prices or price.since >= held.since:
                        best[price.region] = price
        row = best.get(region) or best.get(None)
        return row.amount if row else None
