"""The migrations make exactly the tables that the code declares, once, whoever runs them at the same time."""

import subprocess
import sys

from alembic import command
from alembic.script import ScriptDirectory

import migrations
from cli.books import migrate, step
from tests.conftest import owner_engine


def test_migrated_tables_are_the_declared_ones(database_url: str) -> None:
    with owner_engine(database_url) as owner, owner.begin() as connection:
        command.check(migrations.config(connection))


def test_newest_name_is_the_head() -> None:
    script = ScriptDirectory.from_config(migrations.config())

    assert script.get_heads() == ([migrations.head()] if migrations.head() else [])
    assert all(each.module.__name__.startswith(each.revision) for each in script.walk_revisions())


def test_migrating_at_once_and_again_is_harmless(empty_database_url: str) -> None:
    words = [
        sys.executable,
        "-c",
        "import sys; from cli.books import migrate; migrate(sys.argv[1])",
        empty_database_url,
    ]
    commands = [subprocess.Popen(words) for _ in range(3)]
    assert [each.wait() for each in commands] == [0, 0, 0]
    migrate(empty_database_url)

    assert step(empty_database_url) == migrations.head()
