"""Numbers for names: instances, series and prices, each remembered in the process.

New names are committed at once on a connection of their own, before the batch that needs them: recorders that meet on
a new name must not wait for each other's batches.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from psycopg import Connection

from metering.pieces import Series


class Names:
    """The look-ups of one recorder; ``connection`` must be in autocommit mode."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection
        self._instances: dict[str, int] = {}
        self._series: dict[Series, int] = {}
        self._prices: dict[Fraction, int] = {}
        self._account_instances: set[tuple[str, int]] = set()
        self.subjects: dict[int, str] = {}
        self.series: dict[int, Series] = {}
        self.prices: dict[int, Fraction] = {}

    def instances(self, subjects: Iterable[str]) -> dict[str, int]:
        """The numbers of instances; a new one gets its head too."""
        missing = sorted({subject for subject in subjects if subject not in self._instances})
        if missing:
            run = self.connection.execute
            run("INSERT INTO instance (subject) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING", [missing])
            rows = run("SELECT subject, id FROM instance WHERE subject = ANY(%s)", [missing]).fetchall()
            run(
                "INSERT INTO head (instance_id, version, second, posted, facts, beats, running, state)"
                " SELECT unnest(%s::int[]), 0, -1, -1, 0, false, false, ''::bytea ON CONFLICT DO NOTHING",
                [sorted(number for _, number in rows)],
            )
            self._instances.update(rows)
            self.subjects.update((number, subject) for subject, number in rows)
        return self._instances

    def subjects_of(self, numbers: Iterable[int]) -> dict[int, str]:
        """The names of instances."""
        missing = sorted({number for number in numbers if number not in self.subjects})
        if missing:
            rows = self.connection.execute("SELECT id, subject FROM instance WHERE id = ANY(%s)", [missing])
            self.subjects.update(rows.fetchall())
        return self.subjects

    def number_series(self, wanted: Iterable[Series]) -> dict[Series, int]:
        """The numbers of series."""
        missing = sorted({series for series in wanted if series not in self._series})
        if missing:
            columns = [list(column) for column in zip(*missing, strict=True)]
            self.connection.execute(
                "INSERT INTO series (account, project, sku, plan, region)"
                " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"
                " ON CONFLICT DO NOTHING",
                columns,
            )
            self._load_series("(account, project, sku, plan, region) IN (SELECT * FROM unnest"
                              "(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[]))", columns)  # fmt: skip
        return self._series

    def number_prices(self, wanted: Iterable[Fraction]) -> dict[Fraction, int]:
        """The numbers of prices."""
        missing = sorted({price for price in wanted if price not in self._prices})
        if missing:
            texts = [str(price) for price in missing]
            run = self.connection.execute
            run("INSERT INTO price (amount) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING", [texts])
            self._load_prices("amount = ANY(%s)", [texts])
        return self._prices

    def series_of(self, numbers: Iterable[int]) -> dict[int, Series]:
        """Series by their numbers."""
        missing = sorted({number for number in numbers if number not in self.series})
        if missing:
            self._load_series("id = ANY(%s)", [missing])
        return self.series

    def prices_of(self, numbers: Iterable[int]) -> dict[int, Fraction]:
        """Prices by their numbers."""
        missing = sorted({number for number in numbers if number not in self.prices})
        if missing:
            self._load_prices("id = ANY(%s)", [missing])
        return self.prices

    def note_account_instances(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Remember which instances an account has had."""
        missing = sorted({pair for pair in pairs if pair not in self._account_instances})
        if missing:
            columns = [list(column) for column in zip(*missing, strict=True)]
            self.connection.execute(
                "INSERT INTO account_instance SELECT * FROM unnest(%s::text[], %s::int[]) ON CONFLICT DO NOTHING",
                columns,
            )
            self._account_instances.update(missing)

    def _load_series(self, condition: str, values: list[Any]) -> None:
        query = f"SELECT id, account, project, sku, plan, region FROM series WHERE {condition}"  # noqa: S608  # ours
        for number, *parts in self.connection.execute(query, values):
            series = Series(*parts)
            self._series[series] = number
            self.series[number] = series

    def _load_prices(self, condition: str, values: list[Any]) -> None:
        query = f"SELECT id, amount FROM price WHERE {condition}"  # noqa: S608  # the condition is ours
        for number, amount in self.connection.execute(query, values):
            price = Fraction(amount)
            self._prices[price] = number
            self.prices[number] = price
