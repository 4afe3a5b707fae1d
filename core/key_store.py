"""The keys' queries; the tables only grow, and a revocation is a row of its own."""

from datetime import datetime
from typing import Any

from psycopg import Connection

from core.errors import BillingError
from core.keys import Key

Db = Connection[Any]

_KEYS = (
    "SELECT k.id, k.name, k.scope, k.created_at, k.expires_at, r.revoked_at, k.digest"
    " FROM api_key k LEFT JOIN api_key_revocation r ON r.key_id = k.id"
)


class KeyNotThere(BillingError):
    """A key is named that was never made."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key has the id {key_id!r}; `gpu-billing keys list` shows them all")


def add_key(db: Db, key_id: str, digest: bytes, name: str, scope: str, expires_at: datetime | None) -> None:
    """Keep a new key's hash."""
    db.execute(
        "INSERT INTO api_key (id, name, scope, digest, expires_at) VALUES (%s, %s, %s, %s, %s)",
        [key_id, name, scope, digest, expires_at],
    )


def find_key(db: Db, key_id: str) -> tuple[Key, bytes] | None:
    """A key and its digest."""
    row = db.execute(f"{_KEYS} WHERE k.id = %s", [key_id]).fetchone()
    return None if row is None else (Key(*row[:6]), bytes(row[6]))


def all_keys(db: Db) -> list[Key]:
    """Every key there ever was, in order of making."""
    return [Key(*row[:6]) for row in db.execute(f"{_KEYS} ORDER BY k.created_at, k.id")]


def revoke_key(db: Db, key_id: str) -> bool:
    """Take a key out of use for ever; false when it was before. Raises ``KeyNotThere``."""
    if find_key(db, key_id) is None:
        raise KeyNotThere(key_id)
    done = db.execute("INSERT INTO api_key_revocation (key_id) VALUES (%s) ON CONFLICT DO NOTHING", [key_id])
    return done.rowcount == 1
