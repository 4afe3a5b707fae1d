"""A command works only on a database of its own version; a server given by its address is never changed on the way."""

from pathlib import Path

import pytest

import migrations
from cli.books import BooksOfAnotherVersion, books, step
from core.config import Settings
from core.database import connect


def test_embedded_database_is_brought_up_to_date(data: Path) -> None:
    url = books(Settings(data=data))

    assert step(url) == migrations.head()


def test_given_server_is_migrated_on_purpose_only(empty_database_url: str, data: Path) -> None:
    with pytest.raises(BooksOfAnotherVersion) as caught:
        books(Settings(database_url=empty_database_url, data=data))

    needed = migrations.head()
    assert str(caught.value) == (
        f"the database is at the beginning, this program needs {needed}: run `gpu-billing database migrate`"
    )
    assert step(empty_database_url) is None


def test_database_of_a_newer_program_is_left_alone(database_url: str, data: Path) -> None:
    with connect(database_url, as_owner=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '2999_01_01_later'")

    with pytest.raises(BooksOfAnotherVersion, match=r"is at 2999_01_01_later, .*: update gpu-billing$"):
        books(Settings(database_url=database_url, data=data))


def test_database_of_this_program_is_used_as_it_is(database_url: str, data: Path) -> None:
    assert books(Settings(database_url=database_url, data=data)) == database_url
    assert not data.exists()
