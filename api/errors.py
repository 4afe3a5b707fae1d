"""The one place where a failed request gets a status: every fact becomes a problem (RFC 9457), none a traceback.

A 503 says nothing about whether events were recorded; sending them again is harmless (R25), so all that may pass
carries ``Retry-After``. What the database says of itself, its address for one, stays in our log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import psycopg
import structlog
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from api import auth, bodies, recording, service
from api.schemas import Problem
from core.database import DatabaseUnavailable
from core.errors import BillingError
from metering.recorder import BatchRefused

PROBLEM: Final = "application/problem+json"
RETRY_S: Final = "2"

log = structlog.get_logger(__name__)


class BodyTooSlow(BillingError):
    """A body that did not arrive in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the body did not arrive within {seconds:g} s")


class NotReady(BillingError):
    """The database is not in the shape that this program needs."""

    def __init__(self, step: str | None, needed: str | None) -> None:
        super().__init__(f"the database is at {step or 'the beginning'}, this program needs {needed}")


@dataclass(frozen=True, slots=True)
class Kind:
    """How one fact is told: its name in ``type``, title, status, headers, and a detail in place of the error's own."""

    name: str | None
    title: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    detail: str | None = None


_ASK: Final = {"WWW-Authenticate": 'Bearer realm="gpu-billing"'}
_INVALID: Final = {"WWW-Authenticate": 'Bearer realm="gpu-billing", error="invalid_token"'}
_SCOPE: Final = {"WWW-Authenticate": 'Bearer realm="gpu-billing", error="insufficient_scope", scope="ingest"'}
_ACCEPT: Final = {"Accept": ", ".join(bodies.KNOWN)}
_GZIP: Final = {"Accept-Encoding": "gzip"}
_RETRY: Final = {"Retry-After": RETRY_S}
_AWAY: Final = Kind(
    "database-away", "The database cannot be reached", 503, _RETRY,
    "the database cannot be reached; send it again, duplicates are harmless",
)  # fmt: skip
_CLASH: Final = Kind(
    "not-recorded", "Not recorded", 503, _RETRY, "the batch met others on the same rows; send it again"
)  # fmt: skip
_INTERNAL: Final = Kind(
    "internal", "An error of this service", 500, {}, "an error of this service; its operator finds it by the request id"
)

KINDS: Final[dict[type[Exception], Kind]] = {
    auth.KeyMissing: Kind("key-missing", "No key", 401, _ASK),
    auth.KeyUnknown: Kind("key-unknown", "Unknown key", 401, _INVALID),
    auth.KeyExpired: Kind("key-expired", "Expired key", 401, _INVALID),
    auth.KeyRevoked: Kind("key-revoked", "Revoked key", 401, _INVALID),
    auth.ScopeMissing: Kind("scope-missing", "The key is for something else", 403, _SCOPE),
    bodies.BodyUnreadable: Kind("body-unreadable", "The body cannot be read", 400),
    bodies.BodyTooLarge: Kind("body-too-large", "The body is too large", 413),
    bodies.TooManyEvents: Kind("too-many-events", "Too many events", 413),
    bodies.MediaUnsupported: Kind("media-unsupported", "Unknown content type", 415, _ACCEPT),
    bodies.EncodingUnsupported: Kind("encoding-unsupported", "Unknown content encoding", 415, _GZIP),
    BodyTooSlow: Kind("body-too-slow", "The body came too slowly", 408),
    service.KeyBusy: Kind("key-busy", "Too many requests of this key", 429, _RETRY),
    service.ServerBusy: Kind("server-busy", "Too many requests", 503, _RETRY),
    recording.NotRecordedInTime: Kind("not-recorded-in-time", "Not recorded in time", 503, _RETRY),
    recording.ShuttingDown: Kind("shutting-down", "Being stopped", 503, _RETRY),
    NotReady: Kind("not-ready", "Not ready", 503, _RETRY),
    DatabaseUnavailable: _AWAY,
    psycopg.OperationalError: _AWAY,  # also PoolTimeout
    psycopg.InterfaceError: _AWAY,
    BatchRefused: _CLASH,
    Exception: _INTERNAL,
}  # fmt: skip


def kind_of(error: Exception) -> Kind:
    """How an exception is told, by its class or the nearest one above it."""
    return next(KINDS[each] for each in type(error).__mro__ if each in KINDS)


def install(app: FastAPI) -> None:
    """Give the application its exception handlers."""
    for known in (BillingError, psycopg.Error, Exception):
        app.add_exception_handler(known, _answer)
    app.add_exception_handler(HTTPException, _answer_http)


def _answer(request: Request, error: Exception) -> Response:
    kind = kind_of(error)
    if kind.status >= 500:
        log.warning("request failed", problem=kind.name, error=f"{type(error).__name__}: {error}")
    return problem(request, kind, kind.detail or str(error))


def _answer_http(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    return problem(request, Kind(None, error.detail, error.status_code, error.headers or {}), error.detail)


def problem(request: Request, kind: Kind, detail: str) -> Response:
    """The answer to a request that was not carried out."""
    name = f"urn:gpu-billing:problem:{kind.name}" if kind.name else "about:blank"
    told: Any = Problem(name, kind.title, kind.status, detail, request.state.request_id)
    return Response(msgspec.json.encode(told), kind.status, kind.headers, PROBLEM)
