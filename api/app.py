"""The application: what it is made of, and how a process makes it from its settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio.to_thread
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from api import errors
from api.access import Access
from api.routers import events, health
from api.service import MOST_REQUESTS, opened
from core import logs
from core.clock import Clock, now
from core.config import load
from core.database import database
from core.pepper import pepper

RECORDERS: Final = 4
SPARE_THREADS: Final = 8
"""Threads beyond those that wait for recorders, so that health is answered under any load."""


def create_app(url: str, secret: bytes, recorders: int = RECORDERS, clock: Clock = now) -> FastAPI:
    """The application on a database, with a pepper; it opens its connections when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = MOST_REQUESTS + SPARE_THREADS
        app.state.service = opened(url, secret, recorders, clock)
        try:
            yield
        finally:
            await run_in_threadpool(app.state.service.close)

    app = FastAPI(
        title="gpu-billing", version="1", lifespan=lifespan,
        docs_url=None, redoc_url=None,  # their pages load scripts from elsewhere; /openapi.json is enough
    )  # fmt: skip
    errors.install(app)
    app.include_router(events.router)
    app.include_router(health.router)
    app.add_middleware(Access)
    _declare_keys(app)
    return app


def _declare_keys(app: FastAPI) -> None:
    """Say in the OpenAPI page that keys are bearer tokens."""
    make = app.openapi

    def described() -> dict[str, Any]:
        page = make()
        page.setdefault("components", {})["securitySchemes"] = {"ingestKey": {"type": "http", "scheme": "bearer"}}
        return page

    app.openapi = described  # type: ignore[method-assign]


def from_settings() -> FastAPI:
    """The application of a process of its own."""
    logs.configure()
    settings = load()
    return create_app(database(settings), pepper(settings))
