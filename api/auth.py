"""Who sends: a key in the Authorization header, checked against its hash for every request.

Nothing is remembered between requests, so that a revocation holds from the next one on.
"""

from fastapi import Depends, Request

from api.service import Service, service
from core.errors import BillingError
from core.key_store import find_key
from core.keys import INGEST, Key, id_in, key_digest, same_digest


class KeyMissing(BillingError):
    """No key was sent."""

    def __init__(self) -> None:
        super().__init__("send an ingest key as `Authorization: Bearer gbk_...`")


class KeyUnknown(BillingError):
    """What was sent is no key of ours: misspelt, made up, or hashed under another pepper."""

    def __init__(self) -> None:
        super().__init__("this key is not known")


class KeyExpired(BillingError):
    """A key past its last instant."""

    def __init__(self, key: Key) -> None:
        assert key.expires_at is not None
        super().__init__(f"key {key.id} expired at {key.expires_at.isoformat()}")


class KeyRevoked(BillingError):
    """A key that was taken out of use."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"key {key.id} was revoked")


class ScopeMissing(BillingError):
    """A key that is good for something else."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"key {key.id} has the scope {key.scope!r}, not {INGEST!r}")


def ingest_key(request: Request, shared: Service = Depends(service)) -> Key:  # noqa: B008  # how FastAPI is told
    """The key of a request that may bring events."""
    key = _known_key(shared, _sent(request))
    request.state.key = key.id
    status = key.status(shared.clock())
    if status == "revoked":
        raise KeyRevoked(key)
    if status == "expired":
        raise KeyExpired(key)
    if key.scope != INGEST:
        raise ScopeMissing(key)
    return key


def _sent(request: Request) -> str:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise KeyMissing
    return text.strip()


def _known_key(shared: Service, text: str) -> Key:
    key_id = id_in(text)
    if key_id is None:
        raise KeyUnknown
    with shared.questions.connection() as db:
        found = find_key(db, key_id)
    digest = key_digest(shared.pepper, text)
    if found is None or not same_digest(found[1], digest):
        raise KeyUnknown
    return found[0]
