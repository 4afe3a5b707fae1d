"""The books as a command wants them: reachable, and in the shape that this program needs."""

from contextlib import closing

import migrations
from core.config import Settings
from core.database import connect, database, engine
from core.errors import BillingError


class BooksOfAnotherVersion(BillingError):
    """A server given by its address is at another step than this program; such a server is migrated on purpose only."""

    def __init__(self, step: str | None, needed: str) -> None:
        todo = "run `gpu-billing database migrate`" if (step or "") < needed else "update gpu-billing"
        super().__init__(f"the database is at {step or 'the beginning'}, this program needs {needed}: {todo}")


class MigrationRefused(BillingError):
    """The server's state forbids the migration."""


def books(settings: Settings) -> str:
    """The address of a database that is up to date; the embedded one is brought there."""
    url = database(settings)
    at, needed = step(url), migrations.head()
    if needed is None or at == needed:
        return url
    if settings.database_url or (at or "") > needed:
        raise BooksOfAnotherVersion(at, needed)
    migrate(url)
    return url


def step(url: str) -> str | None:
    """The last migration that the database has seen."""
    with closing(connect(url)) as connection:
        row = connection.execute("SELECT to_regclass('alembic_version')::text").fetchone()
        if row is None or row[0] is None:
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else None


def migrate(url: str) -> None:
    """Brings the database to this program's step, as the owner."""
    owner = engine(url, as_owner=True)
    try:
        migrations.upgrade(owner)
    except migrations.MigrationRefused as error:
        raise MigrationRefused(str(error)) from error
    finally:
        owner.dispose()
