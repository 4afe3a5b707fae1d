"""``POST /v1/events``: usage events in, a verdict for each out, once they are durable (R25, R26)."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from api import metrics
from api.auth import ingest_key
from api.bodies import MAX_BYTES, BodyTooLarge, expanded, lines_of
from api.errors import BodyTooSlow
from api.schemas import EVENTS_BODY, Accepted, NotAccepted, Problem, Recorded, Verdict
from api.service import Service, service
from core.calendar import second_of
from core.keys import Key
from metering.lines import Line
from metering.recorder import Refusal

BODY_S: Final = 30.0
"""A body has so long to arrive."""

router = APIRouter(prefix="/v1", tags=["events"])
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem, "content": {"application/problem+json": {}}}
    for status in (400, 401, 403, 408, 413, 415, 429, 503)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Received:
    """A body as it came, and whose it is."""

    key: Key
    body: bytes


async def admitted(shared: Service = Depends(service)) -> AsyncIterator[None]:  # noqa: B008  # how FastAPI is told
    """A place among the requests being worked on, before anything is read or asked for it."""
    with shared.admission.any():
        yield


async def received(
    request: Request, _: None = Depends(admitted), key: Key = Depends(ingest_key), shared: Service = Depends(service)  # noqa: B008
) -> AsyncIterator[Received]:  # fmt: skip
    """The body, once the key is good; reading is the one thing that only the event loop can do."""
    with shared.admission.of(key.id):
        yield Received(key, await _body_of(request))


async def _body_of(request: Request) -> bytes:
    if int(request.headers.get("content-length") or 0) > MAX_BYTES:
        raise BodyTooLarge
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BYTES:
                    raise BodyTooLarge
                parts.append(part)
    except TimeoutError:
        raise BodyTooSlow(BODY_S) from None
    return b"".join(parts)


@router.post(
    "/events", response_model=Recorded, openapi_extra={"requestBody": EVENTS_BODY, "security": [{"ingestKey": []}]},
    responses={207: {"model": Recorded, "description": "Recorded; some events were rejected."}, **_PROBLEMS},
)  # fmt: skip
def post_events(request: Request, sent: Received = Depends(received), shared: Service = Depends(service)) -> Response:  # noqa: B008
    """Record events: 200 when all are in the books, 207 when some were rejected; both only after they are durable."""
    headers = request.headers
    lines = lines_of(expanded(sent.body, headers.get("content-encoding", "")), headers)
    request.state.bytes, request.state.events = len(sent.body), len(lines)
    received_at = second_of(shared.clock())
    refusals = shared.recorders.record(f"http:{sent.key.id}", lines, received_at) if lines else []
    told = recorded(lines, refusals)
    metrics.note_events({"accepted": told.accepted, "duplicate": told.duplicate, "rejected": told.rejected})
    return Response(msgspec.json.encode(told), 207 if told.rejected else 200, media_type="application/json")


def recorded(lines: Sequence[Line], refusals: Sequence[Refusal]) -> Recorded:
    """The answer: a verdict for each event in order; ``refusals`` are in order too."""
    duplicate = sum(each.verdict == "duplicate" for each in refusals)
    rejected = len(refusals) - duplicate
    verdicts = list(_verdicts(lines, refusals))
    return Recorded(len(lines), len(lines) - len(refusals), duplicate, rejected, verdicts)


class _Named(msgspec.Struct):
    id: str


_named: Final = msgspec.json.Decoder(_Named)


def _verdicts(lines: Sequence[Line], refusals: Sequence[Refusal]) -> Iterator[Verdict]:
    refused: dict[int, Any] = {each.index: each for each in refusals}
    for place, line in enumerate(lines):
        told = refused.get(place)
        if told is None:
            yield Accepted(_named.decode(line.raw).id)
        else:
            yield NotAccepted(told.id, told.verdict, told.reason, told.detail)
