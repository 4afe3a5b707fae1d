"""A PostgreSQL of the benchmarks' own, in a folder that goes away, with the memory that a machine for it would give."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from cli.books import migrate
from core import embedded
from core.cluster import SUPERUSER
from core.database import connect
from core.roles import OWNER
from metering.terms_store import store_terms
from pricing.book import PriceBook
from pricing.contract import Contract
from pricing.load import parse_terms, read_terms

SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB"}
CONTRACT = {
    "discount": "0.05",
    "tiers": [{"sku": "*", "mode": "graduated", "measure": "spend", "bands": [{"up_to": 10000}, {"discount": "0.06"}]}],
    "caps": [{"per": "account_month", "amount": "600000.00"}],
    "credits": [{"id": "welcome", "kind": "voucher", "amount": "500.00", "from": "2026-01-01T00:00:00+08:00",
                 "expires": "2027-01-01T00:00:00+08:00"}],
}  # fmt: skip
ROOT = Path(__file__).parent.parent


@contextmanager
def server() -> Iterator[embedded.Server]:
    """A server that runs while the block does."""
    with tempfile.TemporaryDirectory(prefix="gpu-billing-bench-", ignore_cleanup_errors=True) as name:
        data = Path(name) / "data"
        try:
            with psycopg.connect(embedded.start(data).url(SUPERUSER, SUPERUSER), autocommit=True) as connection:
                for key, value in SETTINGS.items():
                    connection.execute(f"ALTER SYSTEM SET {key} = '{value}'")
            embedded.stop(data)
            yield embedded.start(data)
        finally:
            embedded.stop(data)


def fresh_books(running: embedded.Server, name: str) -> str:
    """The address of new, empty books that know the example price book and contracts."""
    with psycopg.connect(running.url(SUPERUSER, SUPERUSER), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} OWNER {OWNER}")
        connection.execute("CHECKPOINT")
    url = running.url(database=name)
    migrate(url)
    with connect(url) as connection, connection.transaction():
        store_terms(connection, terms(), correction=False)
    return url


def terms(accounts: int = 1000) -> list[PriceBook | Contract]:
    """The example price book, and a contract for every third account: tiers, a discount, a cap and a credit."""
    found = list(read_terms(ROOT / "examples" / "price-book.yaml"))
    for number in range(0, accounts, 3):
        told = CONTRACT | {"account": f"acct-{number}"}
        found += parse_terms(json.dumps(told).encode(), "benchmark")
    return found
