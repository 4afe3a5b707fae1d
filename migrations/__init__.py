"""The database's shape over time: one file a step in `versions/`, named by date and subject, and its identity too.

Because names are identities and dates order them, the newest step is known without loading Alembic.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command asks for the newest step, and few need more
    from alembic.config import Config
    from sqlalchemy import Connection, Engine

FOLDER = Path(__file__).parent
APPLICATION = "gpu_billing_app"
ONE_AT_A_TIME = 0x6770755F62696C6C  # "gpu_bill": no two migrations of one database at once


class MigrationRefused(Exception):
    """The server's state forbids the migration; the text says what its administrator has to do."""


def head() -> str | None:
    """The newest step this program knows."""
    return max((file.stem for file in (FOLDER / "versions").glob("[0-9]*.py")), default=None)


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration for a connection that is open already."""
    from alembic.config import Config  # noqa: PLC0415  # no command but a migration waits for Alembic to load

    made = Config(attributes={"connection": connection})
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return made


def upgrade(engine: Engine) -> None:
    """Brings the database to :func:`head` in one transaction; the engine must connect as the owner."""
    from alembic import command  # noqa: PLC0415  # likewise

    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ONE_AT_A_TIME})")
        _make_role(connection)
        command.upgrade(config(connection), "head")
        connection.exec_driver_sql(f"GRANT SELECT ON alembic_version TO {APPLICATION}")


def _make_role(connection: Connection) -> None:
    """The application's role, which the steps grant rights to, and the right to work as it."""
    role = f"FROM pg_roles WHERE rolname = '{APPLICATION}'"
    member = connection.exec_driver_sql(f"SELECT pg_has_role(session_user, oid, 'MEMBER') {role}").scalar()
    if member:
        return
    may = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = session_user"
    if not connection.exec_driver_sql(may).scalar():
        raise MigrationRefused(
            f"an administrator has to run once: CREATE ROLE {APPLICATION}; GRANT {APPLICATION} TO <your role>"
        )
    if member is None:
        connection.exec_driver_sql(f"CREATE ROLE {APPLICATION} NOLOGIN")
    connection.exec_driver_sql(f"GRANT {APPLICATION} TO SESSION_USER")
