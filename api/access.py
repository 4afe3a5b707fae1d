"""Around every request: an id, a line in the log, an observation in the metrics; never a header or a query in them."""

import re
import time
from typing import Final
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from api import metrics

REQUEST_ID: Final = "x-request-id"
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
QUIET: Final = ("/healthz", "/readyz", "/metrics")
"""Asked every few seconds by machines; logged where they fail."""

log = structlog.get_logger(__name__)


class Access:
    """Middleware that names, times and logs requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        began, status = time.perf_counter(), 500

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        with bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_named)
            finally:
                _note(scope, status, time.perf_counter() - began)


def _note(scope: Scope, status: int, seconds: float) -> None:
    route = getattr(scope.get("route"), "path", "other")  # a path that somebody made up is no label
    metrics.note_request(route, scope["method"], status, seconds)
    if status < 400 and route in QUIET:
        return
    state, client = scope["state"], scope.get("client")
    told = {name: state[name] for name in ("key", "bytes", "events") if name in state}
    log.info(
        "request", method=scope["method"], path=scope["path"], status=status, ms=round(seconds * 1000, 1),
        client=client[0] if client else None, **told,
    )  # fmt: skip
