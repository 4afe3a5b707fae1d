"""What a watchman asks, without a key: does the process live, can it work, what has it counted."""

from fastapi import APIRouter, Depends, Response
from prometheus_client import CONTENT_TYPE_LATEST

import migrations
from api import metrics
from api.errors import NotReady
from api.schemas import Problem, State
from api.service import Service, service

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> State:
    """The process answers."""
    return State("alive")


@router.get("/readyz", responses={503: {"model": Problem}})
def readyz(shared: Service = Depends(service)) -> State:  # noqa: B008  # how FastAPI is told
    """The database is there, and in the shape that this program needs."""
    needed = migrations.head()
    with shared.questions.connection() as db:
        row = db.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
        found = db.execute("SELECT version_num FROM alembic_version").fetchone() if row and row[0] else None
    if found is None or found[0] != needed:
        raise NotReady(found[0] if found else None, needed)
    return State("ready")


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def figures(shared: Service = Depends(service)) -> Response:  # noqa: B008
    """What Prometheus scrapes: counts by route, status and verdict, and nothing about any account or key."""
    return Response(metrics.page(shared.instances), media_type=CONTENT_TYPE_LATEST)
