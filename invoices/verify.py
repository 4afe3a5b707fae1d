"""Proof of the books: the ledger's, and that every issued invoice is the one that was issued and adds up."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from hashlib import sha256
from itertools import groupby
from typing import Any

from invoices.compose import canonical_bytes
from invoices.store import FIRST_DIGEST
from metering.names import Names
from metering.store import Db
from metering.terms_store import load_terms
from metering.verify import ledger_differences


def differences(db: Db, names: Names) -> Iterator[str]:
    """What does not agree in the books, a line each, first things first; ``db`` must be in autocommit mode."""
    with db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield from _terms_differences(db)
        yield from ledger_differences(db, names, load_terms(db))
        yield from _invoice_differences(db)


def _terms_differences(db: Db) -> Iterator[str]:
    for number, name in db.execute(
        "SELECT number, name FROM terms_version WHERE digest <> sha256(canonical) ORDER BY number"
    ):
        yield f"terms version {number} ({name}) is not the one that was recorded"


def _invoice_differences(db: Db) -> Iterator[str]:
    rows = db.execute(
        "SELECT series, year, position, number, document, digest FROM invoice ORDER BY series, year, position"
    ).fetchall()
    for (series, year), group in groupby(rows, key=lambda row: (row[0], row[1])):
        previous, expected = FIRST_DIGEST, 1
        for _, _, position, number, raw, digest in group:
            if position != expected:
                yield f"invoice {series}-{year}: position {expected} is missing"
            if sha256(previous + bytes(raw)).digest() != bytes(digest):
                yield f"invoice {number} is not the one that was issued"
            else:
                yield from _sums_differ(number, json.loads(bytes(raw)), bytes(raw))
            previous, expected = bytes(digest), position + 1


def _sums_differ(number: str, document: Mapping[str, Any], raw: bytes) -> Iterator[str]:
    """Lines and corrections must foot to the totals."""
    totals = {name: Decimal(amount) for name, amount in document["totals"].items()}
    listed = _sum(document["lines"], "list") + _sum(document["corrections"], "list")
    charged = _sum(document["lines"], "charge") + _sum(document["corrections"], "amount")
    paid = _sum(document["credits"], "applied") + _sum(document["credit_corrections"], "applied")
    taxed = _sum(document["taxes"], "tax") + _sum(document["tax_corrections"], "tax")
    for name, found in (("list", listed), ("charges", charged), ("credits", paid), ("tax", taxed)):
        if totals[name] != found:
            yield f"invoice {number}: {name} is {totals[name]}, its parts sum to {found}"
    if document["number"] != number or canonical_bytes(document) != raw:
        yield f"invoice {number}: its document is not in canonical form"


def _sum(rows: list[dict[str, Any]], name: str) -> Decimal:
    return sum((Decimal(row[name]) for row in rows), Decimal(0))
