"""One real PostgreSQL for the whole run, migrated once; every test that asks gets a fresh copy of that database."""

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import psycopg
import pytest
from sqlalchemy import Engine, make_url

import migrations
from core import database, embedded
from core.cluster import SUPERUSER
from core.roles import OWNER
from tests.kafka_kit import broker, kafka, own_broker, topic

__all__ = ["broker", "kafka", "own_broker", "topic"]  # fixtures that a module of their own makes

hypothesis.settings.register_profile("project", deadline=None, print_blob=True)
hypothesis.settings.load_profile("project")


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The address of a server whose role may make databases: one that is given, else an embedded one."""
    if given := os.environ.get("GPU_BILLING_TEST_DATABASE_URL"):
        yield given
        return
    with data_folder() as data:
        yield embedded.start(data).url(SUPERUSER, SUPERUSER)


@contextmanager
def data_folder() -> Iterator[Path]:
    """A folder for an embedded server, stopped in the end.

    Not one of pytest's: for root the server is another user, whom every run of pytest shuts out of all of its folders.
    """
    with tempfile.TemporaryDirectory(prefix="gpu-billing-test-", ignore_cleanup_errors=True) as name:
        data = Path(name) / "data"
        try:
            yield data
        finally:
            embedded.stop(data)


@pytest.fixture(scope="session")
def template_url(server_url: str) -> Iterator[str]:
    """A database that the migrations made and nobody touches."""
    with _made(server_url) as url:
        with owner_engine(url) as owner:
            migrations.upgrade(owner)
        yield url


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder of the test's own, with no server yet."""
    with data_folder() as folder:
        yield folder


@pytest.fixture
def empty_database_url(server_url: str) -> Iterator[str]:
    """A database before the first migration."""
    with _made(server_url) as url:
        yield url


@pytest.fixture
def database_url(server_url: str, template_url: str) -> Iterator[str]:
    """A database of the test's own, migrated and empty."""
    with _made(server_url, template_url) as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Connections to the test's database, as the application's role."""
    made = database.engine(database_url)
    yield made
    made.dispose()


@contextmanager
def owner_engine(url: str) -> Iterator[Engine]:
    """Connections as the owner, all closed in the end, also when the test fails."""
    made = database.engine(url, as_owner=True)
    try:
        yield made
    finally:
        made.dispose()


@contextmanager
def _made(server_url: str, template_url: str | None = None) -> Iterator[str]:
    """A database with a name of its own, dropped in the end with whoever is still connected."""
    name = f"gpu_billing_test_{uuid.uuid4().hex[:12]}"
    user = make_url(server_url).username if "GPU_BILLING_TEST_DATABASE_URL" in os.environ else OWNER
    template = make_url(template_url).database if template_url else "template0"
    _execute(server_url, f'CREATE DATABASE {name} TEMPLATE "{template}" OWNER "{user}"')
    try:
        yield make_url(server_url).set(database=name, username=user).render_as_string(hide_password=False)
    finally:
        _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
