"""Where the books are and how to reach them: an address from the settings, else the embedded server.

Every connection speaks UTC, names its program, and works as the application's role, unless it asks to be the owner.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import TupleRow

from core import embedded
from core.errors import BillingError
from core.roles import APPLICATION

if TYPE_CHECKING:  # SQLAlchemy takes a fifth of a second to import, and not every command needs it
    from psycopg_pool import ConnectionPool
    from sqlalchemy import Engine

    from core.config import Settings

CONNECT_SECONDS = 10
# The role is taken where it exists and may be taken: before the first migration it need not.
SESSION = "SELECT set_config('TimeZone', 'UTC', false)"
WORK_AS = """
    SELECT set_config('role', rolname, false) FROM pg_roles
    WHERE rolname = %s AND pg_has_role(session_user, oid, 'MEMBER')
"""


class DatabaseUnavailable(BillingError):
    """The server cannot be reached or lets us not in."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"database: {reason}")


def database(settings: Settings) -> str:
    """The address of the books for libpq; without one in the settings, of the embedded server, started if need be."""
    return settings.database_url or embedded.start(settings.data).url()


def connect(url: str, *, as_owner: bool = False) -> psycopg.Connection[TupleRow]:
    """A psycopg connection, not in a transaction yet; for COPY and other hot paths."""
    try:
        connection = psycopg.connect(
            url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="gpu-billing"
        )
        try:
            _begin_session(connection, as_owner=as_owner)
        except BaseException:
            connection.close()
            raise
    except psycopg.Error as error:
        raise DatabaseUnavailable(" ".join(str(error).split())) from error
    return connection


def _begin_session(connection: psycopg.Connection[TupleRow], *, as_owner: bool) -> None:
    """Outside of a transaction, whose end would take the settings back."""
    connection.execute(SESSION)
    if not as_owner:
        connection.execute(WORK_AS, [APPLICATION])
    connection.autocommit = False


def engine(url: str, *, as_owner: bool = False) -> Engine:
    """A SQLAlchemy engine over the same connections."""
    from sqlalchemy import create_engine  # noqa: PLC0415  # see above

    return create_engine("postgresql+psycopg://", creator=lambda: connect(url, as_owner=as_owner), pool_pre_ping=True)


def pool(url: str, most: int, patience_s: float) -> ConnectionPool[psycopg.Connection[TupleRow]]:
    """A few connections in autocommit mode for short questions of many threads, not opened yet.

    Who gets none within ``patience_s`` seconds meets ``psycopg_pool.PoolTimeout``, an ``OperationalError``.
    """
    from psycopg_pool import ConnectionPool  # noqa: PLC0415  # only processes that run on need one

    def begin(connection: psycopg.Connection[TupleRow]) -> None:
        _begin_session(connection, as_owner=False)
        connection.autocommit = True

    def look(connection: psycopg.Connection[TupleRow]) -> None:
        """Nothing is to be read at rest, unless the server has ended it: a look costs no round trip."""
        watched = select.poll()
        watched.register(connection.fileno(), select.POLLIN)
        if watched.poll(0):
            connection.close()  # else the pool would hand it out again
            raise psycopg.OperationalError("the server has ended the connection")

    return ConnectionPool(
        url, min_size=1, max_size=most, timeout=patience_s, open=False, configure=begin,
        check=look, reconnect_timeout=0,
        kwargs={"autocommit": True, "connect_timeout": CONNECT_SECONDS, "application_name": "gpu-billing"},
    )  # fmt: skip
