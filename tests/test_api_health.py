"""What a watchman is told: alive without a database, ready with one in shape; and what a sender is told meanwhile."""

from pathlib import Path

import pytest

import migrations
from core import embedded
from core.database import connect
from tests.api_kit import bearing, client_of, key_of
from tests.books_kit import books, event
from tests.conftest import owner_engine


def test_ready_with_a_database_in_shape(database_url: str) -> None:
    with client_of(database_url) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert (client.get("/readyz").status_code, client.get("/readyz").json()) == (200, {"status": "ready"})


def test_not_ready_before_the_migrations(empty_database_url: str) -> None:
    with client_of(empty_database_url) as client:
        answer = client.get("/readyz")

        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert answer.json()["detail"] == f"the database is at the beginning, this program needs {migrations.head()}"
        assert client.get("/healthz").status_code == 200


def test_not_ready_on_the_database_of_another_version(database_url: str) -> None:
    with connect(database_url, as_owner=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '2999_01_01_later'")
    with client_of(database_url) as client:
        told = client.get("/readyz").json()["detail"]

    assert told == f"the database is at 2999_01_01_later, this program needs {migrations.head()}"


def test_a_database_that_goes_away_and_comes_back(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.service.PATIENCE_S", 0.5)
    url = embedded.start(data).url()
    with owner_engine(url) as owner:
        migrations.upgrade(owner)
    key, started = key_of(url), event("2026-03-01 10:00", "instance.started")
    with client_of(url) as client:
        assert client.post("/v1/events", content=started, headers=bearing(key)).json()["accepted"] == 1

        embedded.stop(data)
        for answer in (client.get("/readyz"), client.post("/v1/events", content=started, headers=bearing(key))):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert answer.json()["detail"] == "the database cannot be reached; send it again, duplicates are harmless"
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 200

        embedded.start(data)
        for _ in range(40):
            answer = client.post("/v1/events", content=started, headers=bearing(key))
            if answer.status_code == 200:
                break
            assert answer.status_code == 503
        assert answer.json()["duplicate"] == 1
        assert client.get("/readyz").status_code == 200


def test_metrics_tell_verdicts_and_no_names(database_url: str) -> None:
    key = key_of(database_url)
    with books(database_url), client_of(database_url) as client:
        client.post("/v1/events", content=event("2026-03-01 10:00", "instance.started"), headers=bearing(key))
        page = client.get("/metrics")

    assert page.headers["content-type"].startswith("text/plain")
    assert 'gpu_billing_http_events_total{verdict="accepted"}' in page.text
    assert "gpu_billing_http_batch_seconds_count" in page.text
    assert "gpu_billing_open_instances 1.0" in page.text
    assert "gpu_billing_unproven_instances 0.0" in page.text
    for name in ("acct", key, key[4:16]):
        assert name not in page.text


def test_the_page_of_the_interface_names_every_answer(database_url: str) -> None:
    with client_of(database_url) as client:
        page = client.get("/openapi.json").json()

    post = page["paths"]["/v1/events"]["post"]
    assert post["security"] == [{"ingestKey": []}]
    assert set(post["requestBody"]["content"]) == {
        "application/cloudevents+json", "application/cloudevents-batch+json", "application/json", "application/x-ndjson"
    }  # fmt: skip
    assert set(post["responses"]) == {"200", "207", "400", "401", "403", "408", "413", "415", "429", "503"}
    assert page["components"]["securitySchemes"] == {"ingestKey": {"type": "http", "scheme": "bearer"}}
