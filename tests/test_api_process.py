"""`gpu-billing serve` as a process: started, asked, stopped, killed in the middle, started again."""

import random
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import sleep

import httpx2
import pytest

from tests.api_kit import BATCH, LINES, PEPPER, Server, batch_of, bearing, counts, key_of, serving
from tests.ledger_kit import latest, lines_of, opened, pure, terms_of
from tests.test_api_laws import a_stream


def test_from_the_first_request_to_the_last_log_line(database_url: str) -> None:
    events, book = a_stream(2, 2)
    raws = [line.raw for line in lines_of(events)]
    key = key_of(database_url)
    with opened(database_url) as books, serving(database_url) as server:
        books.fresh(terms_of(book))
        key = key_of(database_url)
        with httpx2.Client(base_url=server.address) as client:
            assert client.get("/healthz").json() == {"status": "alive"}
            assert client.get("/readyz").json() == {"status": "ready"}
            first = client.post("/v1/events", content=batch_of(raws[:8]), headers=bearing(key, BATCH))
            both = client.post("/v1/events?token=hush", content=b"\n".join(raws), headers=bearing(key, LINES))
            assert client.get(f"/{key}").status_code == 404
            page = client.get("/metrics")

        assert (counts(first.json()), counts(both.json())) == ((8, 8, 0, 0), (16, 8, 8, 0))
        assert books.bills(latest(events))["bills"] == pure(events, terms_of(book), latest(events))["bills"]
        assert 'gpu_billing_http_events_total{verdict="accepted"} 16.0' in page.text
        assert 'gpu_billing_http_events_total{verdict="duplicate"} 8.0' in page.text
        assert "acct-" not in page.text
        assert key[4:16] not in page.text
        assert server.end(signal.SIGTERM) == 0

    logged = [line for line in server.logged() if line["event"] == "request"]
    assert [(line["method"], line["path"], line["status"]) for line in logged] == [
        ("POST", "/v1/events", 200), ("POST", "/v1/events", 200), ("GET", f"/gbk_{key[4:16]}_***", 404)
    ]  # fmt: skip
    assert logged[0]["key"] == key[4:16]
    assert (logged[0]["events"], logged[0]["request_id"]) == (8, first.headers["x-request-id"])
    said = "".join(server.said)
    for secret in (key, key[17:], "hush", PEPPER.decode()):
        assert secret not in said


@pytest.mark.parametrize("seed", [1, 2])
def test_a_server_killed_under_load_loses_nothing_and_counts_nothing_twice(database_url: str, seed: int) -> None:
    events, book = a_stream(20, 8)
    terms, chance = terms_of(book), random.Random(seed)
    raws = [line.raw for line in lines_of(events)]
    parts = [raws[n : n + 16] for n in range(0, len(raws), 16)]
    with opened(database_url) as books:
        books.fresh(terms)
        keys = [key_of(database_url), key_of(database_url)]
        with serving(database_url) as server, ThreadPoolExecutor(6) as senders:
            done = [senders.submit(_send, server, chance.choice(keys), part) for part in parts]
            enough = chance.randint(50, len(events) // 2)
            while books.db.execute("SELECT count(*) >= %s FROM event", [enough]).fetchone() != (True,):
                sleep(0.002)
            server.end(signal.SIGKILL)
            accepted = sum(each.result() for each in done)
            assert accepted < len(events), "it was to be killed in the middle"
        recorded = books.db.execute("SELECT count(*) FROM event").fetchone()
        assert recorded is not None
        assert recorded[0] >= accepted, seed  # what was answered is there

        with serving(database_url) as server:
            chance.shuffle(parts)
            for part in parts:
                assert _send(server, chance.choice(keys), part) >= 0
            assert server.end(signal.SIGTERM) == 0

        as_of = latest(events)
        assert books.bills(as_of) | {"duplicates": 0} == pure(events, terms, as_of)
        assert books.differences() == []


def _send(server: Server, key: str, part: list[bytes]) -> int:
    """How many events a request says that it recorded; nothing where there was no answer."""
    with suppress(httpx2.TransportError):
        answer = httpx2.post(f"{server.address}/v1/events", content=batch_of(part), headers=bearing(key), timeout=30)
        assert answer.status_code == 200, answer.text
        return counts(answer.json())[1]
    return 0


def test_two_processes_add_up_their_figures(database_url: str) -> None:
    with serving(database_url, processes=2) as server:
        key = key_of(database_url)
        for _ in range(20):
            answer = httpx2.post(f"{server.address}/v1/events", content=b"[]", headers=bearing(key))
            assert answer.status_code == 200
        page = httpx2.get(f"{server.address}/metrics").text
        assert 'gpu_billing_http_requests_total{method="POST",route="/v1/events",status="200"} 20.0' in page
        assert server.end(signal.SIGTERM) == 0


def test_a_port_that_is_taken_is_no_traceback(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_BILLING_DATABASE_URL", database_url)
    monkeypatch.setenv("GPU_BILLING_PEPPER", PEPPER.decode())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [str(Path(sys.executable).parent / "gpu-billing"), "serve", f"--port={taken.getsockname()[1]}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_pepper_nothing_listens(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_BILLING_DATABASE_URL", database_url)
    monkeypatch.delenv("GPU_BILLING_PEPPER", raising=False)
    command = [str(Path(sys.executable).parent / "gpu-billing"), "serve", "--port=0"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stderr == (
        "gpu-billing: GPU_BILLING_PEPPER is not set: keys on a server given by its address need a secret of 32"
        " characters or more, the same for all that serve it\n"
    )
