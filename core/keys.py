"""Keys that programs show at the door: ``gbk_<id>_<secret>``, random, shown once.

The id names a key in lists and logs and is no secret. The books keep a hash of the whole text under a pepper that is
not in the database: who reads the database can neither show a key nor test a guess. A random key of 256 bits needs no
slow hash.
"""

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

INGEST: Final = "ingest"
"""The scope that lets a key bring events, and nothing else."""

SHAPE: Final = re.compile(r"gbk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
MASK: Final = r"gbk_\1_***"
"""What stands in a log where a key stood."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the books know it; the instants are aware."""

    id: str
    name: str
    scope: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def status(self, now: datetime) -> str:
        """``valid``, ``expired`` or ``revoked``; a key is expired from its last instant on."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def new_key() -> str:
    """A key that nobody has seen before: 48 random bits of id, 256 of secret."""
    return f"gbk_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"


def id_in(text: str) -> str | None:
    """The id of something shaped like a key, else nothing."""
    match = SHAPE.fullmatch(text)
    return match.group(1) if match else None


def key_digest(pepper: bytes, text: str) -> bytes:
    """What the books keep of a key: HMAC-SHA256 of its text."""
    return hmac.digest(pepper, text.encode(), "sha256")


def same_digest(one: bytes, other: bytes) -> bool:
    """Whether two digests are one; takes the same time wherever they differ."""
    return hmac.compare_digest(one, other)
