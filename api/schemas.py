"""What goes over the wire; plain dataclasses, which the OpenAPI page describes and msgspec writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

Reason = Literal["malformed", "unknown_type", "conflict", "duplicate"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that is in the books from now on."""

    id: str
    verdict: Literal["accepted"] = "accepted"


@dataclass(frozen=True, slots=True)
class NotAccepted:
    """An event that changes nothing: known already, or refused and kept for a person; ``id`` where one was readable."""

    id: str | None
    verdict: Literal["duplicate", "rejected"]
    reason: Reason
    detail: str


Verdict = Accepted | NotAccepted


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of a request's events, in their order: received = accepted + duplicate + rejected."""

    received: int
    accepted: int
    duplicate: int
    rejected: int
    events: list[Verdict]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was not carried out (RFC 9457)."""

    type: Annotated[str, Field(examples=["urn:gpu-billing:problem:body-too-large"])]
    title: str
    status: int
    detail: str
    request_id: str


@dataclass(frozen=True, slots=True)
class State:
    """How the process is."""

    status: str


EVENT: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "One CloudEvent in structured JSON form.",
    "required": ["specversion", "id", "source", "type", "subject", "time"],
    "properties": {
        "specversion": {"type": "string", "enum": ["1.0"]},
        "id": {"type": "string", "minLength": 1, "maxLength": 256},
        "source": {"type": "string", "minLength": 1, "maxLength": 256},
        "type": {"type": "string", "examples": ["instance.started"]},
        "subject": {"type": "string", "minLength": 1, "maxLength": 256, "description": "the instance"},
        "time": {"type": "string", "format": "date-time"},
        "data": {"type": "object"},
    },
}
_BATCH: Final[Mapping[str, Any]] = {"type": "array", "items": EVENT}
EVENTS_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        "application/cloudevents+json": {"schema": EVENT},
        "application/cloudevents-batch+json": {"schema": _BATCH},
        "application/json": {"schema": {"oneOf": [EVENT, _BATCH]}},
        "application/x-ndjson": {"schema": {"type": "string", "description": "An event on each line."}},
    },
}
"""The body of ``POST /v1/events``, which no model of FastAPI reads: the bytes of each event are kept as they came."""
