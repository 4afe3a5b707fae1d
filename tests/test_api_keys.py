"""Keys: made once, kept as a hash, refused when they are unknown, expired, revoked or for something else."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient

from cli import main
from core.config import Settings
from core.database import connect
from core.key_store import revoke_key
from core.keys import id_in, key_digest, new_key
from core.pepper import PepperMissing, pepper
from tests.api_kit import NOW, PEPPER, bearing, client_of, key_of


@pytest.fixture
def client(database_url: str) -> Iterator[TestClient]:
    with client_of(database_url) as made:
        yield made


@pytest.fixture
def given(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command finds the test's database and pepper."""
    monkeypatch.setenv("GPU_BILLING_DATABASE_URL", database_url)
    monkeypatch.setenv("GPU_BILLING_PEPPER", PEPPER.decode())


def answer_to(client: TestClient, key: str) -> tuple[int, str, str | None]:
    answer = client.post("/v1/events", content=b"[]", headers=bearing(key))
    return answer.status_code, answer.json().get("detail", ""), answer.headers.get("www-authenticate")


ASK = 'Bearer realm="gpu-billing"'
INVALID = f'{ASK}, error="invalid_token"'


def test_a_good_key_is_let_in(client: TestClient, database_url: str) -> None:
    assert answer_to(client, key_of(database_url, expires=NOW + timedelta(seconds=1))) == (200, "", None)


@pytest.mark.parametrize("sent", [None, "", "Basic dTpw", "Bearer", "Bearer  "])
def test_no_key(client: TestClient, sent: str | None) -> None:
    headers = {"content-type": "application/json"} | ({} if sent is None else {"authorization": sent})

    answer = client.post("/v1/events", content=b"[]", headers=headers)

    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, ASK)
    assert answer.json()["detail"] == "send an ingest key as `Authorization: Bearer gbk_...`"


def test_a_key_that_is_not_known(client: TestClient, database_url: str) -> None:
    good = key_of(database_url)
    wrong = good[:-1] + ("A" if good[-1] != "A" else "B")

    for each in (new_key(), wrong, good + "x", good.upper(), "nonsense", key_of(database_url, pepper=b"another")):
        assert answer_to(client, each) == (401, "this key is not known", INVALID)


def test_a_key_that_expired(client: TestClient, database_url: str) -> None:
    key = key_of(database_url, expires=NOW)

    assert answer_to(client, key) == (401, f"key {id_in(key)} expired at 2026-12-01T00:00:00+00:00", INVALID)


def test_a_key_is_revoked_from_the_next_request_on(client: TestClient, database_url: str) -> None:
    key = key_of(database_url)
    assert answer_to(client, key)[0] == 200

    with closing(connect(database_url)) as db, db.transaction():
        revoke_key(db, str(id_in(key)))

    assert answer_to(client, key) == (401, f"key {id_in(key)} was revoked", INVALID)


def test_a_key_for_something_else(client: TestClient, database_url: str) -> None:
    key = key_of(database_url, scope="read")

    status, detail, ask = answer_to(client, key)

    assert (status, detail) == (403, f"key {id_in(key)} has the scope 'read', not 'ingest'")
    assert ask == f'{ASK}, error="insufficient_scope", scope="ingest"'


def test_the_tables_of_keys_only_grow(database_url: str) -> None:
    key_of(database_url)
    for statement in ("UPDATE api_key SET scope = 'all'", "DELETE FROM api_key", "DELETE FROM api_key_revocation"):
        with connect(database_url, as_owner=True) as db, pytest.raises(psycopg.Error, match="only grows"):
            db.execute(statement)


# --- the commands ----------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once_and_kept_as_a_hash(
    given: None, client: TestClient, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["keys", "create", "--name", "north"]) == 0
    told = capsys.readouterr()
    key = told.out.strip()

    assert told.err == f"key {id_in(key)} for north; it is shown this once\n"
    assert answer_to(client, key)[0] == 200
    with connect(database_url) as db:
        assert db.execute("SELECT id, name, scope, digest, expires_at FROM api_key").fetchall() == [
            (id_in(key), "north", "ingest", key_digest(PEPPER, key), None)
        ]


def test_keys_are_listed_and_revoked(given: None, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["keys", "create", "--name", "a", "--json"])
    made = json.loads(capsys.readouterr().out)
    main.run(["keys", "create", "--name", "b", "--expires", "2099-01-01T00:00:00+08:00"])
    capsys.readouterr()

    assert main.run(["keys", "revoke", made["id"], made["id"]]) == 0
    assert capsys.readouterr().out == f"{made['id']} revoked\n{made['id']} was revoked before\n"

    assert main.run(["keys", "list", "--json"]) == 0
    told = capsys.readouterr().out
    assert [(k["name"], k["status"], k["expires"]) for k in json.loads(told)["keys"]] == [
        ("a", "revoked", None),
        ("b", "valid", "2098-12-31T16:00:00+00:00"),
    ]
    assert made["key"] not in told
    assert main.run(["keys", "list"]) == 0
    assert "revoked" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["create", "--name", ""], "--name: 1 to 64 printable characters"),
        (["create", "--name", "a\x1b[1m"], "--name: 1 to 64 printable characters"),
        (["create", "--name", "a", "--expires", "soon"], "--expires: 'soon' is not an ISO 8601 instant like"),
        (
            ["create", "--name", "a", "--expires", "2026-01-01T00:00:00Z"],
            "--expires: '2026-01-01T00:00:00Z' is not later than now",
        ),
        (["revoke", "0123"], "no key has the id '0123'; `gpu-billing keys list` shows them all"),
    ],
)
def test_a_slip_on_the_command_line(
    given: None, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert main.run(["keys", *words]) == 2
    assert capsys.readouterr().err.startswith(f"gpu-billing: {line}")


# --- the pepper ------------------------------------------------------------------------------------------------------


def test_the_embedded_server_has_a_pepper_of_its_own(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "new")

    first = pepper(settings)

    assert len(first) == 43
    assert pepper(settings) == first
    assert [file.name for file in settings.data.iterdir()] == ["pepper"]
    assert stat.S_IMODE((settings.data / "pepper").stat().st_mode) == 0o600


def test_a_given_server_needs_a_given_pepper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(PepperMissing, match=r"^GPU_BILLING_PEPPER is not set: keys on a server given by its address"):
        pepper(Settings(database_url="postgresql://nowhere/x", data=tmp_path))

    monkeypatch.setenv("GPU_BILLING_PEPPER", "p" * 32)
    assert pepper(Settings(database_url="postgresql://nowhere/x", data=tmp_path)) == b"p" * 32


def test_a_short_pepper_is_refused_unshown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(os.environ, "GPU_BILLING_PEPPER", "hunter2")

    assert main.run(["keys", "list"]) == 2
    assert capsys.readouterr().err == "gpu-billing: GPU_BILLING_PEPPER: must be 32 characters or more\n"
