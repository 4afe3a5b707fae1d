"""What Alembic runs: in one transaction, with a short patience for tables that others hold."""

from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module

from alembic import context
from alembic.operations import MigrationScript
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text

from core.tables import metadata
from migrations import FOLDER

for owner in ("pricing", "metering", "invoices"):  # each declares its tables in the one catalogue
    if (FOLDER.parent / owner / "tables.py").exists():
        import_module(f"{owner}.tables")

LOCK_TIMEOUT = "5s"  # better to fail and be run again than to queue every reader behind a waiting ALTER TABLE


def name_by_date_and_subject(
    _context: MigrationContext, _revision: str | Iterable[str | None] | Iterable[str], directives: list[MigrationScript]
) -> None:
    """A new step is named 2026_12_01_subject, and that is its identity."""
    for each in directives:
        subject = "_".join((each.message or "change").lower().split())
        each.rev_id = f"{datetime.now(UTC):%Y_%m_%d}_{subject}"


def run(connection: Connection) -> None:
    """Migrates inside the transaction that the connection is in."""
    connection.execute(text("SELECT set_config('lock_timeout', :patience, true)"), {"patience": LOCK_TIMEOUT})
    context.configure(
        connection=connection,
        target_metadata=metadata,
        process_revision_directives=name_by_date_and_subject,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    raise SystemExit("migrations read the database they change, so they cannot be written out as SQL")
if (given := context.config.attributes.get("connection")) is not None:
    run(given)
else:  # the alembic command: alembic -x url=postgresql+psycopg://...
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as opened:
        run(opened)
